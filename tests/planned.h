/* planned.h - variants and tiles of family fma, for tests of the planner. */
#ifndef ATTUNE_PLANNED_H
#define ATTUNE_PLANNED_H

#include "../gen/plan.h"

#include <string.h>

static inline attune_variant variant(int op, const char *arch, int dtype, int qk, int v, int mask) {
  attune_variant out;
  memset(&out, 0, sizeof out);
  out.op = (uint8_t)op, out.arch = attune__arch_parse(arch), out.mask = (uint8_t)mask;
  out.dtype_q = out.dtype_kv = out.dtype_out = (uint8_t)dtype;
  out.head_dim_qk = (uint16_t)qk, out.head_dim_v = (uint16_t)v;
  out.align = ATTUNE_ALIGN_16B, out.group = 1;
  return out;
}

static inline attune_variant forward(int d) {
  return variant(ATTUNE_OP_ATTN_FWD, "sm_80", ATTUNE_DTYPE_FP32, d, d, ATTUNE_MASK_NONE);
}

static inline attune_tile tile(int m, int n, int warps, int share) {
  attune_tile t;
  memset(&t, 0, sizeof t);
  t.family = ATTUNE_FAMILY_FMA, t.stages = 1, t.share_kv = (uint8_t)share;
  t.block_m = (uint16_t)m, t.block_n = (uint16_t)n, t.warps = (uint8_t)warps;
  return t;
}

#endif
