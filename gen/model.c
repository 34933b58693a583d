/* model.c - the table of models. Which variants they have kernels of is for rules.c. */
#include "model.h"

#include "model_fma.h"
#include "model_mma.h"
#include "model_wgmma.h"

#include <stdio.h>

static const attune_model *const models[] = {
    &attune__model_attn_fwd_fma,
    &attune__model_attn_fwd_mma,
    &attune__model_attn_fwd_wgmma,
    &attune__model_attn_fwd_short,
    &attune__model_attn_fwd_middle,
    &attune__model_attn_standard_qk_fma,
    &attune__model_attn_standard_softmax_fma,
    &attune__model_attn_standard_pv_fma,
    &attune__model_attn_demo_fma,
    NULL,
};

const attune_model *attune__model(int op, int part, int family) {
  for (int i = 0; models[i]; i++) {
    const attune_model *model = models[i];
    if (model->op == op && model->part == part && (!family || model->family == family))
      return model;
  }
  return NULL;
}

int attune__model_has(const attune_model *model, int field) {
  return !(ATTUNE_TILE_KNOBS >> field & 1) || (model && model->knobs >> field & 1);
}

int attune__tile_legal(const attune_model *model, const attune_variant *v, const attune_tile *t,
                       char *reason, size_t size) {
#define X(type, field, letters, def, constant, text)                                               \
  if (t->field && !attune__model_has(model, ATTUNE__TILE_##field))                                 \
    return snprintf(reason, size, #field " %d: family %s has no such knob", t->field,              \
                    attune__family_name(model->family)),                                           \
           0;
  ATTUNE_TILE_FIELDS(X)
#undef X
  return model->legal(v, t, reason, size);
}
