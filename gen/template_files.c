/* template_files.c - where templates come from, and the digest that keys an op's binaries.
 *
 * Input: the files that gen/embed.sh compiled into this program, or the folder that
 * ATTUNE_TEMPLATES names. Output: one sorted table, read once per process. What stands in the files
 * is left to the engine. */
#include "template_files.h"

#include "template.h"

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Written by gen/embed.sh, sorted by path. */
extern const attune_template_file attune__embedded[];
extern const int attune__embedded_count;

enum { FILE_MAX = 1 << 20, FILES_MAX = 4096, DEPTH_MAX = 8 };

/* The table of this process. A failure to read the folder is kept and reported to every caller. */
static struct {
  pthread_once_t once;
  const attune_template_file *files;
  int count;
  attune_status status;
  char *message;
} table = {.once = PTHREAD_ONCE_INIT};

/* ---- a folder ------------------------------------------------------------------------ */

typedef struct folder {
  const char *root;
  attune_template_file *files;
  int count;
} folder;

/* Editors leave other files beside templates: only these are templates. */
static int is_template(const char *path) {
  static const char *const endings[] = {".c", ".cu", ".cuh", ".lua"};
  const char *dot = strrchr(path, '.');
  for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
    if (!strcmp(dot, endings[i])) return 1;
  return 0;
}

static char *joined(const char *folder_path, const char *name) {
  attune__text text = {0};
  attune__text_printf(&text, "%s%s%s", folder_path, *folder_path ? "/" : "", name);
  return text.failed ? NULL : text.data;
}

static attune_status add_file(folder *f, const char *full, const char *path) {
  if (f->count == FILES_MAX)
    return attune_fail(ATTUNE_IO, "%s: over %d templates; is it the right folder?", f->root,
                       FILES_MAX);
  attune_template_file *files = realloc(f->files, sizeof *files * ((size_t)f->count + 1));
  if (!files) return attune_fail(ATTUNE_NO_MEMORY, "the list of templates");
  f->files = files;
  void *bytes;
  size_t size;
  attune_status status = attune__file_read(full, FILE_MAX, &bytes, &size);
  if (status != ATTUNE_OK) return status;
  char *name = strdup(path);
  if (!name) {
    free(bytes);
    return attune_fail(ATTUNE_NO_MEMORY, "the list of templates");
  }
  f->files[f->count++] = (attune_template_file){name, bytes, size};
  return ATTUNE_OK;
}

static attune_status add_folder(folder *f, const char *path, int depth);

/* path: below the root. */
static attune_status add_path(folder *f, const char *path, int depth) {
  char *full = joined(f->root, path);
  if (!full) return attune_fail(ATTUNE_NO_MEMORY, "a path of a template");
  struct stat facts;
  attune_status status = ATTUNE_OK;
  if (!stat(full, &facts)) {
    if (S_ISDIR(facts.st_mode) && depth < DEPTH_MAX) status = add_folder(f, path, depth + 1);
    if (S_ISREG(facts.st_mode) && is_template(path)) status = add_file(f, full, path);
  }
  free(full);
  return status;
}

static attune_status add_entries(folder *f, DIR *folder_handle, const char *path, int depth) {
  attune_status status = ATTUNE_OK;
  struct dirent *entry;
  while (status == ATTUNE_OK && (entry = readdir(folder_handle))) {
    if (entry->d_name[0] == '.') continue;
    char *below = joined(path, entry->d_name);
    if (!below) return attune_fail(ATTUNE_NO_MEMORY, "a path of a template");
    status = add_path(f, below, depth);
    free(below);
  }
  return status;
}

static attune_status add_folder(folder *f, const char *path, int depth) {
  char *full = joined(f->root, path);
  if (!full) return attune_fail(ATTUNE_NO_MEMORY, "a path of a template");
  DIR *folder_handle = opendir(full);
  attune_status status =
      folder_handle ? add_entries(f, folder_handle, path, depth)
                    : attune_fail(ATTUNE_IO, "ATTUNE_TEMPLATES: can't read the folder %s", full);
  if (folder_handle) closedir(folder_handle);
  free(full);
  return status;
}

static int by_path(const void *a, const void *b) {
  return strcmp(((const attune_template_file *)a)->path, ((const attune_template_file *)b)->path);
}

static void free_folder(folder *f) {
  for (int i = 0; i < f->count; i++) {
    free((void *)f->files[i].path);
    free((void *)f->files[i].text);
  }
  free(f->files);
}

static attune_status read_folder(folder *f) {
  attune_status status = add_folder(f, "", 0);
  if (status != ATTUNE_OK) return status;
  if (!f->files)
    return attune_fail(ATTUNE_IO,
                       "ATTUNE_TEMPLATES: no .cu, .cuh or .lua file in %s; name a folder like "
                       "templates/, or unset it to use the built-in ones",
                       f->root);
  qsort(f->files, (size_t)f->count, sizeof *f->files, by_path);
  return ATTUNE_OK;
}

/* ---- the table ----------------------------------------------------------------------- */

static void fill_table(void) {
  folder f = {.root = getenv("ATTUNE_TEMPLATES")};
  if (!f.root || !*f.root) {
    table.files = attune__embedded, table.count = attune__embedded_count;
    return;
  }
  table.status = read_folder(&f);
  if (table.status == ATTUNE_OK) {
    table.files = f.files, table.count = f.count; /* for the life of the process */
    return;
  }
  table.message = strdup(attune_error());
  free_folder(&f);
}

attune_status attune__template_files(const attune_template_file **out, int *count) {
  pthread_once(&table.once, fill_table);
  *out = table.files, *count = table.count;
  if (table.status == ATTUNE_OK) return ATTUNE_OK;
  return attune_fail(table.status, "%s",
                     table.message ? table.message : "templates: out of memory");
}

/* ---- the digest ---------------------------------------------------------------------- */

int attune__template_of_op(const char *path, int op) {
  if (!strncmp(path, "embed/", strlen("embed/"))) return 0; /* C of `attune embed` */
  static const struct {
    int op;
    const char *folder;
  } owners[] = {
#define X(name, id, text, doc) {id, text "/"},
      ATTUNE_OPS(X)
#undef X
  };
  for (size_t i = 0; i < sizeof owners / sizeof *owners; i++)
    if (!strncmp(path, owners[i].folder, strlen(owners[i].folder))) return owners[i].op == op;
  return 1;
}

/* Path and length stand before the bytes, so that no two sets of files give the same text. */
static attune_status digest_of(int op, char out[65]) {
  attune__text all = {0};
  for (int i = 0; i < table.count; i++) {
    const attune_template_file *file = &table.files[i];
    if (!is_template(file->path) || !attune__template_of_op(file->path, op)) continue;
    attune__text_printf(&all, "%s %zu\n", file->path, file->bytes);
    attune__text_add(&all, file->text, file->bytes);
  }
  if (all.failed) return attune_fail(ATTUNE_NO_MEMORY, "the digest of the templates");
  attune__sha256_hex(all.data ? all.data : "", all.size, out);
  attune__text_free(&all);
  return ATTUNE_OK;
}

attune_status attune__template_digest(int op, char out[65]) {
  enum { OPS = 256 }; /* ids are bytes in a variant */
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static char known[OPS][65];
  if (op < 0 || op >= OPS || !attune__op_name(op))
    return attune_fail(ATTUNE_INVALID, "op %d: there is no such op", op);
  const attune_template_file *files;
  int count;
  attune_status status = attune__template_files(&files, &count);
  if (status != ATTUNE_OK) return status;
  pthread_mutex_lock(&lock);
  if (!known[op][0]) status = digest_of(op, known[op]);
  if (status == ATTUNE_OK) memcpy(out, known[op], 65);
  pthread_mutex_unlock(&lock);
  return status;
}
