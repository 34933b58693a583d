/* entry.h - one compiled kernel as one file: header, payloads, checksum.
 *
 *   0      magic "attune\n\1"          8 bytes
 *   8      head (entry.c)              fixed size, little-endian
 *   ...    payloads                    each at a multiple of 64, in order, zeros between
 *   end    SHA-256 of all before it    32 bytes, right after the last payload
 *
 * Reading checks magic, version, lengths, checksum, ABI, that name, fields and pins say the same,
 * and (for a cubin) the ELF bounds, because the driver's load calls take no length. Anything wrong
 * is ATTUNE_BAD_FILE: callers treat it as a miss. Nothing in an entry depends on time, path, host
 * or locale: equal input, equal bytes. */
#ifndef ATTUNE_ENTRY_H
#define ATTUNE_ENTRY_H

#include "variant.h"

#include <sys/types.h>

/* Tensor maps of a kernel that loads by TMA. */
enum { ATTUNE_MAP_Q, ATTUNE_MAP_K, ATTUNE_MAP_V, ATTUNE_MAP_O, ATTUNE_MAPS };

enum { ATTUNE_ENTRY_VERSION = 3, ATTUNE_ENTRY_MAX = 64 << 20 };

typedef enum attune_payload {
  ATTUNE_PAYLOAD_CUBIN = 0,  /* ELF, raw */
  ATTUNE_PAYLOAD_PTX = 1,    /* optional, zstd: for the CPU device */
  ATTUNE_PAYLOAD_SOURCE = 2, /* optional, zstd: the CUDA text */
  ATTUNE_PAYLOADS = 3
} attune_payload;

typedef enum attune_grid {
#define X(name, id, text, doc) ATTUNE_GRID_##name = id,
  ATTUNE_GRIDS(X)
#undef X
} attune_grid;

typedef enum attune_workspace_rule {
#define X(name, id, text, doc) ATTUNE_WORKSPACE_##name = id,
  ATTUNE_WORKSPACES(X)
#undef X
} attune_workspace_rule;

/* How to launch: everything the runtime must know that is not in the call. */
typedef struct attune_recipe {
  uint32_t abi;         /* ATTUNE_ABI */
  uint32_t param_bytes; /* size of the op's parameter block */
  uint32_t threads;     /* per block */
  uint32_t smem_bytes;  /* dynamic shared memory, from the ledger */
  uint32_t grid;        /* ATTUNE_GRIDS */
  uint32_t block_m, block_n;
  uint32_t cluster;    /* blocks per cluster; 1 */
  uint32_t workspace;  /* ATTUNE_WORKSPACES */
  uint32_t persistent; /* blocks on an SM that take one tile of the grid after the other; 0: a block
                          a tile */
  uint32_t early; /* 1: the kernel itself waits for what runs ahead of it in its stream, so it may
                     be launched before that has ended (griddepcontrol.wait) */
  uint32_t maps;  /* 1: tensor maps of Q, K, V and O stand behind the parameter block */
  struct {
    uint32_t rows,
        columns; /* elements that one TMA instruction moves; a row is a swizzle's width */
  } box[ATTUNE_MAPS];
} attune_recipe;

/* What the compiler made of it. */
typedef struct attune_facts {
  uint32_t registers;   /* per thread */
  uint32_t spill_bytes; /* spill stores + loads */
  uint32_t stack_bytes; /* local frame */
  uint32_t static_smem;
  uint32_t c75_lines; /* of ptxas's log, C75xx: wgmma serialised, setmaxnreg ignored, ... */
} attune_facts;

typedef struct attune_entry {
  char name[ATTUNE_NAME_MAX]; /* kernel name = symbol */
  attune_variant variant;     /* with its part */
  attune_tile tile;
  attune_pinset pins;
  attune_recipe recipe;
  attune_facts facts;
  char compiler[32]; /* "nvrtc 13.0.88" */
  struct {
    const void *data; /* borrowed from the file's bytes, or set by the writer; NULL: absent */
    size_t bytes;     /* as stored */
    size_t raw_bytes; /* once decompressed; = bytes when stored raw */
  } payload[ATTUNE_PAYLOADS];
} attune_entry;

/* Serialises into one malloc'ed block; the caller frees it. Payloads are compressed here
 * (raw_bytes is ignored on input; no bytes: absent). ATTUNE_INVALID for an entry that
 * attune__entry_read would refuse, with its reason. */
attune_status attune__entry_write(const attune_entry *entry, void **out, size_t *out_bytes);
/* Checks the bytes and fills entry; payload pointers point into bytes. */
attune_status attune__entry_read(const void *bytes, size_t size, attune_entry *entry);
/* Decompresses a payload into a malloc'ed, NUL-terminated block. ATTUNE_NOT_FOUND when absent. */
attune_status attune__entry_payload(const attune_entry *entry, attune_payload which, char **out,
                                    size_t *out_bytes);

/* 1 when every table, segment and section of a cubin's ELF lies within its bytes (elf.c). */
int attune__elf_sane(const void *elf, size_t size);

/* Files: whole-file read (ATTUNE_IO, ATTUNE_BAD_FILE when over max), and publish by temporary file
 * and rename in the same folder; a reader sees the old bytes or the new ones. *out is
 * malloc'ed and NUL-terminated. */
attune_status attune__file_read(const char *path, size_t max, void **out, size_t *out_bytes);
attune_status attune__file_publish(const char *path, const void *bytes, size_t size);
/* The same, on disk before it appears under its name: for what is shipped, not made again. */
attune_status attune__file_publish_synced(const char *path, const void *bytes, size_t size);
/* Reads up to size bytes, fewer at the end of the file; -1 with errno set. */
ssize_t attune__read_fully(int fd, char *to, size_t size);
/* mkdir -p with mode 0755 (or 0700 when private is set). */
attune_status attune__make_folders(const char *path, int private_mode);
/* SHA-256 as 64 lower-case hex digits and NUL. */
void attune__sha256_hex(const void *bytes, size_t size, char out[65]);

#endif
