/* manifest.c - a set's manifest: from the set to its text and back, by the format in set.h.
 *
 * Input: an attune__set, or text from anywhere. Output: the other one; equal sets give equal text
 * whatever the order of their arrays. Files are left to set.c. */
#include <stdio.h>
#include <stdlib.h>

#include "params.def"
#include "set.h"

enum {
  MANIFEST_VERSION = 1,
  LINE_BYTES = 2048, /* a row has at most 1 + ATTUNE_MAX_PARTS names */
  MAX_WORDS = 16,    /* a pin line has at most 2 + ATTUNE_MAX_PINS */
  DIGEST_DIGITS = 64
};

/* ---- printing ------------------------------------------------------------------------------ */

typedef struct line_list {
  char **line;
  size_t count;
} line_list;

static void free_lines(line_list *lines) {
  for (size_t i = 0; i < lines->count; i++) free(lines->line[i]);
  free(lines->line);
}

static int compare_lines(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static void print_kernel(FILE *to, const attune__set *set, int index) {
  fprintf(to, "kernel %s %s\n", set->kernels[index].name, set->kernels[index].digest);
}

static void print_pins(FILE *to, const attune__set *set, int index) {
  const attune_pinset *pins = &set->pins[index];
  fprintf(to, "pin _x%08x", attune__pinset_digest(pins));
  for (uint32_t i = 0; i < pins->count; i++) {
    char value[ATTUNE_PIN_TEXT_MAX];
    attune__pin_print(pins->pin[i].value, value);
    fprintf(to, " %s=%s", pins->pin[i].name, value);
  }
  fputc('\n', to);
}

static void print_row(FILE *to, const attune__set *set, int index) {
  const attune__set_row *row = &set->rows[index];
  const char *cls = attune__class_name((int)row->cls);
  const char *corner = row->corner ? attune__corner_name((int)row->corner) : "-";
  char variant[ATTUNE_NAME_MAX];
  attune__variant_name(&row->variant, 1, variant);
  fprintf(to, "row %s %s %s", variant, cls ? cls : "?", corner ? corner : "?");
  for (int i = 0; i < row->kernel_count && i < ATTUNE_MAX_PARTS; i++) {
    int kernel = row->kernel[i], known = kernel >= 0 && kernel < set->kernel_count;
    fprintf(to, " %s", known ? set->kernels[kernel].name : "?");
  }
  fputc('\n', to);
}

/* Appends a line per index; 0 without memory. */
static int add_lines(line_list *lines, const attune__set *set, int count,
                     void (*print)(FILE *to, const attune__set *set, int index)) {
  for (int i = 0; i < count; i++) {
    size_t size;
    FILE *to = open_memstream(&lines->line[lines->count], &size);
    if (!to) return 0;
    lines->count++;
    print(to, set, i);
    if (fclose(to) != 0) return 0;
  }
  return 1;
}

static int collect_lines(line_list *lines, const attune__set *set) {
  size_t all = (size_t)set->kernel_count + (size_t)set->pinset_count + (size_t)set->row_count;
  lines->line = calloc(all + 1, sizeof *lines->line);
  return lines->line && add_lines(lines, set, set->kernel_count, print_kernel) &&
         add_lines(lines, set, set->pinset_count, print_pins) &&
         add_lines(lines, set, set->row_count, print_row);
}

attune_status attune__manifest_print(const attune__set *set, char **out, size_t *out_bytes) {
  line_list lines = {0};
  FILE *to = NULL;
  *out = NULL;
  int failed = !collect_lines(&lines, set) || !(to = open_memstream(out, out_bytes));
  if (!failed) {
    qsort(lines.line, lines.count, sizeof *lines.line, compare_lines);
    fprintf(to, "attune-set %d\nabi %d\nmade-by %s\n", MANIFEST_VERSION, ATTUNE_ABI, set->made_by);
    for (size_t i = 0; i < lines.count; i++) fputs(lines.line[i], to);
    failed = fclose(to) != 0;
  }
  free_lines(&lines);
  if (!failed) return ATTUNE_OK;
  free(*out);
  *out = NULL;
  return attune_fail(ATTUNE_NO_MEMORY, "no memory for a manifest");
}

/* ---- parsing ------------------------------------------------------------------------------- */

typedef struct reader {
  const char *where; /* file name, for messages */
  int number;        /* of the line */
  attune__set *set;
  char line[LINE_BYTES], before[LINE_BYTES]; /* this line and the one before it */
  char words[LINE_BYTES];                    /* this line, cut at its spaces */
  char *word[MAX_WORDS];
  int word_count;
} reader;

#define BAD(r, format, ...)                                                                        \
  attune_fail(ATTUNE_BAD_FILE, "%s:%d: " format, (r)->where, (r)->number, __VA_ARGS__)

/* Room for one element more, doubling at powers of two; NULL without memory. */
static void *grow(void *array, int count, size_t element_bytes) {
  if (count & (count - 1)) return array;
  return realloc(array, (count ? 2 * (size_t)count : 1) * element_bytes);
}
#define GROW(array, count)                                                                         \
  void *grown = grow(array, count, sizeof *(array));                                               \
  if (!grown) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a set");                         \
  (array) = grown;                                                                                 \
  memset(&(array)[count], 0, sizeof *(array))

static attune_status read_kernel(reader *r) {
  attune_variant variant;
  attune_tile tile;
  int has_tile, is_program;
  attune__set *set = r->set;
  if (r->word_count != 3) return BAD(r, "expected 'kernel NAME SHA256', found '%s'", r->line);
  const char *name = r->word[1], *digest = r->word[2];
  if (attune__name_parse(name, &variant, &tile, &has_tile, &is_program))
    return BAD(r, "%s", attune_error());
  if (!has_tile) return BAD(r, "'%s' names no tile", name);
  if (strlen(digest) != DIGEST_DIGITS || strspn(digest, "0123456789abcdef") != DIGEST_DIGITS)
    return BAD(r, "'%s' is no SHA-256", digest);
  if (set->kernel_count && strcmp(set->kernels[set->kernel_count - 1].name, name) == 0)
    return BAD(r, "the kernel %s is listed twice", name);
  GROW(set->kernels, set->kernel_count);
  attune__set_kernel *kernel = &set->kernels[set->kernel_count++];
  memcpy(kernel->name, name, strlen(name));
  memcpy(kernel->digest, digest, DIGEST_DIGITS);
  return ATTUNE_OK;
}

static attune_status read_pins(reader *r) {
  attune__set *set = r->set;
  GROW(set->pins, set->pinset_count);
  attune_pinset *pins = &set->pins[set->pinset_count++];
  if (r->word_count < 3) return BAD(r, "expected 'pin _xDIGEST NAME=VALUE', found '%s'", r->line);
  for (int i = 2; i < r->word_count; i++) {
    double value;
    char *equals = strchr(r->word[i], '=');
    if (!equals || !attune__pin_parse(equals + 1, &value))
      return BAD(r, "expected NAME=VALUE, found '%s'", r->word[i]);
    *equals = 0;
    if (attune__pinset_add(pins, r->word[i], value)) return BAD(r, "%s", attune_error());
  }
  char digest[16];
  snprintf(digest, sizeof digest, "_x%08x", attune__pinset_digest(pins));
  if (strcmp(digest, r->word[1]) != 0)
    return BAD(r, "these pins are %s, not '%s'", digest, r->word[1]);
  return ATTUNE_OK;
}

static int compare_kernel(const void *name, const void *kernel) {
  return strcmp(name, ((const attune__set_kernel *)kernel)->name);
}

/* The kernel of that name, which must be the given part of the row's variant. */
static attune_status find_part(const reader *r, const char *name, int part, attune__set_row *row) {
  const attune__set *set = r->set;
  attune_variant variant, expected = row->variant;
  attune_tile tile;
  int has_tile, is_program;
  const attune__set_kernel *kernel = set->kernel_count
                                         ? bsearch(name, set->kernels, (size_t)set->kernel_count,
                                                   sizeof *set->kernels, compare_kernel)
                                         : NULL;
  if (!kernel) return BAD(r, "the row names the kernel '%s', which is not listed", name);
  expected.part = (uint8_t)part;
  if (attune__name_parse(name, &variant, &tile, &has_tile, &is_program) ||
      memcmp(&variant, &expected, sizeof variant) != 0)
    return BAD(r, "the kernel %s is not part %d of the row's variant", name, part);
  row->kernel[part] = (int)(kernel - set->kernels);
  attune__limit_len_k(&row->max_len_k, &tile);
  return ATTUNE_OK;
}

/* The words before the kernels: variant, class, corner. */
static attune_status read_row_key(const reader *r, attune__set_row *row) {
  attune_tile tile;
  int has_tile, is_program, known;
  if (attune__name_parse(r->word[1], &row->variant, &tile, &has_tile, &is_program))
    return BAD(r, "%s", attune_error());
  if (!is_program) return BAD(r, "'%s' is no variant's name", r->word[1]);
  row->cls = (attune_class)attune__class_parse(r->word[2], &known);
  if (!known) return BAD(r, "'%s' is no shape class", r->word[2]);
  row->corner = (attune_corner)attune__corner_parse(r->word[3]);
  if (!row->corner && strcmp(r->word[3], "-") != 0)
    return BAD(r, "'%s' is no corner: top_left, bottom_right or -", r->word[3]);
  return ATTUNE_OK;
}

/* Rows of one variant and class stand one behind the other. */
static int same_place(const attune__set_row *a, const attune__set_row *b) {
  return a->cls == b->cls && memcmp(&a->variant, &b->variant, sizeof a->variant) == 0;
}

static attune_status read_row(reader *r) {
  attune__set *set = r->set;
  GROW(set->rows, set->row_count);
  attune__set_row *row = &set->rows[set->row_count];
  if (r->word_count < 5)
    return BAD(r, "expected 'row VARIANT CLASS CORNER KERNEL', found '%s'", r->line);
  attune_status status = read_row_key(r, row);
  if (status) return status;
  row->kernel_count = attune__op_parts(row->variant.op);
  if (r->word_count != 4 + row->kernel_count)
    return BAD(r, "%s has %d kernels, found %d", r->word[1], row->kernel_count, r->word_count - 4);
  for (int part = 0; part < row->kernel_count; part++) {
    status = find_part(r, r->word[4 + part], part, row);
    if (status) return status;
  }
  for (int i = set->row_count - 1; i >= 0 && same_place(&set->rows[i], row); i--)
    if (set->rows[i].max_len_k == row->max_len_k)
      return BAD(r, "the row %s %s stands twice", r->word[1], r->word[2]);
  set->row_count++;
  return ATTUNE_OK;
}

static attune_status read_made_by(reader *r) {
  const char *text = r->line + strlen("made-by ");
  if (strncmp(r->line, "made-by ", strlen("made-by ")) != 0)
    return BAD(r, "expected 'made-by ...', found '%s'", r->line);
  if (strlen(text) >= sizeof r->set->made_by) return BAD(r, "'%s' is too long", text);
  memcpy(r->set->made_by, text, strlen(text) + 1);
  return ATTUNE_OK;
}

static attune_status read_first_lines(reader *r) {
  char expected[32];
  if (r->number == 3) return read_made_by(r);
  if (r->number == 1)
    snprintf(expected, sizeof expected, "attune-set %d", MANIFEST_VERSION);
  else
    snprintf(expected, sizeof expected, "abi %d", ATTUNE_ABI);
  if (strcmp(r->line, expected) == 0) return ATTUNE_OK;
  return BAD(r, "expected '%s', found '%s': build the set again with this attune", expected,
             r->line);
}

/* Cuts a copy of the line at its spaces. */
static attune_status cut(reader *r) {
  memcpy(r->words, r->line, sizeof r->words);
  r->word_count = 0;
  for (char *at = r->words; at;) {
    if (r->word_count == MAX_WORDS || *at == 0 || *at == ' ')
      return BAD(r, "expected a few words with one space between them, found '%s'", r->line);
    r->word[r->word_count++] = at;
    at = strchr(at, ' ');
    if (at) *at++ = 0;
  }
  return ATTUNE_OK;
}

static attune_status read_line(reader *r) {
  if (r->number <= 3) return read_first_lines(r);
  if (r->number > 4 && strcmp(r->before, r->line) >= 0)
    return BAD(r, "'%s' is out of order or stands twice", r->line);
  attune_status status = cut(r);
  if (status) return status;
  if (strcmp(r->word[0], "kernel") == 0) return read_kernel(r);
  if (strcmp(r->word[0], "pin") == 0) return read_pins(r);
  if (strcmp(r->word[0], "row") == 0) return read_row(r);
  return BAD(r, "expected kernel, pin or row, found '%s'", r->word[0]);
}

/* Copies the line at `text` into the reader; *next is where the one after it begins. */
static attune_status take_line(reader *r, const char *text, const char *end, const char **next) {
  const char *stop = memchr(text, '\n', (size_t)(end - text));
  r->number++;
  if (!stop) return BAD(r, "the last line is cut off%s", "");
  size_t length = (size_t)(stop - text);
  if (length >= LINE_BYTES) return BAD(r, "a line of %zu bytes", length);
  memcpy(r->before, r->line, sizeof r->before);
  memset(r->line, 0, sizeof r->line);
  memcpy(r->line, text, length);
  for (size_t i = 0; i < length; i++)
    if ((unsigned char)text[i] < ' ') return BAD(r, "the control character %d", text[i]);
  *next = stop + 1;
  return ATTUNE_OK;
}

/* Every digest in a name must be resolved, or the set's kernels could not be told apart. */
static attune_status check_pins_known(const attune__set *set, const char *where) {
  for (int i = 0; i < set->kernel_count; i++) {
    attune_variant variant;
    attune_tile tile;
    int has_tile, is_program, found = 0;
    attune_status status =
        attune__name_parse(set->kernels[i].name, &variant, &tile, &has_tile, &is_program);
    if (status) return status;
    for (int j = 0; j < set->pinset_count && variant.pins && !found; j++)
      found = attune__pinset_digest(&set->pins[j]) == variant.pins;
    if (variant.pins && !found)
      return attune_fail(ATTUNE_BAD_FILE, "%s: no pin line for the kernel %s", where,
                         set->kernels[i].name);
  }
  return ATTUNE_OK;
}

attune_status attune__manifest_parse(const char *text, size_t size, const char *where,
                                     attune__set *out) {
  memset(out, 0, sizeof *out);
  reader *r = calloc(1, sizeof *r);
  if (!r) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a set");
  r->where = where;
  r->set = out;
  attune_status status = ATTUNE_OK;
  for (const char *end = text + size; text < end && !status;) {
    status = take_line(r, text, end, &text);
    if (!status) status = read_line(r);
  }
  if (!status && r->number < 3) status = BAD(r, "the file ends before its third line%s", "");
  free(r);
  return status ? status : check_pins_known(out, where);
}
