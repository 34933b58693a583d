/* cubin.c - reads what a kernel needs from its cubin, an ELF64 file.
 *
 * Input: bytes that may be anything. Output: the registers and local frame of one kernel. Spills
 * and static shared memory are only in the compiler's log (nvrtc_text.c); bounds are elf.c's to
 * check.
 *
 * Section .nv.info is a list of records {u8 format, u8 attribute, u16 value}; format 4 carries
 * `value` bytes of payload after it. REGCOUNT and FRAME_SIZE carry {u32 symbol, u32 number}. */
#include "nvrtc.h"

#include <elf.h>
#include <string.h>

enum { FORMAT_SIZED = 4, ATTR_FRAME_SIZE = 0x11, ATTR_REGCOUNT = 0x2f };

typedef struct image {
  const unsigned char *bytes; /* every section lies inside (elf.c) */
  Elf64_Ehdr head;
} image;

/* Copied out, since nothing promises that a table in foreign bytes is aligned. */
static Elf64_Shdr section(const image *file, unsigned index) {
  Elf64_Shdr out;
  memcpy(&out, file->bytes + file->head.e_shoff + index * sizeof out, sizeof out);
  return out;
}

static int open_image(const void *bytes, size_t size, image *file) {
  if (!attune__elf_sane(bytes, size)) return 0;
  file->bytes = bytes;
  memcpy(&file->head, bytes, sizeof file->head);
  return 1;
}

/* 1 when the string table's text at `offset` is `want`, NUL included. */
static int name_is(const image *file, unsigned table, uint32_t offset, const char *want) {
  if (table >= file->head.e_shnum) return 0;
  Elf64_Shdr s = section(file, table);
  size_t length = strlen(want) + 1;
  return s.sh_type == SHT_STRTAB && offset <= s.sh_size && length <= s.sh_size - offset &&
         memcmp(file->bytes + s.sh_offset + offset, want, length) == 0;
}

static int find_section(const image *file, const char *name, Elf64_Shdr *out) {
  for (unsigned i = 1; i < file->head.e_shnum; i++) {
    *out = section(file, i);
    if (name_is(file, file->head.e_shstrndx, out->sh_name, name)) return 1;
  }
  return 0;
}

/* Index of the function symbol `name` that has code here; 0 when there is none. */
static uint32_t find_function(const image *file, const char *name) {
  Elf64_Shdr table;
  if (!find_section(file, ".symtab", &table) || table.sh_type != SHT_SYMTAB) return 0;
  for (uint32_t i = 1; i < table.sh_size / sizeof(Elf64_Sym); i++) {
    Elf64_Sym symbol;
    memcpy(&symbol, file->bytes + table.sh_offset + i * sizeof symbol, sizeof symbol);
    if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF &&
        symbol.st_size > 0 && name_is(file, table.sh_link, symbol.st_name, name))
      return i;
  }
  return 0;
}

/* The number that .nv.info gives a symbol for an attribute; 0 when it gives none. */
static int find_attribute(const image *file, uint32_t symbol, unsigned attribute, uint32_t *out) {
  Elf64_Shdr info;
  if (!find_section(file, ".nv.info", &info) || info.sh_type == SHT_NOBITS) return 0;
  const unsigned char *at = file->bytes + info.sh_offset, *end = at + info.sh_size;
  while (end - at >= 4) {
    unsigned format = at[0], found = at[1];
    size_t bytes = format == FORMAT_SIZED ? (size_t)(at[2] | at[3] << 8) : 0;
    at += 4;
    if (bytes > (size_t)(end - at)) return 0;
    uint32_t pair[2];
    if (format == FORMAT_SIZED && found == attribute && bytes == sizeof pair) {
      memcpy(pair, at, sizeof pair);
      *out = pair[1];
      if (pair[0] == symbol) return 1;
    }
    at += bytes;
  }
  return 0;
}

attune_status attune__cubin_facts(const void *cubin, size_t bytes, const char *name,
                                  attune_facts *out) {
  image file;
  if (!open_image(cubin, bytes, &file))
    return attune_fail(ATTUNE_BAD_FILE, "%s: not a cubin, or one that is cut short (%zu bytes)",
                       name, bytes);
  uint32_t symbol = find_function(&file, name);
  if (!symbol)
    return attune_fail(ATTUNE_NOT_FOUND,
                       "%s: the compiled code has no kernel of that name; it must be "
                       "extern \"C\" __global__",
                       name);
  if (!find_attribute(&file, symbol, ATTR_REGCOUNT, &out->registers) ||
      !find_attribute(&file, symbol, ATTR_FRAME_SIZE, &out->stack_bytes))
    return attune_fail(ATTUNE_BAD_FILE, "%s: the cubin does not tell its registers and frame",
                       name);
  return ATTUNE_OK;
}
