/* maps.c - the tensor maps of a launch, for kernels that load and store by TMA.
 *
 * Input: a parameter block, and the boxes of the recipe. Output: maps of Q, K, V and O as the
 * device wants them. Q and O have the axes dim, head of a packed group, position, group, sequence,
 * so that a box of group x positions is a tile's rows in their order; K and V dim, position, head,
 * sequence. With varlen there is one sequence, all of them packed. */
#include "launch.h"

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

typedef struct axis {
  int64_t extent, stride; /* elements */
  uint32_t box;
} axis;

static attune_status encode(attune__device *device, int dtype, const void *base, const axis *axes,
                            uint32_t rank, void *out) {
  uint64_t bytes = (uint64_t)attune__dtype_bytes(dtype);
  attune__tensormap map = {.type = type_of(dtype), .rank = rank, .base = (uint64_t)(uintptr_t)base};
  map.swizzle = swizzle_of(axes[0].box * (uint32_t)bytes);
  for (uint32_t k = 0; k < rank; k++) {
    map.extent[k] = axes[k].extent > 0 ? (uint64_t)axes[k].extent : 1;
    map.stride[k] = axes[k].extent > 1 ? (uint64_t)axes[k].stride * bytes : 16;
    map.box[k] = axes[k].box;
  }
  return device->ops->encode_map(device, &map, out);
}

/* Keys that some row of the sequences sees end here: behind them the map gives zeros, since V may
 * hold NaN there. Lengths in use are for the kernel. */
static int64_t keys_seen(const attune_params_attn_standard *p) {
  if (p->window_right < 0) return p->len_k;
  int64_t offset = p->bottom_right ? (int64_t)p->len_k - p->len_q : 0;
  int64_t end = (int64_t)p->len_q + offset + p->window_right;
  return end < 1 ? 1 : end < p->len_k ? end : p->len_k;
}

#define ROWS(t)                                                                                    \
  const axis t##_axes[] = {                                                                        \
      {t##_dim, 1, recipe->box[t##_map].columns},                                                  \
      {group, p->t##_stride_head, group},                                                          \
      {varlen ? p->total_q : p->len_q, p->t##_stride_seq, recipe->box[t##_map].rows / group},      \
      {p->heads_q / (int32_t)group, p->t##_stride_head * group, 1},                                \
      {varlen ? 1 : p->batch, p->t##_stride_batch, 1}}
#define KEYS(t)                                                                                    \
  const axis t##_axes[] = {                                                                        \
      {t##_dim, 1, recipe->box[t##_map].columns},                                                  \
      {varlen ? p->total_k : keys_seen(p), p->t##_stride_seq, recipe->box[t##_map].rows},          \
      {p->heads_kv, p->t##_stride_head, 1},                                                        \
      {varlen ? 1 : p->batch, p->t##_stride_batch, 1}}

attune_status attune__maps_fill(attune__device *device, const attune_variant *v,
                                const attune_recipe *recipe, const attune_params_attn_standard *p,
                                unsigned char map[ATTUNE_MAPS][ATTUNE__TENSORMAP_BYTES]) {
  enum { q_map = ATTUNE_MAP_Q, k_map, v_map, o_map };
  const int varlen = (v->features & ATTUNE_FEATURE_VARLEN) != 0;
  const uint32_t group = v->group;
  const int q_dim = v->head_dim_qk, k_dim = q_dim, v_dim = v->head_dim_v, o_dim = v_dim;
  ROWS(q);
  KEYS(k);
  KEYS(v);
  ROWS(o);
  /* Without keys there may be no tensors of them, and nothing is loaded: any address does. */
  const void *keys = p->k && p->len_k ? p->k : p->q, *values = p->v && p->len_k ? p->v : p->q;
  attune_status status = encode(device, v->dtype_q, p->q, q_axes, 5, map[q_map]);
  if (!status) status = encode(device, v->dtype_kv, keys, k_axes, 4, map[k_map]);
  if (!status) status = encode(device, v->dtype_kv, values, v_axes, 4, map[v_map]);
  if (!status) status = encode(device, v->dtype_out, p->o, o_axes, 5, map[o_map]);
  return status;
}
