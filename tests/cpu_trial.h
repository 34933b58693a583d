/* cpu_trial.h - programs of the templates' kernels on the CPU device, and tensors for them: views
 * with gaps, which the device knows to be out of bounds. */
#ifndef ATTUNE_TESTS_CPU_TRIAL_H
#define ATTUNE_TESTS_CPU_TRIAL_H

#include "../gen/model.h"
#include "../runtime/attune_cpu.h"

/* A tensor on the device and, dense and heads first, as floats. */
typedef struct trial_tensor {
  attune_tensor view;
  float *values;
  int64_t batch, len, heads, dim;
} trial_tensor;

typedef struct trial {
  attune_context *context;
  const attune_shape *shape;
  attune_variant variant;
  trial_tensor q, k, v, o;
  float *lse;
  void *workspace;
  void (*arrange)(attune_attn_args *args); /* changes the arguments of a launch; NULL: nothing */
} trial;

typedef struct trial_part {
  attune_kernel kernel;
  void *entry;
  size_t bytes;
} trial_part;

/* Fails the test unless the status is ATTUNE_OK. */
void must(attune_status status);

/* An entry that holds the kernel's PTX alone. edit, unless NULL, makes another text of the
 * kernel's, malloc'ed. */
void trial_compile(const char *name, char *(*edit)(void *user, const char *source), void *user,
                   trial_part *out);
/* A prepared program of the parts, which the context must not know yet. */
attune_program *trial_program(attune_context *context, const trial_part *parts, int count);

/* Random numbers of about N(0, 1) that the dtype holds. */
trial trial_make(attune_context *context, const attune_variant *variant, const attune_shape *shape);
void trial_free(trial *t);
/* Launches and reads O back. */
attune_status trial_launch(trial *t, attune_program *program);
size_t trial_elements(const trial_tensor *t);

#endif
