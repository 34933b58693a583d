/* elf.c - the bounds of a cubin's ELF tables.
 *
 * Input: bytes that claim to be a cubin. Output: whether every header, segment and section lies
 * within them: the driver's load call takes a pointer without a length and believes the headers.
 * What the sections mean is left to the driver and to gen/cubin.c. */
#include <elf.h>

#include "entry.h"

static int within(uint64_t offset, uint64_t bytes, uint64_t size) {
  return offset <= size && bytes <= size - offset;
}

static int header_sane(const Elf64_Ehdr *head, uint64_t size) {
  if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0) return 0;
  if (head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_ident[EI_DATA] != ELFDATA2LSB) return 0;
  if (head->e_machine != EM_CUDA || head->e_ehsize != sizeof *head) return 0;
  if (head->e_shentsize != sizeof(Elf64_Shdr) || head->e_shstrndx >= head->e_shnum) return 0;
  if (head->e_phnum && head->e_phentsize != sizeof(Elf64_Phdr)) return 0;
  return within(head->e_shoff, (uint64_t)head->e_shnum * sizeof(Elf64_Shdr), size) &&
         within(head->e_phoff, (uint64_t)head->e_phnum * sizeof(Elf64_Phdr), size);
}

static int segments_sane(const unsigned char *bytes, const Elf64_Ehdr *head, uint64_t size) {
  for (unsigned i = 0; i < head->e_phnum; i++) {
    Elf64_Phdr segment; /* copied: the bytes need not be aligned */
    memcpy(&segment, bytes + head->e_phoff + i * sizeof segment, sizeof segment);
    if (!within(segment.p_offset, segment.p_filesz, size)) return 0;
  }
  return 1;
}

static Elf64_Shdr section_at(const unsigned char *bytes, const Elf64_Ehdr *head, unsigned index) {
  Elf64_Shdr section;
  memcpy(&section, bytes + head->e_shoff + index * sizeof section, sizeof section);
  return section;
}

/* A string table ends in NUL, so that a name that begins inside it ends inside it. */
static int section_sane(const unsigned char *bytes, const Elf64_Shdr *section, uint64_t names,
                        uint64_t size) {
  if (section->sh_name >= names) return 0;
  if (section->sh_type == SHT_NOBITS || section->sh_type == SHT_NULL) return 1;
  if (!within(section->sh_offset, section->sh_size, size)) return 0;
  if (section->sh_type != SHT_STRTAB) return 1;
  return section->sh_size > 0 && bytes[section->sh_offset + section->sh_size - 1] == 0;
}

int attune__elf_sane(const void *elf, size_t size) {
  const unsigned char *bytes = elf;
  Elf64_Ehdr head;
  if (size < sizeof head) return 0;
  memcpy(&head, bytes, sizeof head);
  if (!header_sane(&head, size) || !segments_sane(bytes, &head, size)) return 0;
  Elf64_Shdr names = section_at(bytes, &head, head.e_shstrndx);
  if (names.sh_type != SHT_STRTAB) return 0;
  for (unsigned i = 0; i < head.e_shnum; i++) {
    Elf64_Shdr section = section_at(bytes, &head, i);
    if (!section_sane(bytes, &section, names.sh_size, size)) return 0;
  }
  return 1;
}
