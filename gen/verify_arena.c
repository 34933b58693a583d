/* verify_arena.c - a trial in device memory: every tensor in one allocation, everything else in it
 * poisoned.
 *
 * Input: a case (for its layout) and its trial. Output: an image of the allocation on the host, the
 * allocation, the arguments that point into it; after a run, the outputs out of it.
 *
 *   guard | O | guard | LSE | guard | Q | guard | K | guard | V | guard | seqused_k | guard |
 * workspace | tail
 *
 * Poison is 0xff in every byte: NaN in every dtype. It fills the guards, the gaps of strided
 * tensors, O and LSE. A run is clean when after it the whole image is as it was, but for the
 * elements of O and LSE (and the workspace): this finds any write to an input, a gap or a guard.
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
static size_t claim(size_t *end, size_t bytes) {
  size_t offset = *end;
  *end = round_up(offset + bytes) + GUARD;
  return offset;
}

static attune__place place_of(int dtype, int dim, int64_t batch, int64_t seq, int64_t heads) {
  return (attune__place){
      .element_bytes = attune__dtype_bytes(dtype), .dim = dim, .extent = {batch, seq, heads}};
}

/* Places a tensor in an island: along the far axis an island holds one row. */
static void put(attune__place *p, attune__layout layout, size_t *end) {
  int axis = far_axis(layout);
  int64_t extent = axis < 0 ? 0 : p->extent[axis];
  size_t shift = layout == ATTUNE__LAYOUT_ODD ? (size_t)p->element_bytes : 0;
  if (axis >= 0) p->extent[axis] = 1;
  p->offset = claim(end, (size_t)span(p) * (size_t)p->element_bytes + shift) + shift;
  if (axis >= 0) p->extent[axis] = extent;
}

static void put_tensor(attune__place *p, attune__layout layout, int index, size_t *end) {
  set_strides(p, layout, index);
  put(p, layout, end);
}

/* LSE is [batch, head, seq]. */
static void put_lse(attune__place *p, const attune__case *c, size_t *end) {
  set_head_major(p, c->lse == ATTUNE__LSE_STRIDED ? 2 : 0);
  put(p, c->layout, end);
}

/* Strides on the device, and both strides of the far axis, once the island's size is known. */
static void finish(attune__place *p, const attune__arena *a, attune__layout layout) {
  int axis = far_axis(layout);
  memcpy(p->device, p->image, sizeof p->device);
  if (axis < 0) return;
  p->image[axis] = (int64_t)a->island_bytes / p->element_bytes;
  p->device[axis] = (int64_t)a->distance / p->element_bytes;
}

static void place_all(attune__arena *a, const attune__case *c, const attune_variant *v) {
  const attune_shape *s = &c->shape;
  size_t end = GUARD;
  a->o = place_of(v->dtype_out, v->head_dim_v, s->batch, s->len_q, s->heads_q);
  a->lse = place_of(ATTUNE_DTYPE_FP32, 1, s->batch, s->len_q, s->heads_q);
  a->q = place_of(v->dtype_q, v->head_dim_qk, s->batch, s->len_q, s->heads_q);
  a->k = place_of(v->dtype_kv, v->head_dim_qk, s->batch, s->len_k, s->heads_kv);
  a->v = place_of(v->dtype_kv, v->head_dim_v, s->batch, s->len_k, s->heads_kv);
  put_tensor(&a->o, c->layout, 0, &end);
  put_lse(&a->lse, c, &end);
  put_tensor(&a->q, c->layout, 1, &end);
  put_tensor(&a->k, c->layout, 2, &end);
  put_tensor(&a->v, c->layout, 3, &end);
  if (c->layout == ATTUNE__LAYOUT_BROADCAST)
    a->k.image[ATTUNE__AXIS_BATCH] = a->v.image[ATTUNE__AXIS_BATCH] =
        a->v.image[ATTUNE__AXIS_HEAD] = 0;
  a->used = claim(&end, (size_t)s->batch * sizeof(int32_t));
  a->workspace = claim(&end, a->workspace_bytes);
  a->island_bytes = round_up(end + TAIL);
}

static void lay_out(attune__arena *a, const attune__case *c, const attune_variant *v) {
  int axis = far_axis(c->layout);
  place_all(a, c, v);
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

/* Calls visit with each row's bytes in the image, heads first, as dense tensors have them. */
typedef void (*row_fn)(unsigned char *row, size_t bytes, int64_t index, void *user);
static void each_row(const attune__place *p, unsigned char *image, row_fn visit, void *user) {
  int64_t index = 0;
  for (int64_t b = 0; b < p->extent[ATTUNE__AXIS_BATCH]; b++)
    for (int64_t h = 0; h < p->extent[ATTUNE__AXIS_HEAD]; h++)
      for (int64_t s = 0; s < p->extent[ATTUNE__AXIS_SEQ]; s++) {
        int64_t at = b * p->image[ATTUNE__AXIS_BATCH] + h * p->image[ATTUNE__AXIS_HEAD] +
                     s * p->image[ATTUNE__AXIS_SEQ];
        visit(image + p->offset + (size_t)at * (size_t)p->element_bytes, row_bytes(p), index++,
              user);
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
  if (t->used) memcpy(a->image + a->used, t->used, (size_t)c->shape.batch * sizeof *t->used);
  return ATTUNE_OK;
}

attune_status attune__arena_make(attune__device *device, const attune__case *c,
                                 const attune__trial *trial, size_t workspace_bytes,
                                 attune__arena *out) {
  void *memory = NULL;
  *out = (attune__arena){.device = device, .workspace_bytes = workspace_bytes};
  lay_out(out, c, &trial->problem.variant);
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
  return (attune_tensor){a->memory + p->offset, p->device[ATTUNE__AXIS_BATCH],
                         p->device[ATTUNE__AXIS_SEQ], p->device[ATTUNE__AXIS_HEAD]};
}

void attune__arena_args(const attune__arena *a, const attune__case *c, const attune__trial *t,
                        attune_attn_args *args) {
  const attune_shape *s = &c->shape;
  *args = attune_attn_args_init();
  args->q = tensor(a, &a->q), args->k = tensor(a, &a->k), args->v = tensor(a, &a->v);
  args->o = tensor(a, &a->o);
  if (c->lse != ATTUNE__LSE_NULL) args->lse = (float *)(void *)(a->memory + a->lse.offset);
  args->lse_stride_batch = a->lse.device[ATTUNE__AXIS_BATCH];
  args->lse_stride_head = a->lse.device[ATTUNE__AXIS_HEAD];
  args->lse_stride_seq = a->lse.device[ATTUNE__AXIS_SEQ];
  if (t->used) args->seqused_k = (const int32_t *)(const void *)(a->memory + a->used);
  args->batch = (int32_t)s->batch;
  args->heads_q = (int32_t)s->heads_q, args->heads_kv = (int32_t)s->heads_kv;
  args->len_q = (int32_t)s->len_q, args->len_k = (int32_t)s->len_k;
  args->scale = c->default_scale ? 0 : c->scale;
  args->flags = c->default_scale ? ATTUNE_DEFAULT_SCALE : 0;
  args->corner = c->corner_unset ? (attune_corner)0 : s->corner;
  if (attune__mask_has_lower(t->problem.variant.mask)) {
    args->window_left = (int32_t)s->window_left;
    args->window_right = (int32_t)s->window_right;
  }
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
