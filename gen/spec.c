/* spec.c - reads a spec: file, tree, fields, product; diagnostics on the way.
 *
 * Input: a path or a text. Output: requests, or printed diagnostics and ATTUNE_BAD_SPEC. The steps
 * stand in the files that spec_parts.h lists; planning the requests is left to expand.c. */
#include "spec_parts.h"

#include <stdlib.h>

/* What a field is when the spec doesn't write it, in the spec's own words. The fields that stand
 * neither here nor in `required` have no value unless written. */
static const char defaults[] = "{mask: none, align: 16b, sram: device, group: 1, features: none}";
static const int required[] = {FIELD_OP, FIELD_ARCH, FIELD_DTYPE, FIELD_HEAD_DIM};
static const char minimal[] =
    "the least spec: {version: 1, op: attn_fwd, arch: sm_80, dtype: fp16, head_dim: 64}";

static const char *const keys[] = {"version",
#define X(name, key) key,
                                   ATTUNE_SPEC_FIELDS(X)
#undef X
                                       "exclude",
                                   NULL};
static const attune__words known = {"a key of a spec", "keys", keys};
/* Within an exclude rule: the fields alone. */
static const char *const rule_keys[] = {
#define X(name, key) key,
    ATTUNE_SPEC_FIELDS(X)
#undef X
        NULL};
static const attune__words rule_known = {"a field to exclude by", "fields", rule_keys};

/* ---- the document ---- */

static void read_version(attune__reader *r, const attune__node *root) {
  const attune__node *node = attune__map_get(root, "version");
  int64_t version;
  if (!node)
    attune__spec_error(r, root, "begin the spec with  version: 1", "version is missing");
  else if (attune__value_int(r, node, "version", 1, 1000, &version) && version != 1)
    attune__spec_error(r, node, "write version: 1", "version %d: this attune reads version 1",
                       (int)version);
}

static int is_required(int field) {
  for (size_t i = 0; i < sizeof required / sizeof *required; i++)
    if (required[i] == field) return 1;
  return 0;
}

/* A field that is not written stands nowhere. */
static void read_default(attune__reader *r, int field, const attune__node *node) {
  attune__axis *axis = &r->axis[field];
  attune__field_read(r, field, node, axis);
  for (int i = 0; i < axis->count; i++) axis->choice[i].node = NULL;
}

static void read_fields(attune__reader *r, const attune__node *root, const attune__node *other) {
  for (int field = 0; field < FIELDS; field++) {
    const char *key = attune__field_key[field];
    const attune__node *node = attune__map_get(root, key);
    if (field == FIELD_ARCH && r->options.arch) {
      attune__field_arch_option(r, &r->axis[field]);
      continue;
    }
    if (node)
      attune__field_read(r, field, node, &r->axis[field]);
    else if ((node = attune__map_get(other, key)))
      read_default(r, field, node);
    else if (is_required(field))
      attune__spec_error(r, root, minimal, "%s is missing", key);
  }
}

static void read_rule(attune__reader *r, const attune__node *node) {
  if (node->refused) return;
  if (node->kind != ATTUNE_YAML_MAP || !node->first) {
    attune__spec_error(r, node, "write {dtype: fp32, head_dim: [128, 256]}",
                       "exclude: wanted a map of fields and values");
    return;
  }
  if (!attune__map_check(r, node, &rule_known)) return;
  attune__rule *grown = realloc(r->rules, ((size_t)r->rule_count + 1) * sizeof *grown);
  if (!grown) {
    r->no_memory = 1;
    return;
  }
  r->rules = grown;
  attune__rule *rule = &grown[r->rule_count++];
  memset(rule, 0, sizeof *rule);
  rule->node = node;
  for (int field = 0; field < FIELDS; field++) {
    const attune__node *value = attune__map_get(node, attune__field_key[field]);
    if (value) attune__field_read(r, field, value, &rule->axis[field]);
  }
}

static void read_rules(attune__reader *r, const attune__node *root) {
  const attune__node *node = attune__map_get(root, "exclude");
  if (!node) return;
  if (node->kind != ATTUNE_YAML_LIST) {
    read_rule(r, node);
    return;
  }
  if (!node->first)
    attune__spec_error(r, node, "leave exclude out when nothing is excluded",
                       "exclude: an empty list");
  for (const attune__node *item = node->first; item; item = item->next) read_rule(r, item);
}

static void read_document(attune__reader *r, const attune__yaml *yaml, const attune__node *other) {
  const attune__node *root = yaml->root;
  if (!root) {
    attune__diag_add(&r->diags, 1, 1, minimal, "the spec is empty");
  } else if (root->kind != ATTUNE_YAML_MAP) {
    attune__spec_error(r, root, minimal, "a spec is a map of keys and values");
  } else {
    attune__map_check(r, root, &known);
    read_version(r, root);
    read_fields(r, root, other);
    read_rules(r, root);
  }
}

/* ---- from text to requests ---- */

static attune_status read_text(attune__reader *r, const char *bytes, size_t size,
                               attune_spec *out) {
  attune__yaml yaml = {0}, other = {0};
  attune_status status = attune__yaml_parse(bytes, size, &yaml, &r->diags);
  if (status == ATTUNE_OK)
    status = attune__yaml_parse(defaults, sizeof defaults - 1, &other, &r->diags);
  if (status == ATTUNE_OK && yaml.complete) read_document(r, &yaml, other.root);
  int clean = !r->diags.count && !r->diags.dropped && !r->no_memory;
  if (status == ATTUNE_OK && clean) attune__spec_product(r, out);
  if (status == ATTUNE_OK && r->no_memory)
    status = attune_fail(ATTUNE_NO_MEMORY, "no memory for the spec");
  attune__yaml_free(&yaml);
  attune__yaml_free(&other);
  return status;
}

static void axes_free(attune__axis *axis) {
  for (int field = 0; field < FIELDS; field++) free(axis[field].choice);
}

static void reader_free(attune__reader *r) {
  axes_free(r->axis);
  for (int i = 0; i < r->rule_count; i++) axes_free(r->rules[i].axis);
  free(r->rules);
  attune__diags_free(&r->diags);
}

/* Prints what was found and turns it into the status. */
static attune_status report(const attune__reader *r, const char *path, const char *bytes,
                            size_t size, attune__text *errors) {
  int count = r->diags.count + r->diags.dropped;
  if (!count) return ATTUNE_OK;
  size_t bom = bytes ? attune__yaml_bom(bytes, size) : 0;
  attune__diags_print(&r->diags, path, bytes ? bytes + bom : NULL, size - bom, errors);
  return attune_fail(ATTUNE_BAD_SPEC, "%s: %d error%s; the first: %s", path, count,
                     count == 1 ? "" : "s",
                     r->diags.count ? r->diags.item[0].message : "out of memory");
}

attune_status attune__spec_read(const char *path, const char *source, size_t source_bytes,
                                const attune_spec_options *options, attune_spec *out,
                                attune__text *errors) {
  attune__reader r = {0};
  char *loaded = NULL;
  attune_status status = ATTUNE_OK;
  *out = (attune_spec){0};
  if (options) r.options = *options;
  if (!source) {
    status = attune__spec_load(path, &loaded, &source_bytes, &r.diags);
    source = loaded;
  }
  if (status == ATTUNE_OK && source) status = read_text(&r, source, source_bytes, out);
  if (status == ATTUNE_OK) status = report(&r, path, source, source ? source_bytes : 0, errors);
  if (status == ATTUNE_OK && !(out->path = strdup(path)))
    status = attune_fail(ATTUNE_NO_MEMORY, "no memory for the spec");
  if (status != ATTUNE_OK) attune__spec_free(out);
  reader_free(&r);
  free(loaded);
  return status;
}

void attune__spec_free(attune_spec *spec) {
  free(spec->path);
  free(spec->requests);
  *spec = (attune_spec){0};
}
