/* tensors.c - parameter block -> tensors: shapes, strides, what each kernel of an op reads and
 * writes, and which rows of its outputs are in use.
 *
 * Input: a variant with its part, and the block as params.c filled it. Output: the list that gmem.c
 * checks by. The one place of the CPU device that knows ops and features. */
#include "tensors.h"

#include <stddef.h>
#include <stdlib.h>

enum {
  READ = ATTUNE__TENSOR_READ,
  OUTPUT = ATTUNE__TENSOR_OUTPUT,
  AGAIN = ATTUNE__TENSOR_READ | ATTUNE__TENSOR_WRITE | ATTUNE__TENSOR_ALL /* fa1 comes back to it */
};

/* What the kernel of an op's part does to each; 0: nothing. All may read what the features bring.
 */
typedef struct uses {
  int op, part;
  unsigned q, k, v, o, lse, scores;
} uses;
static const uses table[] = {
    {ATTUNE_OP_ATTN_FWD, 0, READ, READ, READ, OUTPUT, OUTPUT, 0},
    {ATTUNE_OP_ATTN_STANDARD, 0, READ, READ, 0, 0, 0, OUTPUT},
    {ATTUNE_OP_ATTN_STANDARD, 1, 0, 0, 0, 0, OUTPUT, READ | OUTPUT},
    {ATTUNE_OP_ATTN_STANDARD, 2, 0, 0, READ, OUTPUT, 0, READ},
    {ATTUNE_OP_ATTN_DEMO, 0, READ, READ, READ, AGAIN, AGAIN, 0},
};

static void add(attune__tensors *t, size_t pointer, const attune__tensor *tensor) {
  if (!tensor->kind || !tensor->base) return;
  t->pointer[t->count] = (uint32_t)pointer;
  t->tensor[t->count++] = *tensor;
}

typedef attune_params_attn_standard params_block;

/* ---- lengths ----------------------------------------------------------------------------------
 */

typedef struct lengths {
  int packed;           /* varlen */
  int64_t batch;        /* of the tensors' first axis: 1 when packed */
  int64_t rows, keys;   /* of their second */
  int64_t len_q, len_k; /* of the longest sequence */
} lengths;

static int64_t clamp(int64_t n, int64_t low, int64_t high) {
  return n < low ? low : n > high ? high : n;
}

/* A packed sequence's rows, kept within the tensor as templates/prim/place.cuh does. */
static void packed_rows(const int32_t *cu_seqlens, int64_t sequence, int64_t total, int64_t *first,
                        int64_t *length) {
  *first = clamp(cu_seqlens[sequence], 0, total);
  *length = clamp(cu_seqlens[sequence + 1], *first, total) - *first;
}

static int64_t longest(const int32_t *cu_seqlens, int64_t batch, int64_t total) {
  int64_t most = 0;
  for (int64_t s = 0; s < batch; s++) {
    int64_t first, length;
    packed_rows(cu_seqlens, s, total, &first, &length);
    if (length > most) most = length;
  }
  return most;
}

static lengths lengths_of(const attune_variant *v, const params_block *p) {
  lengths l = {.packed = (v->features & ATTUNE_FEATURE_VARLEN) != 0,
               .batch = p->batch,
               .rows = p->len_q,
               .keys = p->len_k,
               .len_q = p->len_q,
               .len_k = p->len_k};
  if (!l.packed) return l;
  l.batch = 1, l.rows = p->total_q, l.keys = p->total_k;
  l.len_q = longest(p->cu_seqlens_q, p->batch, p->total_q);
  l.len_k = longest(p->cu_seqlens_k, p->batch, p->total_k);
  return l;
}

/* The rows of O that are of a sequence and in use. Without lengths on the device all are. */
static attune_status mark_rows(const params_block *p, const lengths *l, attune__tensors *out) {
  if (!l->packed && !p->seqused_q) return ATTUNE_OK;
  out->in_use = calloc((size_t)(l->batch * l->rows) + 1, 1);
  if (!out->in_use) return attune_fail(ATTUNE_NO_MEMORY, "no memory to follow the rows of O");
  for (int64_t s = 0; s < p->batch; s++) {
    int64_t first = s * l->rows, length = l->rows;
    if (l->packed) packed_rows(p->cu_seqlens_q, s, l->rows, &first, &length);
    if (p->seqused_q) length = clamp(p->seqused_q[s], 0, length);
    memset(out->in_use + first, 1, (size_t)length);
  }
  return ATTUNE_OK;
}

/* ---- tensors ----------------------------------------------------------------------------------
 */

/* A tensor of the block with strides of its own: [batch, len, heads, dim]. */
#define ADD(field, use, bytes, len, heads, dim)                                                    \
  do {                                                                                             \
    attune__tensor added = {                                                                       \
        .name = #field,                                                                            \
        .kind = use,                                                                               \
        .base = (unsigned char *)(uintptr_t)p->field,                                              \
        .element_bytes = (uint32_t)(bytes),                                                        \
        .extent = {l->batch, len, heads, dim},                                                     \
        .stride = {p->field##_stride_batch, p->field##_stride_seq, p->field##_stride_head, 1},     \
        .in_use = (use)&ATTUNE__TENSOR_WRITE ? out->in_use : NULL};                                \
    add(out, offsetof(params_block, field), &added);                                               \
  } while (0)

static void add_main(const attune_variant *v, const params_block *p, const uses *u,
                     const lengths *l, attune__tensors *out) {
  int q = attune__dtype_bytes(v->dtype_q), kv = attune__dtype_bytes(v->dtype_kv);
  ADD(q, u->q, q, l->rows, p->heads_q, v->head_dim_qk);
  ADD(k, u->k, kv, l->keys, p->heads_kv, v->head_dim_qk);
  ADD(v, u->v, kv, l->keys, p->heads_kv, v->head_dim_v);
  ADD(o, u->o, attune__dtype_bytes(v->dtype_out), l->rows, p->heads_q, v->head_dim_v);
  ADD(lse, u->lse, sizeof *p->lse, l->rows, p->heads_q, 1);
}
#undef ADD

/* An input of the block: extents, then strides, in parentheses. */
#define LIST(a, b, c, d)                                                                           \
  { a, b, c, d }
#define ADD(field, bytes, extents, strides)                                                        \
  add(out, offsetof(params_block, field),                                                          \
      &(attune__tensor){.name = #field,                                                            \
                        .kind = READ,                                                              \
                        .base = (unsigned char *)(uintptr_t)p->field,                              \
                        .element_bytes = (uint32_t)(bytes),                                        \
                        .extent = LIST extents,                                                    \
                        .stride = LIST strides})

static void add_lengths(const params_block *p, attune__tensors *out) {
  ADD(seqused_q, 4, (1, 1, 1, p->batch), (0, 0, 0, 1));
  ADD(seqused_k, 4, (1, 1, 1, p->batch), (0, 0, 0, 1));
  ADD(cu_seqlens_q, 4, (1, 1, 1, p->batch + 1), (0, 0, 0, 1));
  ADD(cu_seqlens_k, 4, (1, 1, 1, p->batch + 1), (0, 0, 0, 1));
}

static int64_t blocks(int64_t length, int64_t block) {
  return (length + block - 1) / block;
}

static void add_score_inputs(const attune_variant *v, const params_block *p, const lengths *l,
                             attune__tensors *out) {
  const int64_t side = ATTUNE_BITMASK_BLOCK;
  ADD(alibi_slopes, 4, (1, 1, p->batch, p->heads_q), (0, 0, p->alibi_stride_batch, 1));
  ADD(bias, attune__dtype_bytes(v->dtype_q), (p->batch, p->heads_q, l->len_q, l->len_k),
      (p->bias_stride_batch, p->bias_stride_head, p->bias_stride_q, p->bias_stride_k));
  ADD(sinks, 4, (1, 1, 1, p->heads_q), (0, 0, 0, 1));
  ADD(bitmask, 4, (p->batch, p->heads_q, l->len_q, blocks(l->len_k, 32)),
      (p->bitmask_stride_batch, p->bitmask_stride_head, p->bitmask_stride_q, 1));
  ADD(bitmask_classes, 1, (p->batch, p->heads_q, blocks(l->len_q, side), blocks(l->len_k, side)),
      (p->bitmask_classes_stride_batch, p->bitmask_classes_stride_head, p->bitmask_classes_stride_q,
       1));
}
#undef ADD

/* [batch, row, head, key]. The columns of unused keys get a 0 in P, and nothing in S. */
static void add_scores(const params_block *p, unsigned use, uint32_t bytes, attune__tensors *out) {
  int64_t head = p->len_q * p->scores_pitch;
  unsigned partly = use & ~(unsigned)ATTUNE__TENSOR_ALL;
  attune__tensor scores = {.name = "scores",
                           .kind = use == OUTPUT && p->seqused_k ? partly : use,
                           .base = p->scores,
                           .element_bytes = bytes,
                           .extent = {p->batch, p->len_q, p->heads_q, p->len_k},
                           .stride = {p->heads_q * head, p->scores_pitch, head, 1},
                           .in_use = use & ATTUNE__TENSOR_WRITE ? out->in_use : NULL};
  add(out, offsetof(params_block, scores), &scores);
}

attune_status attune__tensors_of(const attune_variant *v, const attune_params_attn_standard *p,
                                 attune__tensors *out) {
  out->count = 0, out->in_use = NULL;
  const uses *u = NULL;
  for (size_t k = 0; k < sizeof table / sizeof *table; k++)
    if (table[k].op == v->op && table[k].part == v->part) u = &table[k];
  if (!u) return ATTUNE_OK;
  lengths l = lengths_of(v, p);
  attune_status status = mark_rows(p, &l, out);
  if (status) return status;
  add_main(v, p, u, &l, out);
  add_lengths(p, out);
  add_score_inputs(v, p, &l, out);
  if (u->scores) add_scores(p, u->scores, (uint32_t)attune__dtype_bytes(v->dtype_q), out);
  return ATTUNE_OK;
}

void attune__tensors_free(attune__tensors *tensors) {
  free(tensors->in_use);
}
