/* launch.h - from a program and a caller's arguments to driver launches: parameter blocks, grid
 * rules, workspace rules. */
#ifndef ATTUNE_LAUNCH_H
#define ATTUNE_LAUNCH_H

#include "device.h"
#include "params.def"
#include "tensormap.h"

/* The C twins of the CUDA parameter blocks. */
#define ATTUNE__C_U32                               uint32_t
#define ATTUNE__C_I32                               int32_t
#define ATTUNE__C_I64                               int64_t
#define ATTUNE__C_F32                               float
#define ATTUNE__C_IN_Q                              const void *
#define ATTUNE__C_IN_KV                             const void *
#define ATTUNE__C_OUT                               void *
#define ATTUNE__C_OUT_F32                           float *
#define ATTUNE__C_IN_I32                            const int32_t *
#define ATTUNE__C_IN_U32                            const uint32_t *
#define ATTUNE__C_IN_U8                             const uint8_t *
#define ATTUNE__C_IN_F32                            const float *
#define ATTUNE__C_SCRATCH                           void *
#define ATTUNE__C_FIELD(type, name, pinnable, text) ATTUNE__C_##type name;

typedef struct attune_params_attn_fwd {
  ATTUNE_PARAMS_ATTN_FWD(ATTUNE__C_FIELD)
} attune_params_attn_fwd;
typedef struct attune_params_attn_standard {
  ATTUNE_PARAMS_ATTN_STANDARD(ATTUNE__C_FIELD)
} attune_params_attn_standard;

/* The block of an attn_fwd kernel that loads by TMA. */
typedef struct attune_params_attn_fwd_maps {
  attune_params_attn_fwd params;
  _Alignas(64) unsigned char map[ATTUNE_MAPS][ATTUNE__TENSORMAP_BYTES];
} attune_params_attn_fwd_maps;

/* memset to 0 by the C library's routine: of a size that they know, compilers make `rep stos`,
 * which takes longer than all the rest of a launch's checks. */
static inline void attune__clear(void *block, size_t bytes) {
  __asm__("" : "+r"(bytes));
  memset(block, 0, bytes);
}

/* Bytes of the op's block; 0 for an unknown op. With `maps` that of a kernel that loads by TMA. */
size_t attune__param_bytes(int op, int maps);
/* Whether a scalar of that name may be pinned for the op. */
int attune__pinnable(int op, const char *name);

/* A loaded program's part, as the launch needs it. */
typedef struct attune__part {
  attune_entry entry; /* without payloads once loaded */
  attune__function *function;
} attune__part;

/* Whether this runtime can launch the entry: ABI, block size, threads and rules agree with what
 * it knows. ATTUNE_BAD_FILE says what does not. */
attune_status attune__recipe_check(const attune_entry *entry);

/* Whether there is no row to compute. */
static inline int attune__no_rows(const attune_variant *variant,
                                  const attune_params_attn_standard *params) {
  int packed = (variant->features & ATTUNE_FEATURE_VARLEN) != 0;
  return params->batch == 0 || params->heads_q == 0 ||
         (packed ? params->total_q : params->len_q) == 0;
}
/* Checks args against the variant (lengths, heads, features, corner, alignment) and fills the
 * block; what belongs to features that the variant lacks stays 0. Tensors are not looked at when
 * there is no row to compute; scores is the caller's workspace. */
attune_status attune__params_fill(const attune_variant *variant, attune_corner spec_corner,
                                  const attune_attn_args *args, attune_params_attn_standard *out);
/* Pins compiled into a part must equal the block's values. */
attune_status attune__params_check_pins(const attune_pinset *pins, int op,
                                        const attune_params_attn_standard *params);
/* Blocks of a launch, 0 when there is nothing to do; ATTUNE_INVALID over 2^31 - 1. */
attune_status attune__grid(const attune_variant *variant, const attune_recipe *recipe,
                           const attune_params_attn_standard *params, uint32_t *blocks);
/* Elements from one row of S to the next: rows stay 16-byte aligned in every dtype. */
static inline int64_t attune__scores_pitch(int64_t len_k) {
  return (len_k + 7) / 8 * 8;
}
/* Bytes by workspace rule; SIZE_MAX when they do not fit a size_t. */
size_t attune__workspace_bytes(uint32_t rule, int dtype, int64_t batch, int64_t heads_q,
                               int64_t len_q, int64_t len_k);
/* Encodes the tensor maps of a launch (maps.c). */
attune_status attune__maps_fill(attune__device *device, const attune_variant *variant,
                                const attune_recipe *recipe,
                                const attune_params_attn_standard *params,
                                unsigned char map[ATTUNE_MAPS][ATTUNE__TENSORMAP_BYTES]);
/* Launches the parts in order; nothing when no row is asked for. ATTUNE_WORKSPACE: too small. */
attune_status attune__launch(attune__device *device, const attune__part *parts, int count,
                             const attune_variant *variant, attune_corner spec_corner,
                             const attune_attn_args *args, void *stream);

#endif
