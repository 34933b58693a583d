/* verify_arena.c - a trial in device memory: every tensor in one allocation, everything else in it
 * poisoned.
 *
 * Input: a case (for its layout) and its trial. Output: an image of the allocation on the host, the
 * allocation, the arguments that point into it; after a run, the outputs out of it.
 *
 *   guard | O | guard | LSE | guard | Q | guard | K | guard | V | guard | the features' inputs, a
 * guard behind each | workspace | tail
 *
 * Poison is 0xff in every byte: NaN in every dtype. It fills the guards, the gaps of strided
 * tensors, the rows of packed ones behind the last sequence, O and LSE. A run is clean when after
 * it the whole image is as it was, but for the rows in use of O and LSE (and the workspace): this
 * finds any write to an input, a gap, a guard or a row that is not in use.
 *
 * Far layouts: the rows of one axis lie in islands of memory; only the islands have an image, one
 * after the other. */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

enum { POISON = 0xff, ALIGNMENT = 256, GUARD = 4096, TAIL = 65536 };
/* Three islands reach 2^31 + 128 elements. */
enum { FAR_ELEMENTS = (1 << 30) + 64 };

static size_t round_up(size_t bytes) {
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---- places -------------------------------------------------------------------------------- */

static int far_axis(attune__layout layout) {
  if (layout == ATTUNE__LAYOUT_FAR_BATCH) return ATTUNE__AXIS_BATCH;
  if (layout == ATTUNE__LAYOUT_FAR_SEQ) return ATTUNE__AXIS_SEQ;
  if (layout == ATTUNE__LAYOUT_FAR_HEAD) return ATTUNE__AXIS_HEAD;
  return -1;
}

/* Strides with `gap` elements behind a row of one head, twice that behind a position, three times
 * behind a sequence. */
static void set_seq_major(attune__place *p, int64_t gap) {
  const int64_t *n = p->extent;
  p->image[ATTUNE__AXIS_HEAD] = p->dim + gap;
  p->image[ATTUNE__AXIS_SEQ] = n[ATTUNE__AXIS_HEAD] * p->image[ATTUNE__AXIS_HEAD] + 2 * gap;
  p->image[ATTUNE__AXIS_BATCH] = n[ATTUNE__AXIS_SEQ] * p->image[ATTUNE__AXIS_SEQ] + 3 * gap;
}

static void set_head_major(attune__place *p, int64_t gap) {
  const int64_t *n = p->extent;
  p->image[ATTUNE__AXIS_SEQ] = p->dim + gap;
  p->image[ATTUNE__AXIS_HEAD] = n[ATTUNE__AXIS_SEQ] * p->image[ATTUNE__AXIS_SEQ] + gap;
  p->image[ATTUNE__AXIS_BATCH] = n[ATTUNE__AXIS_HEAD] * p->image[ATTUNE__AXIS_HEAD] + 2 * gap;
}

/* Every stride odd: no two rows are aligned alike. */
static void set_odd(attune__place *p) {
  const int64_t *n = p->extent;
  p->image[ATTUNE__AXIS_HEAD] = (p->dim + 1) | 1;
  p->image[ATTUNE__AXIS_SEQ] = (n[ATTUNE__AXIS_HEAD] * p->image[ATTUNE__AXIS_HEAD] + 2) | 1;
  p->image[ATTUNE__AXIS_BATCH] = (n[ATTUNE__AXIS_SEQ] * p->image[ATTUNE__AXIS_SEQ] + 2) | 1;
}

/* index tells the tensors apart, so that no two gapped ones share a stride. */
static void set_strides(attune__place *p, attune__layout layout, int index) {
  switch (layout) {
    case ATTUNE__LAYOUT_BHSD:
      set_head_major(p, 0);
      break;
    case ATTUNE__LAYOUT_GAPPED:
      set_seq_major(p, (int64_t)(index + 1) * 16 / p->element_bytes);
      break;
    case ATTUNE__LAYOUT_ODD:
      set_odd(p);
      break;
    default:
      set_seq_major(p, 0);
  }
}

/* Elements from the first to behind the last. */
static int64_t span(const attune__place *p) {
  int64_t last = 0;
  for (int axis = 0; axis < ATTUNE__AXES; axis++) {
    if (!p->extent[axis]) return 0;
    last += (p->extent[axis] - 1) * p->image[axis];
  }
  return last + p->dim;
}

/* Takes `bytes` behind *end, with a guard behind them. */
static size_t claim(attune__arena *a, const char *name, size_t bytes, size_t *end) {
  size_t offset = *end;
  a->region[a->region_count++] = (attune__region){offset, name};
  *end = round_up(offset + bytes) + GUARD;
  return offset;
}

/* A tensor of queries in memory; packed, it is one long sequence. */
static attune__place place_q(const attune__trial *t, int dtype, int dim, const int32_t *rows) {
  const attune_shape *s = &t->problem.shape;
  return (attune__place){
      .element_bytes = attune__dtype_bytes(dtype),
      .dim = dim,
      .extent = {t->cu_q ? 1 : s->batch, t->cu_q ? t->total_q : s->len_q, s->heads_q},
      .first = t->cu_q,
      .rows = rows,
      .batch = s->batch,
      .len = s->len_q};
}

static attune__place place_kv(const attune__trial *t, int dim) {
  const attune_shape *s = &t->problem.shape;
  return (attune__place){
      .element_bytes = attune__dtype_bytes(t->problem.variant.dtype_kv),
      .dim = dim,
      .extent = {t->cu_k ? 1 : s->batch, t->cu_k ? t->total_k : s->len_k, s->heads_kv},
      .first = t->cu_k,
      .rows = t->len_k,
      .batch = s->batch,
      .len = s->len_k};
}

/* Places a tensor in an island: along the far axis an island holds one row. */
static void put(attune__arena *a, const char *name, attune__place *p, attune__layout layout,
                size_t *end) {
  int axis = far_axis(layout);
  int64_t extent = axis < 0 ? 0 : p->extent[axis];
  size_t shift = layout == ATTUNE__LAYOUT_ODD ? (size_t)p->element_bytes : 0;
  if (axis >= 0) p->extent[axis] = 1;
  p->offset = claim(a, name, (size_t)span(p) * (size_t)p->element_bytes + shift, end) + shift;
  if (axis >= 0) p->extent[axis] = extent;
}

static void put_tensor(attune__arena *a, const char *name, attune__place *p, attune__layout layout,
                       int index, size_t *end) {
  set_strides(p, layout, index);
  put(a, name, p, layout, end);
}

/* LSE is [batch, head, seq]. */
static void put_lse(attune__arena *a, const attune__case *c, size_t *end) {
  set_head_major(&a->lse, c->lse == ATTUNE__LSE_STRIDED ? 2 : 0);
  put(a, "in LSE's gaps, its rows out of use or behind it", &a->lse, c->layout, end);
}

/* Strides on the device, and both strides of the far axis, once the island's size is known. */
static void finish(attune__place *p, const attune__arena *a, attune__layout layout) {
  int axis = far_axis(layout);
  memcpy(p->device, p->image, sizeof p->device);
  if (axis < 0) return;
  p->image[axis] = (int64_t)a->island_bytes / p->element_bytes;
  p->device[axis] = (int64_t)a->distance / p->element_bytes;
}

/* Of sequences in one extent there is no stride: the launch must not read it. */
enum { NO_STRIDE = 1 << 30 };

static void place_tensors(attune__arena *a, const attune__case *c, const attune__trial *t,
                          size_t *end) {
  const attune_variant *v = &t->problem.variant;
  a->o = place_q(t, v->dtype_out, v->head_dim_v, t->rows_q);
  a->lse = place_q(t, ATTUNE_DTYPE_FP32, 1, t->rows_q);
  a->q = place_q(t, v->dtype_q, v->head_dim_qk, t->len_q);
  a->k = place_kv(t, v->head_dim_qk);
  a->v = place_kv(t, v->head_dim_v);
  put_tensor(a, "in O's gaps, its rows out of use or behind it", &a->o, c->layout, 0, end);
  put_lse(a, c, end);
  put_tensor(a, "in Q or behind it", &a->q, c->layout, 1, end);
  put_tensor(a, "in K or behind it", &a->k, c->layout, 2, end);
  put_tensor(a, "in V or behind it", &a->v, c->layout, 3, end);
  if (c->layout == ATTUNE__LAYOUT_BROADCAST)
    a->k.image[ATTUNE__AXIS_BATCH] = a->v.image[ATTUNE__AXIS_BATCH] =
        a->v.image[ATTUNE__AXIS_HEAD] = 0;
}

/* Off by an element in every layout but the plainest: a bias is element aligned. */
static size_t bias_shift(const attune__case *c, const attune__trial *t) {
  return c->layout == ATTUNE__LAYOUT_BSHD ? 0
                                          : (size_t)attune__dtype_bytes(t->problem.variant.dtype_q);
}

static size_t slopes_count(const attune__case *c) {
  return (size_t)(c->shape.heads_q * (c->slopes == ATTUNE__SLOPES_BATCH ? c->shape.batch : 1));
}

static void place_inputs(attune__arena *a, const attune__case *c, const attune__trial *t,
                         size_t *end) {
  size_t batch = (size_t)c->shape.batch, word = sizeof(int32_t), shift = bias_shift(c, t);
  size_t bias = (size_t)attune__dtype_bytes(t->problem.variant.dtype_q) * (size_t)t->bias_count;
  a->cu_q = claim(a, "in cu_seqlens_q or behind it", (batch + 1) * word, end);
  a->cu_k = claim(a, "in cu_seqlens_k or behind it", (batch + 1) * word, end);
  a->used_q = claim(a, "in seqused_q or behind it", batch * word, end);
  a->used_k = claim(a, "in seqused_k or behind it", batch * word, end);
  a->slopes = claim(a, "in the slopes or behind them", slopes_count(c) * word, end);
  a->bias = claim(a, "in the bias or behind it", bias + shift, end) + shift;
  a->sinks = claim(a, "in the sinks or behind them", (size_t)c->shape.heads_q * word, end);
  a->bits = claim(a, "in the bit mask or behind it", (size_t)t->bits_count * word, end);
  a->classes = claim(a, "in the block classes or behind them", (size_t)t->classes_count, end);
}

static void place_all(attune__arena *a, const attune__case *c, const attune__trial *t) {
  size_t end = GUARD;
  place_tensors(a, c, t, &end);
  place_inputs(a, c, t, &end);
  a->workspace = claim(a, "behind the workspace", a->workspace_bytes, &end);
  a->island_bytes = round_up(end + TAIL);
}

const char *attune__arena_region(const attune__arena *a, size_t at) {
  const char *name = "before O";
  at %= a->island_bytes;
  for (int i = 0; i < a->region_count && a->region[i].offset <= at; i++) name = a->region[i].name;
  return name;
}

static void lay_out(attune__arena *a, const attune__case *c, const attune__trial *t) {
  int axis = far_axis(c->layout);
  place_all(a, c, t);
  a->islands = axis < 0 ? 1 : (int)a->q.extent[axis];
  a->distance = axis < 0 ? a->island_bytes : (size_t)FAR_ELEMENTS * (size_t)a->q.element_bytes;
  finish(&a->o, a, c->layout);
  finish(&a->lse, a, c->layout);
  finish(&a->q, a, c->layout);
  finish(&a->k, a, c->layout);
  finish(&a->v, a, c->layout);
}

/* ---- rows ---------------------------------------------------------------------------------- */

static size_t row_bytes(const attune__place *p) {
  return (size_t)p->dim * (size_t)p->element_bytes;
}

/* Calls visit with each row's bytes in the image, and its index in a dense tensor, heads first. */
typedef void (*row_fn)(unsigned char *row, size_t bytes, int64_t index, void *user);
static void each_row(const attune__place *p, unsigned char *image, row_fn visit, void *user) {
  const int64_t heads = p->extent[ATTUNE__AXIS_HEAD];
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t h = 0; h < heads; h++)
      for (int64_t s = 0; s < p->rows[b]; s++) {
        int64_t at = h * p->image[ATTUNE__AXIS_HEAD] + s * p->image[ATTUNE__AXIS_SEQ];
        at +=
            p->first ? p->first[b] * p->image[ATTUNE__AXIS_SEQ] : b * p->image[ATTUNE__AXIS_BATCH];
        visit(image + p->offset + (size_t)at * (size_t)p->element_bytes, row_bytes(p),
              (b * heads + h) * p->len + s, user);
      }
}

typedef struct source {
  const float *dense;
  int dtype, dim;
} source;

static void write_row(unsigned char *row, size_t bytes, int64_t index, void *user) {
  const source *from = user;
  (void)bytes;
  attune__to_dtype(from->dtype, from->dense + index * from->dim, row, (size_t)from->dim);
}

static void write_tensor(const attune__arena *a, const attune__place *p, int dtype,
                         const float *dense) {
  source from = {dense, dtype, p->dim};
  each_row(p, a->image, write_row, &from);
}

static void take_row(unsigned char *row, size_t bytes, int64_t index, void *user) {
  unsigned char *dense = user;
  memcpy(dense + (size_t)index * bytes, row, bytes);
  memset(row, POISON, bytes);
}

/* ---- arenas -------------------------------------------------------------------------------- */

static void write_words(const attune__arena *a, size_t offset, const void *from, int64_t count) {
  if (from) memcpy(a->image + offset, from, (size_t)count * sizeof(int32_t));
}

static void write_inputs(const attune__arena *a, const attune__case *c, const attune__trial *t) {
  write_words(a, a->cu_q, t->cu_q, c->shape.batch + 1);
  write_words(a, a->cu_k, t->cu_k, c->shape.batch + 1);
  write_words(a, a->used_q, t->used_q, c->shape.batch);
  write_words(a, a->used_k, t->used_k, c->shape.batch);
  write_words(a, a->slopes, t->slopes, (int64_t)slopes_count(c));
  write_words(a, a->sinks, t->sinks, c->shape.heads_q);
  write_words(a, a->bits, t->bits, t->bits_count);
  if (t->bias)
    attune__to_dtype(t->problem.variant.dtype_q, t->bias, a->image + a->bias,
                     (size_t)t->bias_count);
  if (t->classes) memcpy(a->image + a->classes, t->classes, (size_t)t->classes_count);
}

static attune_status paint(attune__arena *a, const attune__case *c, const attune__trial *t) {
  size_t bytes = (size_t)a->islands * a->island_bytes;
  const attune_variant *v = &t->problem.variant;
  a->image = malloc(bytes);
  if (!a->image)
    return attune_fail(ATTUNE_NO_MEMORY, "no host memory for a case's %zu bytes", bytes);
  memset(a->image, POISON, bytes);
  write_tensor(a, &a->q, v->dtype_q, t->q);
  write_tensor(a, &a->k, v->dtype_kv, t->k);
  write_tensor(a, &a->v, v->dtype_kv, t->v);
  write_inputs(a, c, t);
  return ATTUNE_OK;
}

attune_status attune__arena_make(attune__device *device, const attune__case *c,
                                 const attune__trial *trial, size_t workspace_bytes,
                                 attune__arena *out) {
  void *memory = NULL;
  *out = (attune__arena){.device = device, .workspace_bytes = workspace_bytes};
  lay_out(out, c, trial);
  attune_status status = paint(out, c, trial);
  if (status == ATTUNE_OK)
    status = device->ops->alloc(
        device, (size_t)(out->islands - 1) * out->distance + out->island_bytes, &memory);
  out->memory = memory;
  if (status != ATTUNE_OK) attune__arena_free(out);
  return status;
}

void attune__arena_free(attune__arena *a) {
  if (a->memory) a->device->ops->free(a->device, a->memory);
  free(a->image);
  *a = (attune__arena){0};
}

static attune_tensor tensor(const attune__arena *a, const attune__place *p) {
  return (attune_tensor){a->memory + p->offset,
                         p->first ? NO_STRIDE : p->device[ATTUNE__AXIS_BATCH],
                         p->device[ATTUNE__AXIS_SEQ], p->device[ATTUNE__AXIS_HEAD]};
}

/* The device's address of an input that the trial has. */
static const void *input(const attune__arena *a, const void *of_trial, size_t offset) {
  return of_trial ? a->memory + offset : NULL;
}

static void set_lengths(const attune__arena *a, const attune__case *c, const attune__trial *t,
                        attune_attn_args *args) {
  const attune_shape *s = &c->shape;
  args->batch = (int32_t)s->batch;
  args->heads_q = (int32_t)s->heads_q, args->heads_kv = (int32_t)s->heads_kv;
  args->len_q = (int32_t)s->len_q, args->len_k = (int32_t)s->len_k;
  args->seqused_q = input(a, t->used_q, a->used_q);
  args->seqused_k = input(a, t->used_k, a->used_k);
  args->cu_seqlens_q = input(a, t->cu_q, a->cu_q);
  args->cu_seqlens_k = input(a, t->cu_k, a->cu_k);
  if (t->cu_q) args->total_q = (int32_t)t->total_q, args->total_k = (int32_t)t->total_k;
}

static void set_features(const attune__arena *a, const attune__case *c, const attune__trial *t,
                         attune_attn_args *args) {
  const attune_reference_problem *p = &t->problem;
  if (p->variant.features & ATTUNE_FEATURE_SOFTCAP) args->softcap = c->softcap;
  args->alibi_slopes = input(a, t->slopes, a->slopes);
  if (c->slopes == ATTUNE__SLOPES_BATCH) args->alibi_stride_batch = c->shape.heads_q;
  args->bias = input(a, t->bias, a->bias);
  args->bias_stride_batch = p->bias_stride[0], args->bias_stride_head = p->bias_stride[1];
  args->bias_stride_q = p->bias_stride[2], args->bias_stride_k = p->bias_stride[3];
  args->sinks = input(a, t->sinks, a->sinks);
  args->bitmask = input(a, t->bits, a->bits);
  args->bitmask_stride_batch = p->bitmask_stride[0];
  args->bitmask_stride_head = p->bitmask_stride[1];
  args->bitmask_stride_q = p->bitmask_stride[2];
  args->bitmask_classes = input(a, t->classes, a->classes);
  args->bitmask_classes_stride_batch = t->classes_stride[0];
  args->bitmask_classes_stride_head = t->classes_stride[1];
  args->bitmask_classes_stride_q = t->classes_stride[2];
}

static void set_scalars(const attune__case *c, const attune_variant *v, attune_attn_args *args) {
  const attune_shape *s = &c->shape;
  args->scale = c->default_scale ? 0 : c->scale;
  args->flags = c->default_scale ? ATTUNE_DEFAULT_SCALE : 0;
  args->corner = c->corner_unset ? (attune_corner)0 : s->corner;
  if (!attune__mask_has_lower(v->mask)) return;
  args->window_left = (int32_t)s->window_left;
  args->window_right = (int32_t)s->window_right;
}

void attune__arena_args(const attune__arena *a, const attune__case *c, const attune__trial *t,
                        attune_attn_args *args) {
  *args = attune_attn_args_init();
  args->q = tensor(a, &a->q), args->k = tensor(a, &a->k), args->v = tensor(a, &a->v);
  args->o = tensor(a, &a->o);
  if (c->lse != ATTUNE__LSE_NULL) args->lse = (float *)(void *)(a->memory + a->lse.offset);
  args->lse_stride_batch = a->lse.first ? NO_STRIDE : a->lse.device[ATTUNE__AXIS_BATCH];
  args->lse_stride_head = a->lse.device[ATTUNE__AXIS_HEAD];
  args->lse_stride_seq = a->lse.device[ATTUNE__AXIS_SEQ];
  set_lengths(a, c, t, args);
  set_features(a, c, t, args);
  set_scalars(c, &t->problem.variant, args);
  args->workspace = a->workspace_bytes ? a->memory + a->workspace : NULL;
  args->workspace_bytes = a->workspace_bytes;
}

attune_status attune__arena_upload(const attune__arena *a) {
  for (int i = 0; i < a->islands; i++) {
    attune_status status =
        a->device->ops->upload(a->device, a->memory + (size_t)i * a->distance,
                               a->image + (size_t)i * a->island_bytes, a->island_bytes);
    if (status != ATTUNE_OK) return status;
  }
  return ATTUNE_OK;
}

attune_status attune__arena_download(const attune__arena *a, unsigned char *image) {
  for (int i = 0; i < a->islands; i++) {
    attune_status status =
        a->device->ops->download(a->device, image + (size_t)i * a->island_bytes,
                                 a->memory + (size_t)i * a->distance, a->island_bytes);
    if (status != ATTUNE_OK) return status;
  }
  return ATTUNE_OK;
}

void attune__arena_take(const attune__arena *a, unsigned char *image, void *o, float *lse) {
  each_row(&a->o, image, take_row, o);
  if (lse) each_row(&a->lse, image, take_row, lse);
  memset(image + a->workspace, POISON, a->workspace_bytes);
}
