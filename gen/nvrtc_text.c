/* nvrtc_text.c - what is read from NVRTC's texts: source before a compile, log and PTX after it.
 *
 * The log of -Xptxas=-v names each kernel, then its numbers (NVRTC 13.0):
 *
 *   ptxas info    : Compiling entry function 'foo' for 'sm_90a'
 *   ptxas info    : Function properties for foo
 *   ptxas         .     40 bytes stack frame, 96 bytes spill stores, 84 bytes spill loads
 *   ptxas info    : Used 64 registers, used 1 barriers, 40 bytes cumulative stack size, 48 bytes
 * smem
 */
#include "nvrtc_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\v' || c == '\f';
}

/* Past line splices, which C++ removes before it sees anything else. */
static const char *skip_splices(const char *s) {
  while (s[0] == '\\' && (s[1] == '\n' || (s[1] == '\r' && s[2] == '\n')))
    s += s[1] == '\n' ? 2 : 3;
  return s;
}

static const char *skip_comment(const char *s) {
  const char *end = strstr(s + 2, "*/");
  return end ? end + 2 : s + strlen(s);
}

/* Past the blanks and comments that may stand between # and the name of a directive. */
static const char *skip_space(const char *s) {
  for (;;) {
    s = skip_splices(s);
    if (is_blank(*s))
      s++;
    else if (s[0] == '/' && *skip_splices(s + 1) == '*')
      s = skip_comment(skip_splices(s + 1) - 1);
    else
      return s;
  }
}

static int starts_with(const char *s, const char *word) {
  for (; *word; word++, s++) {
    s = skip_splices(s);
    if (*s != *word) return 0;
  }
  return 1;
}

int attune__source_includes(const char *source) {
  for (const char *s = source; *s; s++) {
    const char *name = NULL;
    if (*s == '#')
      name = s + 1;
    else if (*s == '%' && *skip_splices(s + 1) == ':')
      name = skip_splices(s + 1) + 1;
    if (!name) continue;
    name = skip_space(name);
    if (starts_with(name, "include") || starts_with(name, "import") || starts_with(name, "embed"))
      return 1;
  }
  return 0;
}

/* The number that stands before `words` within [begin, end); 0 when it is not there. */
static int number_before(const char *begin, const char *end, const char *words, uint32_t *out) {
  const char *at = strstr(begin, words);
  if (!at || at >= end) return 0;
  const char *digit = at;
  while (digit > begin && digit[-1] >= '0' && digit[-1] <= '9') digit--;
  if (digit == at) return 0;
  *out = (uint32_t)strtoul(digit, NULL, 10);
  return 1;
}

/* Sums the spills of all functions in the section: those of a callee cost the kernel as much. */
static int sum_spills(const char *begin, const char *end, uint32_t *bytes) {
  int lines = 0;
  for (const char *line = begin; line && line < end; lines++) {
    uint32_t stores, loads;
    if (!number_before(line, end, " bytes spill stores", &stores) ||
        !number_before(line, end, " bytes spill loads", &loads))
      break;
    *bytes += stores + loads;
    line = strstr(line, " bytes spill loads") + 1;
  }
  return lines;
}

static uint32_t count_lines_with(const char *log, const char *words) {
  uint32_t count = 0;
  for (const char *at = log; (at = strstr(at, words)); at++) count++;
  return count;
}

int attune__log_facts(const char *log, const char *name, attune_facts *facts) {
  facts->c75_lines = count_lines_with(log, "(C75");
  char head[ATTUNE_NAME_MAX + 40];
  snprintf(head, sizeof head, "Compiling entry function '%s'", name);
  const char *begin = strstr(log, head);
  if (!begin) return 0;
  begin += strlen(head);
  const char *end = strstr(begin, "Compiling entry function '");
  if (!end) end = begin + strlen(begin);
  facts->spill_bytes = 0;
  if (!sum_spills(begin, end, &facts->spill_bytes)) return 0;
  if (!number_before(begin, end, " bytes smem", &facts->static_smem)) facts->static_smem = 0;
  return number_before(begin, end, " registers,", &facts->registers);
}

void attune__log_first_error(const char *log, char *out, size_t size) {
  const char *line = strstr(log, "error");
  if (!line) line = log + strspn(log, "\n");
  while (line > log && line[-1] != '\n') line--;
  snprintf(out, size, "%.*s", (int)strcspn(line, "\n"), line);
}

int attune__ptx_version(const char *ptx, char *out, size_t size) {
  const char *at = strstr(ptx, "Cuda compilation tools, release ");
  const char *number = at ? strstr(at, ", V") : NULL;
  const char *end = at ? strchr(at, '\n') : NULL;
  if (!number || !end || number > end) return 0;
  number += 3;
  size_t length = strspn(number, "0123456789.");
  if (length == 0 || length >= size) return 0;
  snprintf(out, size, "%.*s", (int)length, number);
  return 1;
}
