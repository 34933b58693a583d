/* verify_judge.c - outputs of a kernel against the references, and the bounds.
 *
 * Input: a trial and what the kernel gave. Output: largest error, bound, and the first fault.
 *
 * O: |o - exact| <= 2 * R + 1 ulp of dtype_out at max|O|, and in fp32 + 8 ulp at max|V|, where R is
 * the largest error of rounded standard attention (reference.c) on the same inputs.
 *
 * LSE is fp32 arithmetic on exact inputs, whatever the dtype; its bound is absolute, per row, and
 * holds for any order of summation. Let e = 2^-23 (an addition that rounds to nearest is off by e/2
 * of its result, one that truncates, as tensor cores do, by e), d = head_dim_qk, n = keys that the
 * row sees and its sink, A = |scale| |q| max|k| >= any |scale q . k| (Cauchy-Schwarz, as for the
 * sum of the |q_i k_i| that the errors of a dot product are bounded by), c = the softcap, M >= any
 * score that weighs e^-40 of the row's largest or more, and >= its terms and its sink: M = min(A,
 * c) + |bias| + |slope| distance, A where there is none of them. ln sum exp moves by at most the
 * largest error of a score that weighs. d products and d additions of a score (d + 1) e A softcap:
 * x = s (scale / c), two roundings                              c |x| sech^2 x e <= 0.45 e c 1 - 2
 * / (E + 1), E = e^(2x): its argument, two roundings and the constant's  the same, twice ex2.approx
 * 2 e, of which 2 E / (E + 1)^2 <= 1/2 comes through; sum, rcp.approx (3/2 e of at most 2); last
 * sum; product with c                                    e c, 3 e c, e c / 2 twice (tanhf is
 * better)                                                    7 e c in all product with the scale,
 * bias, slope times distance, its sum            3 e M, where they are scale * log2(e), its product
 * with s and with the maximum, back         5 e M final product and sum, max * scale + ln l 2 e M
 *   l: n terms added, each from ex2.approx (2 e) and a rescale             (n + 4) e
 *   lg2.approx (2 e absolute), ln n <= 21, rounded                         20 e
 * Standard attention rounds S to dtype_q: + half an ulp at M.
 *
 * A NaN never passes. A row whose exact O is 0, such as one that sees no key, must be exactly 0.
 * Rows that are not in use are not looked at here: they must keep their poison (verify_arena.c). */
#include "cases.h"

#include "text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- faults -------------------------------------------------------------------------------- */

void attune__put_short(attune__text *text, double value) {
  int digits = value == 0 || !isfinite(value) ? 0 : 2 - (int)floor(log10(fabs(value)));
  if (digits < -22 || digits > 22 || !isfinite(value)) {
    attune__text_number(text, value);
    return;
  }
  /* Both operands are exact, so the quotient is the double nearest to the short decimal. */
  double power = pow(10, abs(digits)), scaled = digits < 0 ? value / power : value * power;
  attune__text_number(text, digits < 0 ? nearbyint(scaled) * power : nearbyint(scaled) / power);
}

static void put(attune__text *text, const char *label, double value) {
  attune__text_puts(text, label);
  attune__put_short(text, value);
}

/* "O[b1 h3 q17 d5] is 1.25, want 2.5" + note; only the first fault is kept. */
static void fault(attune__judgement *j, const attune_shape *s, int64_t row, int column, double have,
                  double want, const char *note) {
  attune__text text = {0};
  if (j->fault[0]) return;
  attune__text_printf(&text, "%s[b%d h%d q%d", column < 0 ? "LSE" : "O",
                      (int)(row / s->len_q / s->heads_q), (int)(row / s->len_q % s->heads_q),
                      (int)(row % s->len_q));
  if (column >= 0) attune__text_printf(&text, " d%d", column);
  put(&text, "] is ", have);
  put(&text, ", want ", want);
  attune__text_puts(&text, note);
  snprintf(j->fault, sizeof j->fault, "%s", text.data ? text.data : "a value is off");
  attune__text_free(&text);
}

/* "..., off by 1e-3, allowed 1e-5" */
static void fault_off(attune__judgement *j, const attune_shape *s, int64_t row, int column,
                      double have, double want, double bound) {
  attune__text text = {0};
  put(&text, ", off by ", fabs(have - want));
  put(&text, ", allowed ", bound);
  fault(j, s, row, column, have, want, text.data ? text.data : "");
  attune__text_free(&text);
}

/* ---- O ------------------------------------------------------------------------------------- */

/* Rows that see a key that was spoiled. One that sees none of its sequence's is judged, though all
 * of them were. */
static int unjudged(const attune__trial *t, const attune__case *c, int64_t row) {
  return (c->fill == ATTUNE__FILL_NAN_KEY || c->fill == ATTUNE__FILL_NAN_NEIGHBOURS) &&
         isnan(t->lse[row]);
}

/* Rows that are not in use hold nothing. */
static int in_use(const attune__trial *t, int64_t row) {
  const attune_shape *s = &t->problem.shape;
  return row % s->len_q < t->rows_q[row / s->len_q / s->heads_q];
}

/* No key, or none that weighs anything beside the sink. */
static int sees_nothing(const attune__trial *t, int64_t row) {
  int dim = t->problem.variant.head_dim_v;
  for (int64_t i = row * dim; i < (row + 1) * dim; i++)
    if (!(t->o[i] == 0)) return 0;
  return 1;
}

static double largest_v(const attune__trial *t) {
  const attune_shape *s = &t->problem.shape;
  int dim = t->problem.variant.head_dim_v;
  double largest = 0;
  for (int64_t head = 0; head < s->batch * s->heads_kv; head++) {
    int64_t begin, end;
    attune__trial_seen(t, head / s->heads_kv, &begin, &end);
    const float *v = t->v + head * s->len_k * dim;
    for (int64_t i = begin * dim; i < end * dim; i++) largest = fmax(largest, fabs((double)v[i]));
  }
  return largest;
}

static void judge_empty(const attune__trial *t, const attune__outputs *out, int64_t row,
                        attune__judgement *j) {
  const attune_shape *s = &t->problem.shape;
  int dim = t->problem.variant.head_dim_v;
  for (int c = 0; c < dim; c++)
    if (!(out->o[row * dim + c] == 0))
      fault(j, s, row, c, (double)out->o[row * dim + c], 0, ": the row sees no key");
}

/* The largest error, and where it is. NaN is a fault at once. */
static void judge_row(const attune__trial *t, const attune__outputs *out, int64_t row,
                      attune__judgement *j, int64_t *worst) {
  int dim = t->problem.variant.head_dim_v;
  for (int64_t i = row * dim; i < (row + 1) * dim; i++) {
    double error = fabs((double)out->o[i] - t->o[i]);
    if (isnan(error))
      fault(j, &t->problem.shape, row, (int)(i - row * dim), (double)out->o[i], t->o[i], "");
    if (error > j->error) j->error = error, *worst = i;
    double reference = fabs(t->rounded_o[i] - t->o[i]);
    if (!(reference <= j->reference_error)) j->reference_error = reference;
    j->max_o = fmax(j->max_o, fabs(t->o[i]));
  }
}

static void judge_o(const attune__trial *t, const attune__case *c, const attune__outputs *out,
                    attune__judgement *j) {
  const attune_variant *v = &t->problem.variant;
  int64_t worst = 0, rows = 0;
  for (int64_t row = 0; row < t->rows; row++) {
    rows += in_use(t, row);
    if (!in_use(t, row) || unjudged(t, c, row)) continue;
    j->rows++;
    if (sees_nothing(t, row))
      judge_empty(t, out, row, j);
    else
      judge_row(t, out, row, j, &worst);
  }
  j->max_v = largest_v(t);
  j->bound = 2 * j->reference_error + attune__ulp(v->dtype_out, j->max_o);
  if (v->dtype_out == ATTUNE_DTYPE_FP32) j->bound += 8 * attune__ulp(v->dtype_out, j->max_v);
  if (rows && !j->rows)
    snprintf(j->fault, sizeof j->fault, "no row could be judged: the case itself is wrong");
  if (!isfinite(j->bound))
    snprintf(j->fault, sizeof j->fault, "the bound is not finite: the case itself is wrong");
  if (j->error > j->bound)
    fault_off(j, &t->problem.shape, worst / v->head_dim_v, (int)(worst % v->head_dim_v),
              (double)out->o[worst], t->o[worst], j->bound);
}

/* O as another program computed it: the file's floats are half an ulp off at most. */
static void judge_file(const attune__trial *t, const attune__outputs *out, attune__judgement *j) {
  const attune_shape *s = &t->problem.shape;
  int dim = t->problem.variant.head_dim_v;
  double bound = j->bound + attune__ulp(ATTUNE_DTYPE_FP32, j->max_o) / 2;
  for (int64_t row = 0; t->file_o && row < t->rows; row++) {
    if (row % s->len_q >= t->rows_k[row / s->len_q / s->heads_q]) continue; /* padding */
    for (int c = 0; c < dim; c++) {
      double have = (double)out->o[row * dim + c], want = (double)t->file_o[row * dim + c];
      if (!(fabs(have - want) <= bound)) fault_off(j, s, row, c, have, want, bound);
    }
  }
}

/* ---- LSE ----------------------------------------------------------------------------------- */

static double norm(const float *x, int dim) {
  double sum = 0;
  for (int d = 0; d < dim; d++) sum += (double)x[d] * (double)x[d];
  return sqrt(sum);
}

/* max|k| over the keys that are seen; a NaN key has no say. */
static double largest_key(const attune__trial *t, int64_t kv_head) {
  const attune_shape *s = &t->problem.shape;
  int dim = t->problem.variant.head_dim_qk;
  double largest = 0;
  int64_t begin, end;
  attune__trial_seen(t, kv_head / s->heads_kv, &begin, &end);
  for (int64_t j = begin; j < end; j++)
    largest = fmax(largest, norm(t->k + (kv_head * s->len_k + j) * dim, dim));
  return largest;
}

/* What a key's score takes beside q . k, and the sizes of its terms. */
static double terms_at(const attune__trial *t, int64_t batch, int64_t head, int64_t i, int64_t j,
                       double *sizes) {
  const attune_reference_problem *p = &t->problem;
  const int64_t *stride = p->bias_stride;
  const attune_shape s = attune__sequence(p, batch);
  double bias = 0, slope = 0;
  int64_t diagonal = i + (s.corner == ATTUNE_CORNER_BOTTOM_RIGHT ? s.len_k - s.len_q : 0);
  if (t->bias)
    bias = (double)attune__bias_value(
        t->bias[batch * stride[0] + head * stride[1] + i * stride[2] + j * stride[3]]);
  if (t->slopes) slope = (double)t->slopes[batch * s.heads_q + head] * (double)llabs(j - diagonal);
  *sizes = fabs(bias) + fabs(slope);
  return bias - slope;
}

/* What the bound of a row's LSE is made of. */
typedef struct row_sizes {
  int64_t keys;
  double terms; /* largest sum of a score's terms, of keys that weigh */
} row_sizes;

/* Scores without their terms lie within +-core. */
static row_sizes sizes_of(const attune__trial *t, int64_t batch, int64_t head, int64_t i,
                          double core) {
  const int64_t keys = t->rows_k[batch];
  double sizes, best = -INFINITY;
  row_sizes out = {0, 0};
  for (int64_t j = 0; j < keys; j++) {
    if (!attune__trial_keeps(t, batch, head, i, j)) continue;
    best = fmax(best, terms_at(t, batch, head, i, j, &sizes));
    out.keys++;
  }
  for (int64_t j = 0; j < keys; j++)
    if (attune__trial_keeps(t, batch, head, i, j) &&
        terms_at(t, batch, head, i, j, &sizes) >= best - 2 * core - 40 && sizes > out.terms)
      out.terms = sizes;
  return out;
}

static double lse_bound(const attune__trial *t, int64_t row, double key) {
  const attune_reference_problem *p = &t->problem;
  const attune_variant *v = &p->variant;
  const attune_shape *s = &p->shape;
  const int scored =
      (v->features & (ATTUNE_FEATURE_SOFTCAP | ATTUNE_FEATURE_BIAS | ATTUNE_FEATURE_ALIBI)) != 0;
  int64_t head = row / s->len_q % s->heads_q;
  double cap = v->features & ATTUNE_FEATURE_SOFTCAP ? p->softcap : 0;
  double score = fabs(p->scale) * norm(t->q + row * v->head_dim_qk, v->head_dim_qk) * key;
  double core = cap > 0 ? fmin(score, cap) : score;
  row_sizes sizes = sizes_of(t, row / s->len_q / s->heads_q, head, row % s->len_q, core);
  if (sizes.keys == 0) score = core = 0; /* the sink alone, though Q be NaN */
  double most = core + sizes.terms;
  if (t->sinks && isfinite(t->sinks[head])) most = fmax(most, fabs((double)t->sinks[head]));
  double bound = (v->head_dim_qk + 1) * score + 7 * cap + (scored ? 10 : 7) * most +
                 (double)(sizes.keys + (t->sinks != NULL)) + 24;
  bound *= 0x1p-23;
  if (v->op == ATTUNE_OP_ATTN_STANDARD) bound += attune__ulp(v->dtype_q, most) / 2;
  return bound;
}

static void judge_lse(const attune__trial *t, const attune__case *c, const attune__outputs *out,
                      attune__judgement *j) {
  const attune_shape *s = &t->problem.shape;
  for (int64_t head = 0; head < s->batch * s->heads_q; head++) {
    int64_t kv = head / s->heads_q * s->heads_kv + head % s->heads_q / (s->heads_q / s->heads_kv);
    double key = largest_key(t, kv);
    for (int64_t row = head * s->len_q; row < (head + 1) * s->len_q; row++) {
      double have = (double)out->lse[row], want = t->lse[row];
      if (!in_use(t, row) || unjudged(t, c, row) || have == want) continue;
      if (isinf(want)) {
        fault(j, s, row, -1, have, want, ": the row sees no key");
        continue;
      }
      double bound = lse_bound(t, row, key);
      if (!(fabs(have - want) <= bound)) fault_off(j, s, row, -1, have, want, bound);
    }
  }
}

void attune__judge(const attune__trial *t, const attune__case *c, const attune__outputs *outputs,
                   attune__judgement *out) {
  *out = (attune__judgement){0};
  judge_o(t, c, outputs, out);
  judge_file(t, outputs, out);
  if (outputs->lse) judge_lse(t, c, outputs, out);
}
