/* ptx.h - PTX as the CPU device executes it: instructions with resolved operands, and the tables of
 * opcodes that it knows.
 *
 *   ptx_lex.c     text -> statements -> words
 *   ptx_parse.c   statements -> attune__ptx: declarations, labels, source lines
 *   ptx_match.c   one instruction -> a row of the tables, or a refusal with file, line and opcode
 *   ptx_ops_*.c   the tables, one per kind of work, and what each opcode does
 *
 * Nothing is guessed: an opcode is known as a whole, with its modifiers, and with the kind of every
 * operand; whatever no row says is refused when the kernel is loaded.
 *
 * The register file of a warp is one run of bytes. Every register, constant and special register
 * (%tid.x) has its place in it, so that an operand is an offset and an instruction never asks what
 * kind of operand it has: a 32-bit or 16-bit operand is 32 uint32_t (16-bit ones keep zeros above),
 * a 64-bit operand is 32 uint64_t, a predicate is one uint32_t with a bit per lane. */
#ifndef ATTUNE_CPU_PTX_H
#define ATTUNE_CPU_PTX_H

#include "../attune.h"

enum { ATTUNE__LANES = 32 };

/* ---- addresses --------------------------------------------------------------------------------
 *
 * shared    as on the GPU: 0 .. 1023 belong to the driver, then the kernel's bytes. Bits 24 and up
 *           are the block's rank in the cluster plus 1 in shared::cluster addresses (mapa); 0: the
 *           block's own.
 * param     a parameter's name stands for ATTUNE__PARAM_SPACE plus its offset in the block.
 * global    device pointers of the launch's tensors, tagged (memory.h).
 */
enum { ATTUNE__SHARED_BASE = 1024, ATTUNE__SHARED_RANK_SHIFT = 24 };
#define ATTUNE__PARAM_SPACE (UINT64_C(0xff) << 56)

/* ---- instructions ------------------------------------------------------------------------------
 */

typedef struct attune__warp attune__warp;
typedef struct attune__ins attune__ins;

/* Executes one instruction for the lanes of `active` (never 0): engine.h has the operands, faults
 * and waits. */
typedef void attune__run(attune__warp *warp, const attune__ins *ins, uint32_t active);

typedef struct attune__operand {
  uint32_t slot;  /* bytes from the start of the register file */
  int32_t offset; /* of an address: [register + offset] */
  uint32_t bytes; /* of a lane: 4 or 8; 0: predicate */
} attune__operand;

struct attune__ins {
  attune__run *run;
  const attune__operand *operand; /* in the order of the text, vectors flattened */
  uint32_t operands;
  uint32_t flags;  /* of the opcode */
  int32_t number;  /* what the opcode's '#' stood for; 0 */
  int32_t target;  /* of a branch: index of an instruction */
  uint32_t guard;  /* slot of the predicate; 0: none */
  uint32_t negate; /* all ones: @!p; 0: @p */
  uint32_t place;  /* where it comes from: index of attune__ptx.place */
  uint32_t line;   /* of the PTX text */
  const struct attune__opcode *opcode;
};

/* A row of a table.
 *
 * name: the whole opcode; one '#' in it stands for a decimal number, which `number` gets.
 * operands: the text's form, with a letter for each operand; brackets, braces, '|' and commas stand
 * for themselves:
 *   w d h p   source of 32, 64, 16 bits, predicate: a register, or (not p) an immediate number
 *   W D H P   destination of that kind: a register; '_' (unused) is one too
 *   i         an integer written in the text
 *   s         shared address: 32- or 64-bit register or a number: 32 bits of it count
 *   g         64-bit address: a register
 *   a         parameter address: the parameter's name or a 64-bit register
 *   l         label
 *   *         behind a letter, within braces: any number of them, at least one
 * "W,[s]" is `%r1, [%r2+16]`; "{W,W},[g]" is a vector load; "W|P,w,w,w,w" a shuffle.
 * Rows of one name with different operands may stand anywhere in any table. */
typedef struct attune__opcode {
  const char *name, *operands;
  attune__run *run;
  uint32_t flags;
  int32_t data; /* for run and accept, which find it in ins->opcode */
  /* NULL, or whether number and count of operands go together ("m64n#" with {W*}). */
  int (*accept)(int32_t number, uint32_t operands);
} attune__opcode;

enum {
  ATTUNE__OP_BRANCH = 1,   /* "l" is where to; executed by exec.c, run is NULL */
  ATTUNE__OP_RETURN = 2,   /* likewise */
  ATTUNE__OP_WARP = 4,     /* .sync.aligned: a fault unless every lane of the warp takes part */
  ATTUNE__OP_WAITS = 8,    /* may call attune__wait */
  ATTUNE__OP_GATHERS = 64, /* operand 0 names lanes; those here wait for the others */
  ATTUNE__OP_SHARED8 = 16, /* touches shared memory in units of 1 byte: the shadow is that fine */
  ATTUNE__OP_SHARED16 = 32 /* likewise 2 bytes */
};

typedef struct attune__opcodes {
  const attune__opcode *row;
  size_t count;
} attune__opcodes;
/* The tables, all of them, and NULL (ptx_tables.c). */
extern const attune__opcodes *const attune__ptx_tables[];
extern const attune__opcodes attune__ops_int, attune__ops_float, attune__ops_convert,
    attune__ops_memory, attune__ops_sync, attune__ops_warp, attune__ops_atomic, attune__ops_async,
    attune__ops_cp_async, attune__ops_mbarrier, attune__ops_bulk, attune__ops_tma,
    attune__ops_cluster, attune__ops_mma, attune__ops_matrix, attune__ops_wgmma, attune__ops_half;

/* ---- programs ----------------------------------------------------------------------------------
 */

/* A source line. Inlined code has a parent: the line that called it; 0: none. */
typedef struct attune__place {
  uint32_t file, line, column; /* file: index of attune__ptx.file */
  uint32_t parent;
} attune__place;

/* A number, a shared variable's address or a special register that the file must hold. */
typedef struct attune__constant {
  uint64_t value;
  uint32_t slot, bytes; /* 4 or 8 a lane */
} attune__constant;

/* Special registers, by the slot that the program gave them; 0: not used. S(id, PTX name) */
#define ATTUNE__SPECIALS(S)                                                                        \
  S(TID_X, "%tid.x")                                                                               \
  S(TID_Y, "%tid.y")                                                                               \
  S(TID_Z, "%tid.z")                                                                               \
  S(NTID_X, "%ntid.x")                                                                             \
  S(CTAID_X, "%ctaid.x")                                                                           \
  S(CTAID_Y, "%ctaid.y")                                                                           \
  S(CTAID_Z, "%ctaid.z")                                                                           \
  S(NCTAID_X, "%nctaid.x")                                                                         \
  S(LANEID, "%laneid")                                                                             \
  S(WARPID, "%warpid")                                                                             \
  S(CLUSTER_CTARANK, "%cluster_ctarank")                                                           \
  S(CLUSTER_CTAID_X, "%cluster_ctaid.x")                                                           \
  S(CLUSTER_NCTAID_X, "%cluster_nctaid.x")                                                         \
  S(CLUSTERID_X, "%clusterid.x")
enum {
#define S(id, name) ATTUNE__SPECIAL_##id,
  ATTUNE__SPECIALS(S)
#undef S
      ATTUNE__SPECIAL_COUNT
};

/* A kernel, ready to run; shared by all threads, never written. */
typedef struct attune__ptx {
  attune__ins *ins;
  uint32_t count;
  attune__operand *operand; /* of all instructions */
  uint32_t file_bytes;      /* of a warp's register file, a multiple of 64 */
  attune__constant *constant;
  uint32_t constants;
  uint32_t special[ATTUNE__SPECIAL_COUNT];
  uint32_t param_bytes; /* of its one parameter, a struct */
  uint32_t threads;     /* .maxntid, 0: not said */
  uint32_t static_smem; /* bytes of .shared variables, which lie before the dynamic ones */
  uint32_t granule;     /* bytes that the shadow of shared memory must tell apart: 1, 2 or 4 */
  attune__place *place; /* place[0]: unknown */
  uint32_t places;
  char **file; /* as the compiler had them: "/attune/templates/attn_fwd/fma.cu" */
  uint32_t files;
} attune__ptx;

/* Reads the kernel `name` of a module. ATTUNE_BAD_FILE: "name.ptx:81: opcode ...: not known to the
 * CPU device", ATTUNE_NO_MEMORY. attune__ptx_free in any case but after a failure. */
attune_status attune__ptx_parse(const char *text, size_t bytes, const char *name,
                                attune__ptx **out);
void attune__ptx_free(attune__ptx *program);

/* "attn_fwd/fma.cu:118 (in prim/tile.cuh:52)": the kernel's own line, and the line that was inlined
 * there. */
void attune__ptx_where(const attune__ptx *program, uint32_t place, char *out, size_t size);

#endif
