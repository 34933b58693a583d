/* maps.c - the tensor maps of a launch, for kernels that load and store by TMA.
 *
 * Input: a parameter block, and the boxes of the recipe. Output: maps of Q, K, V and O as the
 * device wants them. Q and O have the axes dim, head of a packed group, position, group, sequence,
 * so that a box of group x positions is a tile's rows in their order; K and V dim, position, head,
 * sequence. With varlen there is one sequence, all of them packed. */
#include "launch.h"

#include <inttypes.h>
#include <stdio.h>

/* A dtype's number in tensor maps. */
static attune__map_type type_of(int dtype) {
  if (dtype == ATTUNE_DTYPE_FP16) return ATTUNE__MAP_F16;
  return dtype == ATTUNE_DTYPE_BF16 ? ATTUNE__MAP_BF16 : ATTUNE__MAP_F32;
}

/* The swizzle whose pattern is as wide as a row of the box. */
static attune__map_swizzle swizzle_of(uint32_t row_bytes) {
  if (row_bytes == 128) return ATTUNE__SWIZZLE_128;
  if (row_bytes == 64) return ATTUNE__SWIZZLE_64;
  return row_bytes == 32 ? ATTUNE__SWIZZLE_32 : ATTUNE__SWIZZLE_NONE;
}

enum { STRIDE_UNIT = 16, STRIDE_BITS = 40 }; /* strides in bytes */

typedef struct axis {
  const char *stride_name;
  int64_t extent, stride; /* elements */
  uint32_t box;
} axis;

/* A tensor, as its map sees it. */
typedef struct operand {
  const char *name;
  const void *data;
  int dtype;
  uint32_t rank;
  axis axis[ATTUNE__TENSORMAP_RANK];
} operand;

static attune_status check_stride(const operand *t, const axis *a) {
  const int64_t bytes = attune__dtype_bytes(t->dtype), most = INT64_C(1) << STRIDE_BITS;
  if (a->stride >= 0 && a->stride < most / bytes && a->stride * bytes % STRIDE_UNIT == 0)
    return ATTUNE_OK;
  return attune_fail(
      ATTUNE_INVALID,
      "%s.%s is %" PRId64 " elements of %d bytes; TMA, which this kernel loads by, "
      "has multiples of %d bytes from 0 to below 2^%d: a kernel of family mma has others",
      t->name, a->stride_name, a->stride, (int)bytes, STRIDE_UNIT, STRIDE_BITS);
}

/* The device's reason, and whose map it is. */
static attune_status say_tensor(const char *name, attune_status status) {
  char reason[256];
  snprintf(reason, sizeof reason, "%s", attune_error());
  return attune_fail(status, "tensor %s: %s", name, reason);
}

/* A stride counts only where its extent is over 1. */
static attune_status encode(attune__device *device, const operand *t, void *out) {
  const uint64_t bytes = (uint64_t)attune__dtype_bytes(t->dtype);
  attune__tensormap map = {
      .type = type_of(t->dtype), .rank = t->rank, .base = (uint64_t)(uintptr_t)t->data};
  map.swizzle = swizzle_of(t->axis[0].box * (uint32_t)bytes);
  for (uint32_t k = 0; k < t->rank; k++) {
    const axis *a = &t->axis[k];
    attune_status status = k && a->extent > 1 ? check_stride(t, a) : ATTUNE_OK;
    if (status) return status;
    map.extent[k] = a->extent > 0 ? (uint64_t)a->extent : 1;
    map.stride[k] = a->extent > 1 ? (uint64_t)a->stride * bytes : STRIDE_UNIT;
    map.box[k] = a->box;
  }
  attune_status status = device->ops->encode_map(device, &map, out);
  return status ? say_tensor(t->name, status) : ATTUNE_OK;
}

/* Keys that some row of the sequences sees end here: behind them the map gives zeros, since V may
 * hold NaN there. Lengths in use are for the kernel. */
static int64_t keys_seen(const attune_params_attn_standard *p) {
  if (p->window_right < 0) return p->len_k;
  int64_t offset = p->bottom_right ? (int64_t)p->len_k - p->len_q : 0;
  int64_t end = (int64_t)p->len_q + offset + p->window_right;
  return end < 1 ? 1 : end < p->len_k ? end : p->len_k;
}

/* What a launch is about. */
typedef struct call {
  const attune_variant *v;
  const attune_recipe *recipe;
  const attune_params_attn_standard *p;
  int packed; /* all sequences are one */
} call;

typedef struct strides {
  int64_t batch, seq, head; /* elements */
} strides;

/* Q or O. */
static operand rows_of(const call *c, int map, const char *name, const void *data, strides s) {
  const int is_q = map == ATTUNE_MAP_Q, group = c->v->group;
  const uint32_t heads = c->v->group, rows = c->recipe->box[map].rows;
  return (operand){
      .name = name,
      .data = data,
      .dtype = is_q ? c->v->dtype_q : c->v->dtype_out,
      .rank = 5,
      .axis = {{"", is_q ? c->v->head_dim_qk : c->v->head_dim_v, 1, c->recipe->box[map].columns},
               {"stride_head", group, s.head, heads},
               {"stride_seq", c->packed ? c->p->total_q : c->p->len_q, s.seq, rows / heads},
               {"stride_head", c->p->heads_q / group, s.head * group, 1},
               {"stride_batch", c->packed ? 1 : c->p->batch, s.batch, 1}}};
}

/* K or V. Without keys there may be no tensors of them, and nothing is loaded: one row at any
 * address does. */
static operand keys_of(const call *c, int map, const char *name, const void *data, strides s) {
  const int64_t keys = c->packed ? c->p->total_k : keys_seen(c->p);
  const int none = (c->packed ? c->p->total_k : c->p->len_k) == 0;
  return (operand){.name = name,
                   .data = none ? c->p->q : data,
                   .dtype = c->v->dtype_kv,
                   .rank = 4,
                   .axis = {{"", map == ATTUNE_MAP_K ? c->v->head_dim_qk : c->v->head_dim_v, 1,
                             c->recipe->box[map].columns},
                            {"stride_seq", none ? 1 : keys, s.seq, c->recipe->box[map].rows},
                            {"stride_head", none ? 1 : c->p->heads_kv, s.head, 1},
                            {"stride_batch", none || c->packed ? 1 : c->p->batch, s.batch, 1}}};
}

attune_status attune__maps_fill(attune__device *device, const attune_variant *v,
                                const attune_recipe *recipe, const attune_params_attn_standard *p,
                                unsigned char map[ATTUNE_MAPS][ATTUNE__TENSORMAP_BYTES]) {
  const call c = {v, recipe, p, (v->features & ATTUNE_FEATURE_VARLEN) != 0};
#define STRIDES(t) ((strides){p->t##_stride_batch, p->t##_stride_seq, p->t##_stride_head})
  const operand operands[ATTUNE_MAPS] = {
      [ATTUNE_MAP_Q] = rows_of(&c, ATTUNE_MAP_Q, "q", p->q, STRIDES(q)),
      [ATTUNE_MAP_K] = keys_of(&c, ATTUNE_MAP_K, "k", p->k, STRIDES(k)),
      [ATTUNE_MAP_V] = keys_of(&c, ATTUNE_MAP_V, "v", p->v, STRIDES(v)),
      [ATTUNE_MAP_O] = rows_of(&c, ATTUNE_MAP_O, "o", p->o, STRIDES(o))};
#undef STRIDES
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < ATTUNE_MAPS && !status; i++) status = encode(device, &operands[i], map[i]);
  return status;
}
