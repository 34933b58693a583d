/* store_key.c - the name of a kernel's entry in the store: SHA-256 over everything that decides its
 * bytes, and over nothing else.
 *
 * Input: a kernel, and through it the templates and the compiler of this process. Output: 64 hex
 * digits. Every field is written as label, length, bytes, so that no two lists of fields read
 * alike. */
#include "nvrtc.h"
#include "store.h"
#include "template.h"

#include "../runtime/params.def"

#include <string.h>

static void field(attune__text *key, const char *label, const char *bytes) {
  attune__text_printf(key, "%s %zu ", label, strlen(bytes));
  attune__text_puts(key, bytes);
  attune__text_puts(key, "\n");
}

static void number(attune__text *key, const char *label, int64_t value) {
  attune__text_printf(key, "%s %lld\n", label, (long long)value);
}

/* The name says variant and tile, except for the pins' values. */
static void identity(attune__text *key, const attune_kernel *kernel) {
  field(key, "kernel", kernel->name);
  for (uint32_t i = 0; i < kernel->pins.count; i++) {
    field(key, "pin", kernel->pins.pin[i].name);
    attune__text_number(key, kernel->pins.pin[i].value);
    attune__text_puts(key, "\n");
  }
}

/* What the planner computes goes into the kernel's text and into its recipe. */
static void planned(attune__text *key, const attune_kernel *kernel) {
  field(key, "template", kernel->template_path ? kernel->template_path : "");
  for (int i = 0; i < kernel->ledger.count; i++) {
    const attune_piece *p = &kernel->ledger.piece[i];
    field(key, "piece", p->name);
    field(key, "ctype", p->ctype);
    attune__text_printf(key, "at %u %u %u %u %u\n", p->rows, p->columns, p->align, p->offset,
                        p->bytes);
  }
  number(key, "smem", kernel->ledger.bytes);
  for (int i = 0; i < kernel->constant_count; i++) {
    field(key, "constant", kernel->constant[i].name);
    number(key, "value", kernel->constant[i].value);
  }
  const attune_recipe *r = &kernel->recipe;
  attune__text_printf(key, "recipe %u %u %u %u %u %u %u %u %u %u\n", r->abi, r->param_bytes,
                      r->threads, r->smem_bytes, r->grid, r->block_m, r->block_n, r->cluster,
                      r->workspace, r->early);
}

static attune_status made_by(attune__text *key, const attune_kernel *kernel) {
  attune_nvrtc_info compiler;
  char templates[65];
  attune_status status = attune__nvrtc_info(&compiler);
  if (!status) status = attune__template_digest(kernel->variant.op, templates);
  if (status) return status;
  number(key, "entry", ATTUNE_ENTRY_VERSION);
  number(key, "abi", ATTUNE_ABI);
  field(key, "attune", attune_version());
  field(key, "compiler", compiler.version);
  field(key, "templates", templates);
  for (int i = 0; attune__nvrtc_options[i]; i++) field(key, "option", attune__nvrtc_options[i]);
  field(key, "payloads", "cubin ptx");
  return ATTUNE_OK;
}

attune_status attune__store_key(const attune_kernel *kernel, char out[65]) {
  attune__text key = {0};
  attune__text_puts(&key, "attune-key 1\n");
  identity(&key, kernel);
  planned(&key, kernel);
  attune_status status = made_by(&key, kernel);
  if (!status && key.failed)
    status = attune_fail(ATTUNE_NO_MEMORY, "%s: the key of its entry", kernel->name);
  if (!status) attune__sha256_hex(key.data, key.size, out);
  attune__text_free(&key);
  return status;
}
