/* build_keys.c - reads, extends and rewrites DIR/.keys of a set folder (build_keys.h). */
#include "build_keys.h"
#include "text.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MAX = 64 << 20 };

static char *keys_path(const char *folder) {
  char *path = NULL;
  return asprintf(&path, "%s/.keys", folder) < 0 ? NULL : path;
}

static int is_digest(const char *text) {
  return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

/* Copies the text up to `stop`; what follows it, NULL when it is missing or the text too long. */
static const char *word(const char *text, char stop, char *out, size_t size) {
  if (!text) return NULL;
  const char *end = strchr(text, stop);
  if (!end || (size_t)(end - text) >= size) return NULL;
  memcpy(out, text, (size_t)(end - text));
  out[end - text] = 0;
  return end + 1;
}

static int parse_line(const char *text, attune__key_line *out) {
  text = word(text, ' ', out->name, sizeof out->name);
  text = word(text, ' ', out->key, sizeof out->key);
  text = word(text, '\n', out->digest, sizeof out->digest);
  return text && is_digest(out->key) && is_digest(out->digest);
}

attune_status attune__keys_read(const char *folder, attune__keys *out) {
  out->line = NULL, out->count = 0;
  char *path = keys_path(folder);
  if (!path) return attune_fail(ATTUNE_NO_MEMORY, "the keys of %s", folder);
  void *text = NULL;
  size_t size = 0, lines = 0;
  attune_status status = attune__file_read(path, FILE_MAX, &text, &size);
  free(path);
  if (status) return status == ATTUNE_NO_MEMORY ? status : ATTUNE_OK;
  for (const char *s = text; *s; s++) lines += *s == '\n';
  out->line = calloc(lines + 1, sizeof *out->line);
  if (!out->line) {
    free(text);
    return attune_fail(ATTUNE_NO_MEMORY, "the keys of %s", folder);
  }
  for (const char *s = text, *end; (end = strchr(s, '\n')); s = end + 1)
    out->count += parse_line(s, &out->line[out->count]);
  free(text);
  return ATTUNE_OK;
}

void attune__keys_free(attune__keys *keys) {
  free(keys->line);
  keys->line = NULL, keys->count = 0;
}

const attune__key_line *attune__keys_find(const attune__keys *keys, const char *name) {
  for (int i = keys->count; i-- > 0;)
    if (strcmp(keys->line[i].name, name) == 0) return &keys->line[i];
  return NULL;
}

static void print_line(attune__text *text, const attune__key_line *line) {
  attune__text_printf(text, "%s %s %s\n", line->name, line->key, line->digest);
}

void attune__keys_append(const char *folder, const attune__key_line *line) {
  char *path = keys_path(folder);
  attune__text text = {0};
  print_line(&text, line);
  int file = path ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644) : -1;
  if (file >= 0) {
    /* One write, so that lines of two builds at once do not mix. */
    if (!text.failed && write(file, text.data, text.size) < 0) unlink(path);
    close(file);
  }
  attune__text_free(&text);
  free(path);
}

attune_status attune__keys_write(const char *folder, const attune__key_line *line, int count) {
  char *path = keys_path(folder);
  attune__text text = {0};
  for (int i = 0; i < count; i++) print_line(&text, &line[i]);
  attune_status status = path && !text.failed
                             ? attune__file_publish(path, text.data ? text.data : "", text.size)
                             : attune_fail(ATTUNE_NO_MEMORY, "the keys of %s", folder);
  attune__text_free(&text);
  free(path);
  return status;
}
