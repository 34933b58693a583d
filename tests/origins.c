/* origins.c - expanded text against the templates it says it comes from. */
#include "origins.h"

#include "test.h"

static const char *next_line(const char *at) {
  const char *end = strchr(at, '\n');
  return end ? end + 1 : at + strlen(at);
}

static const char *template_line(const attune_template_file *files, int count, const char *path,
                                 int line) {
  for (int i = 0; i < count; i++) {
    if (strcmp(files[i].path, path) != 0) continue;
    const char *at = files[i].text;
    for (int n = 1; n < line; n++) at = next_line(at);
    return at;
  }
  ck_abort_msg("#line names '%s', which is no template", path);
  return NULL;
}

/* The text before the first value is the template's, byte for byte; a line without values is equal.
 * Blanks before a value that turned out empty are dropped. */
static void check_line(const char *text, const char *source, const char *path, int line) {
  size_t text_size = strcspn(text, "\n"), source_size = strcspn(source, "\n");
  const char *value = memchr(source, '$', source_size);
  size_t size = value ? (size_t)(value - source) : source_size;
  if (value && text_size < size)
    while (size > 0 && source[size - 1] == ' ') size--;
  int same = (value || text_size == size) && !strncmp(text, source, size);
  ck_assert_msg(same, "%s:%d is\n%.*s\nbut the text has\n%.*s", path, line, (int)source_size,
                source, (int)text_size, text);
}

int check_origins(const attune_template_file *files, int count, const char *text) {
  char path[128] = "";
  int line = 0, checked = 0;
  for (const char *at = text; *at; at = next_line(at)) {
    if (sscanf(at, "#line %d \"/attune/templates/%127[^\"]\"", &line, path) == 2) continue;
    check_line(at, template_line(files, count, path, line), path, line);
    line++, checked++;
  }
  return checked;
}

void without_directives(const char *text, attune__text *out) {
  for (const char *at = text; *at; at = next_line(at))
    if (strncmp(at, "#line", 5) != 0) attune__text_add(out, at, (size_t)(next_line(at) - at));
}
