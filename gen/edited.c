/* edited.c - from an edited file back to its kernels.
 *
 * Input: the text of `attune emit`, whole or an outline, with a body that somebody changed. Output:
 * per kernel, what attune knows of it and the text to compile. The name and the spec line of the
 * data sheet say which kernel it is; the rest of the sheet has to be what that kernel's sheet is,
 * so that nobody edits a figure there and believes that it counts. Compiling is compile.c's,
 * judging verify's. */
#include "edited.h"

#include "spec.h"
#include "store.h"
#include "template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What emit writes before each kernel of several. */
static const char separator[] = "// ==== kernel ";
static const char spec_mark[] = "// spec ";
/* A kernel without it cannot be launched early. */
static const char launch_wait[] = "griddepcontrol.wait";
/* Before the path in #line, as templates have it: the CPU device's reports take it away again, and
 * no folder of this machine comes before it. */
static const char root[] = "/attune/";
enum { SHOWN = 120 }; /* characters of a line in a message */

/* ---- lines ----------------------------------------------------------------------------------- */

static const char *next_line(const char *at) {
  const char *end = strchr(at, '\n');
  return end ? end + 1 : at + strlen(at);
}

/* Without the end of the line, and without blanks before it, which editors take away. */
static int line_length(const char *at) {
  size_t length = strcspn(at, "\r\n");
  while (length && at[length - 1] == ' ') length--;
  return (int)length;
}

static int shown(const char *at) {
  int length = line_length(at);
  return length < SHOWN ? length : SHOWN;
}

static int begins(const char *at, const char *word) {
  return !strncmp(at, word, strlen(word));
}

static attune_status bad(const char *path, int line, const char *at, const char *wanted) {
  return attune_fail(ATTUNE_BAD_FILE, "%s:%d: found '%.*s', wanted %s", path, line, shown(at), at,
                     wanted);
}

/* ---- which kernel ---------------------------------------------------------------------------- */

/* The first line: "// " and the kernel's name. */
static attune_status read_name(const char *path, int line, const char *at, attune_variant *v,
                               attune_tile *tile) {
  char name[ATTUNE_NAME_MAX];
  int has_tile = 0, is_program, length = line_length(at);
  if (!begins(at, "// ") || length - 3 >= ATTUNE_NAME_MAX)
    return bad(path, line, at, "'// ' and a kernel's name, the first line of what attune emits");
  snprintf(name, sizeof name, "%.*s", length - 3, at + 3);
  attune_status status = attune__name_parse(name, v, tile, &has_tile, &is_program);
  if (status != ATTUNE_OK)
    return attune_fail(ATTUNE_BAD_FILE, "%s:%d: %s", path, line, attune_error());
  if (has_tile) return ATTUNE_OK;
  return bad(path, line, at, "the name of a kernel with its tile: <variant>__<tile>");
}

/* The spec of the line, whose pins a name does not hold. Blank lines and columns before it keep its
 * place for the reader's messages. */
static attune_status read_pins(const char *path, int line, const char *at, attune_pinset *out) {
  attune_spec_options options = {0};
  attune_spec spec = {0};
  attune__text source = {0}, errors = {0};
  for (int i = 1; i < line; i++) attune__text_puts(&source, "\n");
  attune__text_printf(&source, "%*s", (int)strlen(spec_mark), "");
  attune__text_add(&source, at + strlen(spec_mark), strcspn(at, "\n") - strlen(spec_mark));
  attune__text_puts(&source, "\n");
  attune_status status =
      source.failed ? attune_fail(ATTUNE_NO_MEMORY, "no memory for a spec")
                    : attune__spec_read(path, source.data, source.size, &options, &spec, &errors);
  if (status == ATTUNE_OK && spec.count != 1)
    status = bad(path, line, at, "a spec of exactly one variant");
  else if (status == ATTUNE_BAD_SPEC)
    status = attune_fail(ATTUNE_BAD_FILE, "%s", errors.data ? errors.data : attune_error());
  if (status == ATTUNE_OK && spec.requests) *out = spec.requests[0].pins;
  attune__text_free(&source);
  attune__text_free(&errors);
  attune__spec_free(&spec);
  return status;
}

static attune_status find_pins(const char *path, int line, const char *at, attune_pinset *out) {
  int first = line;
  for (; begins(at, "//"); at = next_line(at), line++)
    if (begins(at, spec_mark)) return read_pins(path, line, at, out);
  return attune_fail(ATTUNE_BAD_FILE,
                     "%s:%d: the comment that begins here has no line '%s {...}': emit the kernel "
                     "again and leave its data sheet as it is",
                     path, first, spec_mark);
}

/* ---- the sheet ------------------------------------------------------------------------------- */

/* From the character where a line of the file and one of the sheet part, and a few before it: lines
 * may be long. */
static attune_status different(const char *path, int line, const char *found, const char *sheet) {
  enum { BEFORE = 40 };
  char wanted[512];
  int skip = 0;
  snprintf(wanted, sizeof wanted, "// %.*s", line_length(sheet), sheet);
  while (wanted[skip] && found[skip] == wanted[skip]) skip++;
  skip = skip > BEFORE ? skip - BEFORE : 0;
  const char *dots = skip ? "..." : "";
  return attune_fail(
      ATTUNE_BAD_FILE,
      "%s:%d: found '%s%.*s', wanted '%s%.*s': the data sheet is not the one of this "
      "kernel; emit it again, or leave its lines as they were",
      path, line, dots, shown(found + skip), found + skip, dots, shown(wanted + skip),
      wanted + skip);
}

/* Whether a line of the file is "// " and the sheet's line. */
static int same_line(const char *found, const char *sheet) {
  int length = line_length(found), want = line_length(sheet);
  if (length < 2 || !begins(found, "//")) return 0;
  if (!want) return length == 2;
  return length == want + 3 && found[2] == ' ' && !memcmp(found + 3, sheet, (size_t)want);
}

/* Line for line; what follows in the comment is the author's. */
static attune_status check_sheet(const char *path, int line, const char *at,
                                 const attune_kernel *kernel) {
  attune_emit_options options = {0};
  attune__text sheet = {0};
  attune_status status = ATTUNE_OK;
  attune__sheet(kernel, &options, &sheet);
  if (sheet.failed || !sheet.data)
    status = attune_fail(ATTUNE_NO_MEMORY, "no memory for a data sheet");
  for (const char *want = sheet.data; status == ATTUNE_OK && want && *want;
       want = next_line(want), at = next_line(at), line++)
    if (!same_line(at, want)) status = different(path, line, at, want);
  attune__text_free(&sheet);
  return status;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Whether a line includes a part. */
static int is_outline(const char *text, size_t size) {
  for (const char *at = text; at < text + size; at = next_line(at))
    if (begins(at + strspn(at, " \t"), "//@")) return 1;
  return 0;
}

/* 1 when attune writes another text, or outline, for the kernel. */
static attune_status compare(const attune_kernel *kernel, int outline, const char *text,
                             size_t size, int *changed) {
  attune_emit_options options = {.outline = outline};
  attune__text own = {0};
  attune_status status = attune__emit(kernel, &options, &own);
  while (size && text[size - 1] == '\n') size--;
  while (own.size && own.data[own.size - 1] == '\n') own.size--;
  *changed = own.size != size || (size && memcmp(own.data, text, size) != 0);
  attune__text_free(&own);
  return status;
}

/* '#line 12 "/attune/k.cu"' before the text; in a string of C. */
static char *with_line(const char *path, int line, const char *text, size_t size) {
  attune__text out = {0};
  attune__text_printf(&out, "#line %d \"%s", line, root);
  for (const char *c = path; *c; c++) {
    if (*c == '"' || *c == '\\') attune__text_puts(&out, "\\");
    attune__text_add(&out, c, 1);
  }
  attune__text_puts(&out, "\"\n");
  attune__text_add(&out, text, size);
  return out.failed ? NULL : out.data;
}

/* The kernel's whole text, with its place in the file: the file's, or what an outline stands for.
 */
static attune_status take_text(const char *path, int line, const char *text, size_t size,
                               attune__edited_part *out) {
  const int outline = is_outline(text, size);
  attune_emit_options with_lines = {.lines = 1};
  attune__text whole = {0};
  attune_status status = ATTUNE_OK;
  if (outline)
    status = attune__emit_outline(&out->kernel, &with_lines, path, line, text, size, &whole);
  if (status == ATTUNE_TEMPLATE) status = attune_fail(ATTUNE_BAD_FILE, "%s", attune_error());
  if (status == ATTUNE_OK) status = compare(&out->kernel, outline, text, size, &out->changed);
  if (status == ATTUNE_OK)
    out->text = outline ? whole.data : with_line(path, line, text, size);
  else
    attune__text_free(&whole);
  return status;
}

static attune_status make_kernel(const char *path, int line, const attune_variant *v,
                                 const attune_tile *tile, const attune_pinset *pins,
                                 attune_kernel *out) {
  attune_status status = attune__kernel_make(v, tile, pins, out);
  if (status == ATTUNE_OK) return status;
  return attune_fail(ATTUNE_BAD_FILE, "%s:%d: this attune does not make the kernel: %s", path, line,
                     attune_error());
}

static attune_status read_part(const char *path, int line, const char *text, size_t size,
                               attune__edited_part *out) {
  attune_variant variant = {.pins = 0};
  attune_tile tile = {.family = 0};
  attune_pinset pins = {.count = 0};
  attune_status status = read_name(path, line, text, &variant, &tile);
  if (status == ATTUNE_OK) status = find_pins(path, line, text, &pins);
  if (status == ATTUNE_OK && attune__pinset_digest(&pins) != variant.pins)
    status = bad(path, line, text, "the name that the pins of the spec line give");
  if (status == ATTUNE_OK) status = make_kernel(path, line, &variant, &tile, &pins, &out->kernel);
  if (status == ATTUNE_OK) status = check_sheet(path, line, text, &out->kernel);
  if (status == ATTUNE_OK) status = take_text(path, line, text, size, out);
  if (status != ATTUNE_OK) return status;
  if (!out->text) return attune_fail(ATTUNE_NO_MEMORY, "no memory for the text of a kernel");
  if (!strstr(out->text, launch_wait)) out->kernel.recipe.early = 0;
  out->line = line;
  return ATTUNE_OK;
}

/* From here on to the next separator, or the end. */
static const char *part_end(const char *at) {
  while (*at && !begins(at, separator)) at = next_line(at);
  return at;
}

static int is_blank(const char *at) {
  return *at && !line_length(at);
}

/* A part belongs to the program of the first, and comes after those before it. */
static attune_status check_order(const char *path, const attune__edited *e) {
  const attune__edited_part *part = &e->part[e->count - 1];
  attune_variant first = e->part[0].kernel.variant, last = part->kernel.variant;
  if (e->count == 1) return ATTUNE_OK;
  int after = last.part > e->part[e->count - 2].kernel.variant.part;
  first.part = last.part;
  if (after && !memcmp(&first, &last, sizeof first)) return ATTUNE_OK;
  return attune_fail(ATTUNE_BAD_FILE,
                     "%s:%d: %s does not follow the kernel before it in one program's order", path,
                     part->line, part->kernel.name);
}

static attune_status read_parts(const char *path, const char *text, attune__edited *out) {
  int line = 1;
  attune_status status = ATTUNE_OK;
  for (const char *at = text; status == ATTUNE_OK && *at;) {
    for (; is_blank(at) || begins(at, separator); at = next_line(at)) line++;
    const char *end = part_end(at);
    if (out->count == ATTUNE_MAX_PARTS) return bad(path, line, at, "no more kernels");
    if (!*at) break;
    status = read_part(path, line, at, (size_t)(end - at), &out->part[out->count++]);
    if (status == ATTUNE_OK) status = check_order(path, out);
    for (; at < end; at = next_line(at)) line++;
  }
  if (status == ATTUNE_OK && !out->count)
    status = attune_fail(ATTUNE_BAD_FILE, "%s:1: the file is empty", path);
  return status;
}

attune_status attune__edited_read(const char *path, const char *text, attune__edited *out) {
  memset(out, 0, sizeof *out);
  attune_status status = read_parts(path, text, out);
  if (status != ATTUNE_OK) attune__edited_free(out);
  return status;
}

void attune__edited_free(attune__edited *e) {
  for (int i = 0; i < ATTUNE_MAX_PARTS; i++) free(e->part[i].text);
  memset(e, 0, sizeof *e);
}

attune_status attune__edited_compile(const attune__edited_part *part, void **out, size_t *out_bytes,
                                     char **warning) {
  attune_status status = attune__compile_text(&part->kernel, part->text, out, out_bytes, warning);
  if (status == ATTUNE_COMPILE && begins(attune_error(), root))
    attune_fail(status, "%s", attune_error() + strlen(root));
  return status;
}
