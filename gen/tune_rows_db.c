/* tune_rows_db.c - which measured rows serve: those that come with attune and the user's.
 *
 * Input: files compiled into the program (specs/tuned/, by gen/embed.sh) and files of the store.
 * Output: the row for a variant and class on a GPU model, if it is measured and its tiles are legal
 * today. A file that cannot be used costs a message; the others serve. */
#include "tune_rows.h"

#include "../runtime/params.def"
#include "nvrtc.h"
#include "plan.h"
#include "store.h"
#include "template.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Written by gen/embed.sh. */
extern const attune_template_file attune__tuned_files[];
extern const int attune__tuned_files_count;

/* ---- opening --------------------------------------------------------------------------------- */

/* Adds what a file has; a file that is refused is said, and left out. */
static attune_status take(attune__tuned *into, attune__tuned *from, attune_status status,
                          const char *name, attune__text *messages) {
  if (status && status != ATTUNE_NO_MEMORY) {
    attune__text_printf(messages, "%s: its measured rows are not used\n", name);
    status = ATTUNE_OK;
  }
  if (!status) status = attune__tuned_merge(into, from);
  attune__tuned_free(from);
  return status;
}

static attune_status read_shipped(attune__tuned *out, attune__text *messages) {
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < attune__tuned_files_count && !status; i++) {
    const attune_template_file *file = &attune__tuned_files[i];
    attune__tuned one;
    status = attune__tuned_parse(file->path, file->text, file->bytes, &one, messages);
    status = take(out, &one, status, file->path, messages);
  }
  return status;
}

static int is_rows(const struct dirent *entry) {
  size_t length = strlen(entry->d_name);
  return entry->d_name[0] != '.' && length > 5 && !strcmp(entry->d_name + length - 5, ".yaml");
}

static attune_status read_own(const char *root, attune__tuned *out, attune__text *messages) {
  char *folder = NULL;
  struct dirent **entry = NULL;
  attune_status status = ATTUNE_OK;
  if (!root[0]) return ATTUNE_OK;
  if (asprintf(&folder, "%s/tuned", root) < 0) return attune_fail(ATTUNE_NO_MEMORY, "a path");
  int count = scandir(folder, &entry, is_rows, alphasort);
  for (int i = 0; i < count; i++) {
    char *path = NULL;
    attune__tuned one = {.count = 0};
    if (!status && asprintf(&path, "%s/%s", folder, entry[i]->d_name) < 0)
      path = NULL, status = attune_fail(ATTUNE_NO_MEMORY, "a path");
    if (!status) status = attune__tuned_read(path, &one, messages);
    if (path) status = take(out, &one, status, path, messages);
    free(path);
    free(entry[i]);
  }
  free(entry);
  free(folder);
  return status;
}

attune_status attune__tuned_db_open(const char *root, attune__tuned_db *out,
                                    attune__text *messages) {
  attune_store *store = NULL;
  memset(out, 0, sizeof *out);
  attune_status status = read_shipped(&out->shipped, messages);
  if (!status && !root) status = attune__store_open(NULL, &store);
  if (!status) status = read_own(root ? root : attune__store_root(store), &out->own, messages);
  attune__store_close(store);
  if (status) attune__tuned_db_close(out);
  return status;
}

void attune__tuned_db_close(attune__tuned_db *db) {
  attune__tuned_free(&db->shipped);
  attune__tuned_free(&db->own);
}

/* ---- the row to use -------------------------------------------------------------------------- */

/* Whether the planner would let every tile through; else the reason. */
static int tiles_legal(const attune_variant *variant, const attune__tiles *tiles, uint32_t budget,
                       char *why, size_t size) {
  attune_variant v = *variant;
  for (int part = 0; part < tiles->count; part++) {
    const attune_tile *tile = &tiles->tile[part];
    attune_ledger ledger = {.count = 0};
    v.part = (uint8_t)part;
    if (!attune__family_serves(&v, tile->family, why, size)) return 0;
    const attune_model *model = attune__model(v.op, v.part, tile->family);
    if (!attune__tile_legal(model, &v, tile, why, size)) return 0;
    model->ledger(&v, tile, &ledger);
    if (ledger.bytes > budget) {
      snprintf(why, size, "it needs %u bytes of shared memory, there are %u", ledger.bytes, budget);
      return 0;
    }
  }
  return 1;
}

static const attune__tuned_row *usable(const attune__tuned *tuned, const attune__tuned_key *key,
                                       const attune_variant *variant, attune_class cls,
                                       uint32_t budget, char *why, size_t size) {
  const attune__tuned_row *row = attune__tuned_find(tuned, key, variant, cls);
  char reason[ATTUNE_REASON_MAX];
  if (!row) return NULL;
  if (row->provisional) {
    snprintf(why, size, "its row is provisional (%s): tune it again", row->why);
    return NULL;
  }
  if (tiles_legal(variant, &row->tiles, budget, reason, sizeof reason)) return row;
  attune__text tile = {0};
  attune__tiles_print(&row->tiles, &tile);
  snprintf(why, size, "its measured tile %s is not legal here: %s", tile.data ? tile.data : "",
           reason);
  attune__text_free(&tile);
  return NULL;
}

const attune__tuned_row *attune__tuned_row_for(const attune__tuned_db *db,
                                               const attune__tuned_key *key,
                                               const attune_variant *variant, attune_class cls,
                                               uint32_t budget, char *why, size_t size) {
  char unwanted[ATTUNE_REASON_MAX];
  if (!why) why = unwanted, size = sizeof unwanted;
  why[0] = 0;
  const attune__tuned_row *row = usable(&db->own, key, variant, cls, budget, why, size);
  if (!row) row = usable(&db->shipped, key, variant, cls, budget, why, size);
  if (row) why[0] = 0;
  return row;
}

/* ---- a GPU that is not here ------------------------------------------------------------------ */

/* "H200" names "NVIDIA H200", and so does the whole; case does not matter. */
static int named(const char *gpu, const char *wanted) {
  size_t length = strlen(gpu), tail = strlen(wanted);
  if (!tail || tail > length || strcasecmp(gpu + length - tail, wanted) != 0) return 0;
  return tail == length || gpu[length - tail - 1] == ' ';
}

static int has_gpu(const attune__tuned *tuned, const char *gpu, attune__text *names) {
  const char *before = "";
  for (int i = 0; i < tuned->count; i++) {
    const char *name = tuned->row[i].key.gpu;
    if (named(name, gpu)) return 1;
    if (strcmp(name, before) != 0)
      attune__text_printf(names, "%s%s", names->size ? ", " : "", name);
    before = name;
  }
  return 0;
}

int attune__tuned_has_gpu(const attune__tuned_db *db, const char *gpu, attune__text *names) {
  if (has_gpu(&db->own, gpu, names) || has_gpu(&db->shipped, gpu, names)) return 1;
  if (!names->size) attune__text_puts(names, "no GPU");
  return 0;
}

typedef struct choice {
  const attune__tuned_key *best;
  attune__text others; /* GPUs that there are rows of */
} choice;

static void look(const attune__tuned *tuned, const char *gpu, uint32_t arch, const char *nvrtc,
                 choice *c) {
  const attune__tuned_key *before = NULL;
  for (int i = 0; i < tuned->count; i++) {
    const attune__tuned_key *key = &tuned->row[i].key;
    if (before && attune__tuned_key_same(before, key)) continue;
    before = key;
    int here = key->arch == arch && key->abi == ATTUNE_ABI && !strcmp(key->nvrtc, nvrtc);
    if (here && named(key->gpu, gpu)) {
      if (!c->best || key->sms > c->best->sms) c->best = key;
      continue;
    }
    char code[ATTUNE_ARCH_MAX];
    attune__arch_print(key->arch, 1, code);
    attune__text_printf(&c->others, "%s%s (%s, ABI %u, %s)", c->others.size ? "; " : "", key->gpu,
                        code, key->abi, key->nvrtc);
  }
}

attune_status attune__tuned_key_named(const attune__tuned_db *db, const char *gpu, uint32_t arch,
                                      attune__tuned_key *out) {
  attune_nvrtc_info compiler;
  char code[ATTUNE_ARCH_MAX];
  choice c = {.best = NULL};
  attune_status status = attune__nvrtc_info(&compiler);
  if (status) return status;
  look(&db->own, gpu, arch, compiler.version, &c);
  look(&db->shipped, gpu, arch, compiler.version, &c);
  if (c.best)
    *out = *c.best;
  else {
    attune__arch_print(arch, 1, code);
    status = attune_fail(ATTUNE_NOT_FOUND,
                         "gpu: no measured rows for '%.40s' (%s, ABI %d, %s); there are rows of: "
                         "%s",
                         gpu, code, ATTUNE_ABI, compiler.version,
                         c.others.data ? c.others.data : "no GPU");
  }
  attune__text_free(&c.others);
  return status;
}
