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

/* A tensor while its map is filled, axis by axis. */
typedef struct operand {
  const char *name;
  int64_t bytes; /* of an element */
  attune__tensormap map;
  attune_status status; /* of the first axis that TMA does not have */
} operand;

/* One array at a time: compilers clear a whole operand by `rep stos`, which takes longer than all
 * the rest of a map. */
#define CLEAR(array) memset(array, 0, sizeof(array))

/* Axis 0, of which `columns` are loaded at once. */
static inline void begin(operand *t, const char *name, const void *data, int dtype, int64_t dim,
                         uint32_t columns) {
  t->name = name, t->bytes = attune__dtype_bytes(dtype), t->status = ATTUNE_OK;
  t->map.base = (uint64_t)(uintptr_t)data;
  t->map.rank = 1;
  t->map.type = type_of(dtype);
  t->map.swizzle = swizzle_of(columns * (uint32_t)t->bytes);
  t->map.nan_fill = 0;
  CLEAR(t->map.extent), CLEAR(t->map.stride), CLEAR(t->map.box);
  t->map.extent[0] = (uint64_t)dim, t->map.stride[0] = STRIDE_UNIT, t->map.box[0] = columns;
}

static attune_status check_stride(const operand *t, const char *name, int64_t stride) {
  const int64_t most = INT64_C(1) << STRIDE_BITS;
  if (stride >= 0 && stride < most && stride * t->bytes < most &&
      stride * t->bytes % STRIDE_UNIT == 0)
    return ATTUNE_OK;
  return attune_fail(
      ATTUNE_INVALID,
      "%s.%s is %" PRId64 " elements of %d bytes; TMA, which this kernel loads by, "
      "has multiples of %d bytes from 0 to below 2^%d: a kernel of family mma has others",
      t->name, name, stride, (int)t->bytes, STRIDE_UNIT, STRIDE_BITS);
}

/* The next axis; a stride (in elements) counts only where its extent is over 1. */
static inline void add_axis(operand *t, const char *stride_name, int64_t extent, int64_t stride,
                            uint32_t box) {
  uint32_t k = t->map.rank++;
  if (extent > 1 && !t->status) t->status = check_stride(t, stride_name, stride);
  t->map.extent[k] = extent > 0 ? (uint64_t)extent : 1;
  t->map.stride[k] = extent > 1 ? (uint64_t)(stride * t->bytes) : STRIDE_UNIT;
  t->map.box[k] = box;
}

/* The device's reason, and whose map it is. */
static attune_status say_tensor(const char *name, attune_status status) {
  char reason[256];
  snprintf(reason, sizeof reason, "%s", attune_error());
  return attune_fail(status, "tensor %s: %s", name, reason);
}

static attune_status encode(attune__device *device, const operand *t, void *out) {
  if (t->status) return t->status;
  attune_status status = device->ops->encode_map(device, &t->map, out);
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
  attune__device *device;
  const attune_variant *v;
  const attune_recipe *recipe;
  const attune_params_attn_standard *p;
  int packed; /* all sequences are one */
} call;

typedef struct strides {
  int64_t batch, seq, head; /* elements */
} strides;

/* Q or O. */
static attune_status encode_rows(const call *c, int map, const char *name, const void *data,
                                 strides s, void *out) {
  const int is_q = map == ATTUNE_MAP_Q, group = c->v->group;
  const uint32_t heads = c->v->group, rows = c->recipe->box[map].rows;
  operand t;
  begin(&t, name, data, is_q ? c->v->dtype_q : c->v->dtype_out,
        is_q ? c->v->head_dim_qk : c->v->head_dim_v, c->recipe->box[map].columns);
  add_axis(&t, "stride_head", group, s.head, heads);
  add_axis(&t, "stride_seq", c->packed ? c->p->total_q : c->p->len_q, s.seq, rows / heads);
  add_axis(&t, "stride_head", c->p->heads_q / group, s.head * group, 1);
  add_axis(&t, "stride_batch", c->packed ? 1 : c->p->batch, s.batch, 1);
  return encode(c->device, &t, out);
}

/* K or V. Without keys there may be no tensors of them, and nothing is loaded: one row at any
 * address does. */
static attune_status encode_keys(const call *c, int map, const char *name, const void *data,
                                 strides s, void *out) {
  const int64_t keys = c->packed ? c->p->total_k : keys_seen(c->p);
  const int none = (c->packed ? c->p->total_k : c->p->len_k) == 0;
  operand t;
  begin(&t, name, none ? c->p->q : data, c->v->dtype_kv,
        map == ATTUNE_MAP_K ? c->v->head_dim_qk : c->v->head_dim_v, c->recipe->box[map].columns);
  add_axis(&t, "stride_seq", none ? 1 : keys, s.seq, c->recipe->box[map].rows);
  add_axis(&t, "stride_head", none ? 1 : c->p->heads_kv, s.head, 1);
  add_axis(&t, "stride_batch", none || c->packed ? 1 : c->p->batch, s.batch, 1);
  return encode(c->device, &t, out);
}

attune_status attune__maps_fill(attune__device *device, const attune_variant *v,
                                const attune_recipe *recipe, const attune_params_attn_standard *p,
                                unsigned char map[ATTUNE_MAPS][ATTUNE__TENSORMAP_BYTES]) {
  const call c = {device, v, recipe, p, (v->features & ATTUNE_FEATURE_VARLEN) != 0};
#define TENSOR(id, t)                                                                              \
  &c, id, #t, p->t, (strides){p->t##_stride_batch, p->t##_stride_seq, p->t##_stride_head}, map[id]
  attune_status status = encode_rows(TENSOR(ATTUNE_MAP_Q, q));
  if (!status) status = encode_keys(TENSOR(ATTUNE_MAP_K, k));
  if (!status) status = encode_keys(TENSOR(ATTUNE_MAP_V, v));
  if (!status) status = encode_rows(TENSOR(ATTUNE_MAP_O, o));
#undef TENSOR
  return status;
}
