/* rules.c - the table of what combines with what, and the questions that it answers.
 *
 * A rule limits one field of the variants of an op, of a family, or of both; a variant that no rule
 * is against has kernels. A new feature, family or op is a row here; rows that say "not generated
 * yet" go when it is. */
#include "rules.h"

#include "model.h"
#include "text.h"

#include <stdio.h>
#include <string.h>

/* ---- what a rule asks: one line each ------------------------------------------------------- */

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)
#define DIM_STEP        8
#define MAX_DIM         256 /* of tiles that hold whole rows */
#define MAX_DIM_QK      576 /* where tiles take rows in turns, or warps share them */
#define MAX_DIM_V       512

static int has_board(const attune_variant *v) {
  return attune__board(v->arch) != NULL;
}
static int is_fp32(const attune_variant *v) {
  return v->dtype_q == ATTUNE_DTYPE_FP32;
}
static int is_16_bit(const attune_variant *v) {
  return attune__dtype_bytes(v->dtype_q) == 2;
}
static int bf16_has_tensor_cores(const attune_variant *v) {
  return v->dtype_q != ATTUNE_DTYPE_BF16 || attune__arch_cc(v->arch) >= 80;
}
static int kv_like_q(const attune_variant *v) {
  return v->dtype_kv == v->dtype_q;
}
static int out_like_q(const attune_variant *v) {
  return v->dtype_out == v->dtype_q;
}
static int out_like_q_or_fp32(const attune_variant *v) {
  return out_like_q(v) || v->dtype_out == ATTUNE_DTYPE_FP32;
}
static int qk_fits_align(const attune_variant *v) {
  return v->align == ATTUNE_ALIGN_ELEM || v->head_dim_qk % DIM_STEP == 0;
}
static int v_fits_align(const attune_variant *v) {
  return v->align == ATTUNE_ALIGN_ELEM || v->head_dim_v % DIM_STEP == 0;
}
static int qk_is_dim(const attune_variant *v) {
  return v->head_dim_qk > 0 && v->head_dim_qk <= MAX_DIM_QK;
}
static int v_is_dim(const attune_variant *v) {
  return v->head_dim_v > 0 && v->head_dim_v <= MAX_DIM_V;
}
static int qk_is_short(const attune_variant *v) {
  return v->head_dim_qk <= MAX_DIM;
}
static int v_is_short(const attune_variant *v) {
  return v->head_dim_v <= MAX_DIM;
}
/* On sm_75 warps that share O's columns need tiles of 32 keys, which are too large there; alone, a
 * warp has registers for so many columns. */
static int v_fits_beside_k(const attune_variant *v) {
  return attune__arch_cc(v->arch) >= 80 || v->head_dim_v <= 384;
}
static int no_mask(const attune_variant *v) {
  return v->mask == ATTUNE_MASK_NONE;
}
static int is_16b(const attune_variant *v) {
  return v->align == ATTUNE_ALIGN_16B;
}
static int no_group(const attune_variant *v) {
  return v->group == 1;
}
static int one_feature(const attune_variant *v) {
  return v->features && !(v->features & (v->features - 1));
}

/* What attn_demo is made of, and what the other ops have. */
enum {
  DEMO_FEATURES = ATTUNE_FEATURE_NORESCALE | ATTUNE_FEATURE_NOMAX | ATTUNE_FEATURE_FA1,
  FEATURES = ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_ALIBI | ATTUNE_FEATURE_BIAS |
             ATTUNE_FEATURE_SINK | ATTUNE_FEATURE_BITMASK | ATTUNE_FEATURE_VARLEN |
             ATTUNE_FEATURE_PAGED
};

/* The features that a family has kernels for: a column of axes.def. */
static uint32_t features_of(int family) {
  uint32_t bits = 0;
#define X(name, bit, text, families) bits |= (uint32_t)((families) >> (family - 1) & 1) << (bit);
  ATTUNE_FEATURES(X)
#undef X
  return bits;
}

static int demo_alone(const attune_variant *v) {
  return !(v->features & FEATURES);
}
static int no_demo(const attune_variant *v) {
  return !(v->features & DEMO_FEATURES);
}
static int no_features(const attune_variant *v) {
  return v->features == 0;
}
static int fma_has_features(const attune_variant *v) {
  return !(v->features & ~features_of(ATTUNE_FAMILY_FMA));
}
static int mma_has_features(const attune_variant *v) {
  return !(v->features & ~features_of(ATTUNE_FAMILY_MMA));
}
static int wgmma_has_features(const attune_variant *v) {
  return !(v->features & ~features_of(ATTUNE_FAMILY_WGMMA));
}
static int qk_fits_short(const attune_variant *v) {
  return v->head_dim_qk <= 128;
}
static int qk_fits_middle(const attune_variant *v) {
  return v->head_dim_qk <= 96;
}
static int v_like_qk(const attune_variant *v) {
  return v->head_dim_v == v->head_dim_qk;
}
static int has_wgmma(const attune_variant *v) {
  return v->arch == attune__arch(90, 'a');
}
static int v_no_wider(const attune_variant *v) {
  return v->head_dim_v <= v->head_dim_qk;
}
static int group_divides_64(const attune_variant *v) {
  return 64 % v->group == 0;
}
static int wgmma_dim(const attune_variant *v) {
  return v->head_dim_qk <= 256;
}
static int known_features(const attune_variant *v) {
  return fma_has_features(v) || mma_has_features(v);
}

/* ---- the table ----------------------------------------------------------------------------- */

typedef enum field { ARCH, DTYPE, DIM_QK, DIM_V, MASK, ALIGN, GROUP, FEATURE } field;

typedef struct rule {
  int op;            /* whose variants; 0: every op's */
  uint32_t families; /* families, IN() of each; 0: all variants, before any family is asked */
  field field;
  int apart; /* 1: what the family is not made for, so that no other one stands in for it */
  int (*fits)(const attune_variant *v);
  const char *reason; /* "why; what works" */
} rule;

#define OP(name)   ATTUNE_OP_##name
#define IN(name)   (1u << ATTUNE_FAMILY_##name)
#define UP_TO(max) "not generated yet; 1 to " TEXT(max) " are"
#define WHOLE_CHUNKS                                                                               \
  "with align 16b rows are multiples of " TEXT(DIM_STEP) " elements; align elem has any other"

static const rule rules[] = {
    /* every op */
    {0, 0, ARCH, 0, has_board, "not generated yet"},
    {0, 0, DTYPE, 0, kv_like_q, "not generated yet; K and V of Q's dtype are"},
    {0, 0, DTYPE, 0, out_like_q_or_fp32, "not generated yet; O of Q's dtype or in fp32 is"},
    {0, 0, DIM_QK, 0, qk_is_dim, UP_TO(MAX_DIM_QK)},
    {0, 0, DIM_V, 0, v_is_dim, UP_TO(MAX_DIM_V)},
    {0, 0, DIM_QK, 0, qk_fits_align, WHOLE_CHUNKS},
    {0, 0, DIM_V, 0, v_fits_align, WHOLE_CHUNKS},

    {OP(ATTN_FWD), 0, FEATURE, 0, no_demo, "op attn_demo is wrong on purpose, and has it"},
    {OP(ATTN_FWD), 0, FEATURE, 0, known_features, "not generated yet"},

    {OP(ATTN_STANDARD), 0, FEATURE, 0, no_demo, "op attn_demo is wrong on purpose, and has it"},
    {OP(ATTN_STANDARD), 0, FEATURE, 0, no_features,
     "the baseline is plain attention; op attn_fwd has features"},
    {OP(ATTN_STANDARD), 0, DTYPE, 0, out_like_q,
     "the baseline has one dtype; op attn_fwd has others"},
    {OP(ATTN_STANDARD), 0, DIM_QK, 0, qk_is_short, UP_TO(MAX_DIM)},
    {OP(ATTN_STANDARD), 0, DIM_V, 0, v_is_short, UP_TO(MAX_DIM)},
    {OP(ATTN_STANDARD), 0, GROUP, 0, no_group,
     "the baseline packs no heads; group 1 serves any grouping of them"},

    {OP(ATTN_DEMO), 0, FEATURE, 0, demo_alone, "it has one of norescale, nomax and fa1 alone"},
    {OP(ATTN_DEMO), 0, FEATURE, 0, one_feature, "it has exactly one: norescale, nomax or fa1"},
    {OP(ATTN_DEMO), 0, DTYPE, 0, is_fp32, "not generated yet; fp32 is"},
    {OP(ATTN_DEMO), 0, MASK, 0, no_mask, "not generated yet; mask none is"},
    {OP(ATTN_DEMO), 0, DIM_QK, 0, qk_is_short, UP_TO(MAX_DIM)},
    {OP(ATTN_DEMO), 0, DIM_V, 0, v_is_short, UP_TO(MAX_DIM)},
    {OP(ATTN_DEMO), 0, GROUP, 0, no_group, "not generated yet; group 1 is"},

    /* families */
    {OP(ATTN_FWD), IN(FMA), FEATURE, 0, fma_has_features, "not generated yet"},

    {0, IN(MMA), DTYPE, 1, is_16_bit, "tensor cores multiply fp16 and bf16; family fma has fp32"},
    {0, IN(MMA), DTYPE, 0, bf16_has_tensor_cores,
     "tensor cores have it from sm_80 on; family fma has it here"},
    {0, IN(MMA), ALIGN, 0, is_16b, "rows are copied 16 bytes at a time; family fma loads elements"},
    {OP(ATTN_FWD), IN(MMA), FEATURE, 0, mma_has_features, "not generated yet"},
    {OP(ATTN_FWD), IN(MMA), DIM_V, 0, v_fits_beside_k,
     "on sm_75 no tile of K and V fits 64 KB and a warp's registers; family fma has it"},

    {0, IN(WGMMA) | IN(SHORT) | IN(MIDDLE), ARCH, 1, has_wgmma, "sm_90a has wgmma, nothing else"},
    {0, IN(WGMMA) | IN(SHORT) | IN(MIDDLE), DTYPE, 1, is_16_bit,
     "tensor cores multiply fp16 and bf16; family fma has fp32"},

    {0, IN(WGMMA), ALIGN, 0, is_16b, "TMA moves 16 bytes at a time; family fma loads elements"},
    {0, IN(WGMMA), DIM_QK, 0, wgmma_dim,
     "the registers of a warpgroup end at 256; family mma goes on"},
    {0, IN(WGMMA), DIM_V, 0, v_no_wider, "O takes the place of Q; family mma has wider rows of V"},
    {0, IN(WGMMA), GROUP, 0, group_divides_64,
     "a group's heads fill the 64 rows of a warpgroup: 1, 2, 4 .. 64; family mma has others"},
    {OP(ATTN_FWD), IN(WGMMA), FEATURE, 0, wgmma_has_features,
     "its pipeline reads no tensor of pairs; family mma does"},

    /* made for some shapes alone: where they refuse, no other family is a fallback */
    {0, IN(SHORT) | IN(MIDDLE), DTYPE, 1, out_like_q,
     "O takes the place of Q; family wgmma has fp32"},
    {0, IN(SHORT) | IN(MIDDLE), ALIGN, 1, is_16b,
     "TMA moves 16 bytes at a time; family fma loads elements"},
    {0, IN(SHORT), DIM_QK, 1, qk_fits_short,
     "several heads fit an SM up to 128; family wgmma goes on"},
    {0, IN(MIDDLE), DIM_QK, 1, qk_fits_middle,
     "the registers of three warpgroups end at 96; family wgmma goes on"},
    {0, IN(SHORT) | IN(MIDDLE), DIM_V, 1, v_like_qk,
     "rows of V are as wide as Q's; family wgmma has others"},
    {0, IN(SHORT), GROUP, 1, group_divides_64,
     "a group's heads fill the 64 rows of a warpgroup: 1, 2, 4 .. 64; family mma has others"},
    {0, IN(MIDDLE), GROUP, 1, no_group,
     "heads are not packed here, any grouping is served; family wgmma packs them"},
    {OP(ATTN_FWD), IN(SHORT) | IN(MIDDLE), FEATURE, 1, no_features,
     "family wgmma has some, family mma all"},
};
enum { RULES = sizeof rules / sizeof *rules };

/* The first rule of the op (family 0), or of the family, that is against the variant. */
static const rule *broken(const attune_variant *v, int family) {
  for (int i = 0; i < RULES; i++) {
    const rule *r = &rules[i];
    if ((r->op && r->op != v->op) || !(family ? r->families >> family & 1 : !r->families)) continue;
    if (!r->fits(v)) return r;
  }
  return NULL;
}

/* ---- what is said -------------------------------------------------------------------------- */

/* The features of a variant that the rule is against: those without which it would not be. */
static uint32_t features_against(const rule *r, const attune_variant *v) {
  uint32_t found = 0;
  for (uint32_t left = v->features; left; left &= left - 1) {
    attune_variant with = *v;
    with.features = left & (0 - left);
    if (!r->fits(&with)) found |= with.features;
  }
  return found ? found : v->features;
}

static void print_features(const rule *r, const attune_variant *v, attune__text *out) {
  uint32_t bits = features_against(r, v);
  attune__text_puts(out, bits ? "features" : "features none");
  for (int bit = 0, first = 1; bit < 32; bit++) {
    if (!(bits >> bit & 1)) continue;
    attune__text_printf(out, "%s %s", first ? "" : ",", attune__feature_name(bit));
    first = 0;
  }
}

static void print_dtype(const attune_variant *v, attune__text *out) {
  const char *q = attune__dtype_name(v->dtype_q);
  if (v->dtype_kv == v->dtype_q && v->dtype_out == v->dtype_q)
    attune__text_printf(out, "dtype %s", q);
  else
    attune__text_printf(out, "dtype q %s, kv %s, out %s", q, attune__dtype_name(v->dtype_kv),
                        attune__dtype_name(v->dtype_out));
}

/* Field and value, as a spec has them. */
static void print_subject(const rule *r, const attune_variant *v, int family, attune__text *out) {
  char arch[ATTUNE_ARCH_MAX];
  attune__arch_print(v->arch, 1, arch);
  switch (r->field) {
    case ARCH:
      attune__text_printf(out, "arch %s", arch);
      break;
    case DTYPE:
      print_dtype(v, out);
      break;
    case DIM_QK:
      attune__text_printf(out, "head_dim_qk %d", v->head_dim_qk);
      break;
    case DIM_V:
      attune__text_printf(out, "head_dim_v %d", v->head_dim_v);
      break;
    case MASK:
      attune__text_printf(out, "mask %s", attune__mask_name(v->mask));
      break;
    case ALIGN:
      attune__text_printf(out, "align %s", attune__align_name(v->align));
      break;
    case GROUP:
      attune__text_printf(out, "group %d", v->group);
      break;
    case FEATURE:
      print_features(r, v, out);
      break;
  }
  if (r->families)
    attune__text_printf(out, " with family %s", attune__family_name(family));
  else if (r->op)
    attune__text_printf(out, " with op %s", attune__op_name(r->op));
}

static void print_archs(attune__text *out) {
  attune__text_puts(out, "; ");
  for (int i = 0; i < ATTUNE_BOARDS; i++)
    attune__text_printf(out, "%s%s",
                        i == 0                  ? ""
                        : i + 1 < ATTUNE_BOARDS ? ", "
                                                : " and ",
                        attune__boards[i].arch_name);
  attune__text_puts(out, " are");
}

static void say(const rule *r, const attune_variant *v, int family, char *reason, size_t size) {
  attune__text text = {0};
  print_subject(r, v, family, &text);
  attune__text_printf(&text, ": %s", r->reason);
  if (r->field == ARCH) print_archs(&text);
  snprintf(reason, size, "%s", text.failed ? "no memory for a reason" : text.data);
  attune__text_free(&text);
}

/* ---- the questions ------------------------------------------------------------------------- */

/* What is said of a family without a model of the op: nothing that its variants could change. */
static const rule no_model = {.reason = "the family has no such kernels", .apart = 1};

/* The rule against the variant in a family; NULL when it is served. */
static const rule *against(const attune_variant *v, int family) {
  const rule *r = broken(v, 0);
  if (r) return r;
  return attune__model(v->op, v->part, family) ? broken(v, family) : &no_model;
}

int attune__family_serves(const attune_variant *v, int family, char *reason, size_t size) {
  const rule *r = against(v, family);
  if (r == &no_model)
    snprintf(reason, size, "op %s with family %s: %s; leave family out", attune__op_name(v->op),
             attune__family_name(family), r->reason);
  else if (r)
    say(r, v, family, reason, size);
  return !r;
}

const char *attune__family_refusal(const attune_variant *v, int family) {
  const rule *r = against(v, family);
  return r ? r->reason : NULL;
}

int attune__family_is_apart(const attune_variant *v, int family) {
  const rule *r = against(v, family);
  return r && r->apart;
}

static attune_status check_values(const attune_variant *v) {
  if (!attune__op_name(v->op) || v->part >= attune__op_parts(v->op))
    return attune_fail(ATTUNE_INVALID, "op %d, part %d: there is no such op", v->op, v->part);
  if (!attune__dtype_name(v->dtype_q) || !attune__dtype_name(v->dtype_kv) ||
      !attune__dtype_name(v->dtype_out) || !attune__mask_name(v->mask) ||
      !attune__align_name(v->align))
    return attune_fail(ATTUNE_INVALID, "a dtype, the mask or the alignment is unset");
  for (int bit = 0; bit < 32; bit++)
    if (v->features >> bit & 1 && !attune__feature_name(bit))
      return attune_fail(ATTUNE_INVALID, "features: there is no feature of bit %d", bit);
  return ATTUNE_OK;
}

/* What the slowest family says, which does most, where none serves. */
attune_status attune__generated(const attune_variant *v) {
  attune_status status = check_values(v);
  char reason[ATTUNE_REASON_MAX], other[ATTUNE_REASON_MAX];
  if (status != ATTUNE_OK) return status;
  if (attune__family_serves(v, ATTUNE_FAMILY_FMA, reason, sizeof reason)) return ATTUNE_OK;
#define X(name, id, text, doc)                                                                     \
  if (attune__family_serves(v, id, other, sizeof other)) return ATTUNE_OK;
  ATTUNE_FAMILIES(X)
#undef X
  return attune_fail(ATTUNE_UNSUPPORTED, "%s", reason);
}
