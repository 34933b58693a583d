/* tensors.c - parameter block -> tensors: shapes, strides, and what each kernel of an op reads and
 * writes.
 *
 * Input: a variant with its part, and the block as params.c filled it. Output: the list that gmem.c
 * checks by. The one place of the CPU device that knows ops. */
#include "tensors.h"

#include <stddef.h>

enum {
  READ = ATTUNE__TENSOR_READ,
  OUTPUT = ATTUNE__TENSOR_OUTPUT,
  AGAIN =
      ATTUNE__TENSOR_READ | ATTUNE__TENSOR_WRITE | ATTUNE__TENSOR_ALL, /* fa1 comes back to it */
  PARTLY = ATTUNE__TENSOR_WRITE | ATTUNE__TENSOR_ONCE /* with unused keys, S has unused columns */
};

/* What the kernel of an op's part does to each; 0: nothing. */
typedef struct uses {
  int op, part;
  unsigned q, k, v, o, lse, seqused_k, scores;
} uses;
static const uses table[] = {
    {ATTUNE_OP_ATTN_FWD, 0, READ, READ, READ, OUTPUT, OUTPUT, READ, 0},
    {ATTUNE_OP_ATTN_STANDARD, 0, READ, READ, 0, 0, 0, READ, OUTPUT},
    {ATTUNE_OP_ATTN_STANDARD, 1, 0, 0, 0, 0, OUTPUT, READ, READ | OUTPUT},
    {ATTUNE_OP_ATTN_STANDARD, 2, 0, 0, READ, OUTPUT, 0, READ, READ},
    {ATTUNE_OP_ATTN_DEMO, 0, READ, READ, READ, AGAIN, AGAIN, READ, 0},
};

static void add(attune__tensors *t, size_t pointer, const attune__tensor *tensor) {
  if (!tensor->kind || !tensor->base) return;
  t->pointer[t->count] = (uint32_t)pointer;
  t->tensor[t->count++] = *tensor;
}

typedef attune_params_attn_standard params_block;

/* A tensor of the block with strides of its own: [batch, len, heads, dim]. */
#define ADD(field, use, bytes, len, heads, dim)                                                    \
  do {                                                                                             \
    attune__tensor added = {                                                                       \
        .name = #field,                                                                            \
        .kind = use,                                                                               \
        .base = (unsigned char *)(uintptr_t)p->field,                                              \
        .element_bytes = (uint32_t)(bytes),                                                        \
        .extent = {p->batch, len, heads, dim},                                                     \
        .stride = {p->field##_stride_batch, p->field##_stride_seq, p->field##_stride_head, 1}};    \
    add(out, offsetof(params_block, field), &added);                                               \
  } while (0)

static void add_lengths(const params_block *p, unsigned use, attune__tensors *out) {
  attune__tensor used = {.name = "seqused_k",
                         .kind = use,
                         .base = (unsigned char *)(uintptr_t)p->seqused_k,
                         .element_bytes = sizeof *p->seqused_k,
                         .extent = {1, 1, 1, p->batch},
                         .stride = {0, 0, 0, 1}};
  add(out, offsetof(params_block, seqused_k), &used);
}

/* [batch, head, row, key] */
static void add_scores(const params_block *p, unsigned use, uint32_t bytes, attune__tensors *out) {
  int64_t head = p->len_q * p->scores_pitch;
  attune__tensor scores = {.name = "scores",
                           .kind = use == OUTPUT && p->seqused_k ? PARTLY : use,
                           .base = p->scores,
                           .element_bytes = bytes,
                           .extent = {p->batch, p->heads_q, p->len_q, p->len_k},
                           .stride = {p->heads_q * head, head, p->scores_pitch, 1}};
  add(out, offsetof(params_block, scores), &scores);
}

void attune__tensors_of(const attune_variant *v, const attune_params_attn_standard *p,
                        attune__tensors *out) {
  out->count = 0;
  const uses *u = NULL;
  for (size_t k = 0; k < sizeof table / sizeof *table; k++)
    if (table[k].op == v->op && table[k].part == v->part) u = &table[k];
  if (!u) return;
  int q = attune__dtype_bytes(v->dtype_q), kv = attune__dtype_bytes(v->dtype_kv);
  ADD(q, u->q, q, p->len_q, p->heads_q, v->head_dim_qk);
  ADD(k, u->k, kv, p->len_k, p->heads_kv, v->head_dim_qk);
  ADD(v, u->v, kv, p->len_k, p->heads_kv, v->head_dim_v);
  ADD(o, u->o, attune__dtype_bytes(v->dtype_out), p->len_q, p->heads_q, v->head_dim_v);
  ADD(lse, u->lse, sizeof *p->lse, p->len_q, p->heads_q, 1);
  add_lengths(p, u->seqused_k, out);
  if (u->scores) add_scores(p, u->scores, (uint32_t)q, out);
}
