/* cases_print.c - the name of a case, in words: what it would take to make it again but the
 * numbers.
 *
 * "b2 h4/2 q65 k130 causal top_left gapped". Inputs that the variant's features name follow with
 * what is special in them; a bias or bit mask says along which axes it is its own: bias_b11k. */
#include "cases.h"

#include <stdio.h>

static void print_mask(const attune_variant *variant, const attune__case *c, attune__text *out) {
  const attune_shape *s = &c->shape;
  if (variant->mask == ATTUNE_MASK_NONE && !(variant->features & ATTUNE_FEATURE_ALIBI)) return;
  if (variant->mask != ATTUNE_MASK_NONE)
    attune__text_printf(out, " %s", attune__mask_name(variant->mask));
  if (attune__mask_has_lower(variant->mask))
    attune__text_printf(out, "(%d,%d)", (int)s->window_left, (int)s->window_right);
  attune__text_printf(out, " %s",
                      c->corner_unset ? "no_corner" : attune__corner_name((int)s->corner));
}

/* " bias_b11k" */
static void print_axes(const char *name, const char *axes, int over, attune__text *out) {
  attune__text_printf(out, " %s_", name);
  for (int i = 0; axes[i]; i++) attune__text_printf(out, "%c", over & 1 << i ? '1' : axes[i]);
}

static void print_features(uint32_t features, const attune__case *c, attune__text *out) {
  static const char *const lengths[] = {" varlen", " varlen_mixed", " varlen"};
  static const char *const slopes[] = {" alibi", " alibi_batch"};
  static const char *const bias[] = {"", "_inf", "_lowest"};
  static const char *const sinks[] = {" sinks", " sinks_mixed"};
  static const char *const bits[] = {"_random", "_blocks", "_none"};
  if (features & ATTUNE_FEATURE_VARLEN) attune__text_puts(out, lengths[c->lengths]);
  if (features & ATTUNE_FEATURE_VARLEN && c->slack) attune__text_printf(out, "+%d", c->slack);
  if (features & ATTUNE_FEATURE_SOFTCAP) {
    attune__text_puts(out, " softcap_");
    attune__text_number(out, (double)c->softcap);
  }
  if (features & ATTUNE_FEATURE_ALIBI) attune__text_puts(out, slopes[c->slopes]);
  if (features & ATTUNE_FEATURE_BIAS) {
    print_axes("bias", "bhqk", c->bias_over, out);
    attune__text_puts(out, bias[c->bias]);
  }
  if (features & ATTUNE_FEATURE_SINK) attune__text_puts(out, sinks[c->sinks]);
  if (!(features & ATTUNE_FEATURE_BITMASK)) return;
  print_axes("bits", "bhq", c->bits_over, out);
  attune__text_printf(out, "%s%s", bits[c->bits], c->classes ? "" : "_unclassed");
}

void attune__case_print(const attune_variant *variant, const attune__case *c, char *out,
                        size_t size) {
  static const char *const layouts[] = {"bshd", "bhsd",      "gapped",  "broadcast",
                                        "odd",  "far_batch", "far_seq", "far_head"};
  static const char *const fills[] = {
      "",         " wide_scores",    " scores_1e4",   " loud_hidden_keys",
      " nan_key", " nan_neighbours", " minilm_layer_"};
  static const char *const used_q[] = {"", " queries_full", " queries_mixed", ""};
  static const char *const used_k[] = {"", " used_full", " used_mixed", ""};
  static const char *const lse[] = {"", " lse_strided", " lse_null"};
  const attune_shape *s = &c->shape;
  attune__text text = {0};
  attune__text_printf(&text, "b%d h%d/%d q%d k%d", (int)s->batch, (int)s->heads_q, (int)s->heads_kv,
                      (int)s->len_q, (int)s->len_k);
  print_mask(variant, c, &text);
  attune__text_printf(&text, " %s%s%s%s%s", layouts[c->layout], used_q[c->used_q],
                      used_k[c->used_k], lse[c->lse], fills[c->fill]);
  if (c->fill == ATTUNE__FILL_REAL) attune__text_puts(&text, c->layer ? "5" : "0");
  if (!c->default_scale) {
    attune__text_puts(&text, " scale_");
    attune__text_number(&text, (double)c->scale);
  }
  print_features(variant->features, c, &text);
  snprintf(out, size, "%s", text.data ? text.data : "");
  attune__text_free(&text);
}
