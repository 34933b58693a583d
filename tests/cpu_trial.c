/* cpu_trial.c - see cpu_trial.h. */
#include "cpu_trial.h"

#include "../gen/nvrtc.h"
#include "../gen/reference.h"
#include "../gen/template.h"
#include "../gen/verify.h"
#include "test.h"

enum { GAP = 8 }; /* elements between rows: 16 bytes or more */

void must(attune_status status) {
  ck_assert_msg(status == ATTUNE_OK, "%s: %s", attune_status_name(status), attune_error());
}

/* ---- kernels -----------------------------------------------------------------------------------
 */

/* The CUDA text, edited. */
static char *source_of(const attune_kernel *kernel, char *(*edit)(void *, const char *),
                       void *user) {
  attune__text text = {0};
  attune_emit_options options = {.lines = 1};
  must(attune__emit(kernel, &options, &text));
  char *source = edit ? edit(user, text.data) : strdup(text.data);
  attune__text_free(&text);
  ck_assert_ptr_nonnull(source);
  return source;
}

static void write_entry(const attune_kernel *kernel, char *ptx, size_t bytes, trial_part *out) {
  attune_entry entry = {.variant = kernel->variant, .tile = kernel->tile, .recipe = kernel->recipe};
  snprintf(entry.name, sizeof entry.name, "%s", kernel->name);
  snprintf(entry.compiler, sizeof entry.compiler, "test");
  entry.payload[ATTUNE_PAYLOAD_PTX].data = ptx;
  entry.payload[ATTUNE_PAYLOAD_PTX].bytes = bytes;
  must(attune__entry_write(&entry, &out->entry, &out->bytes));
}

void trial_compile(const char *name, char *(*edit)(void *user, const char *source), void *user,
                   trial_part *out) {
  attune_variant variant;
  attune_tile tile;
  int has_tile, is_program;
  must(attune__name_parse(name, &variant, &tile, &has_tile, &is_program));
  must(attune__kernel_make(&variant, &tile, NULL, &out->kernel));
  char *source = source_of(&out->kernel, edit, user), *ptx;
  size_t bytes;
  must(attune__nvrtc_ptx(source, name, variant.arch, &ptx, &bytes));
  write_entry(&out->kernel, ptx, bytes, out);
  free(source);
  free(ptx);
}

attune_program *trial_program(attune_context *context, const trial_part *parts, int count) {
  const void *entries[ATTUNE_MAX_PARTS];
  size_t bytes[ATTUNE_MAX_PARTS];
  attune_program *program;
  for (int i = 0; i < count; i++) entries[i] = parts[i].entry, bytes[i] = parts[i].bytes;
  must(attune__verify_open(context, &parts[0].kernel.variant, NULL, entries, bytes, count,
                           &program));
  return program;
}

/* ---- trials -----------------------------------------------------------------------------------
 */

/* Numbers of about N(0, 1) that the dtype holds. */
static float noise(int dtype) {
  float sum = -6;
  for (int k = 0; k < 12; k++) sum += (float)rand() / (float)RAND_MAX;
  return attune__round(dtype, sum);
}

size_t trial_elements(const trial_tensor *t) {
  return (size_t)(t->batch * t->len * t->heads * t->dim);
}

static trial_tensor tensor_make(attune_context *c, int64_t batch, int64_t len, int64_t heads,
                                int64_t dim, int bytes) {
  trial_tensor t = {.batch = batch, .len = len, .heads = heads, .dim = dim};
  t.view.stride_head = dim + GAP;
  t.view.stride_seq = t.view.stride_head * heads + GAP;
  t.view.stride_batch = t.view.stride_seq * len + GAP;
  must(attune_alloc(c, (size_t)(t.view.stride_batch * batch * bytes), &t.view.data));
  t.values = malloc(trial_elements(&t) * sizeof *t.values);
  ck_assert_ptr_nonnull(t.values);
  return t;
}

/* Copies values to the device (store 1) or back, row by row. */
static void move(const trial_tensor *t, int dtype, int store) {
  const int bytes = attune__dtype_bytes(dtype);
  float *row = t->values;
  for (int64_t b = 0; b < t->batch; b++)
    for (int64_t h = 0; h < t->heads; h++)
      for (int64_t i = 0; i < t->len; i++, row += t->dim) {
        char *at =
            (char *)t->view.data +
            bytes * (b * t->view.stride_batch + i * t->view.stride_seq + h * t->view.stride_head);
        if (store)
          attune__to_dtype(dtype, row, at, (size_t)t->dim);
        else
          attune__from_dtype(dtype, at, row, (size_t)t->dim);
      }
}

static void fill(trial_tensor *t, int dtype) {
  for (size_t k = 0; k < trial_elements(t); k++) t->values[k] = noise(dtype);
  move(t, dtype, 1);
}

trial trial_make(attune_context *c, const attune_variant *v, const attune_shape *s) {
  trial t = {.context = c, .shape = s, .variant = *v};
  int bytes = attune__dtype_bytes(v->dtype_q);
  t.q = tensor_make(c, s->batch, s->len_q, s->heads_q, v->head_dim_qk, bytes);
  t.k = tensor_make(c, s->batch, s->len_k, s->heads_kv, v->head_dim_qk, bytes);
  t.v = tensor_make(c, s->batch, s->len_k, s->heads_kv, v->head_dim_v, bytes);
  t.o = tensor_make(c, s->batch, s->len_q, s->heads_q, v->head_dim_v, bytes);
  fill(&t.q, v->dtype_q), fill(&t.k, v->dtype_q), fill(&t.v, v->dtype_q);
  void *lse;
  must(attune_alloc(c, (size_t)(s->batch * s->heads_q * s->len_q) * sizeof *t.lse, &lse));
  t.lse = lse;
  return t;
}

static void tensor_free(attune_context *c, trial_tensor *t) {
  attune_free(c, t->view.data);
  free(t->values);
}

void trial_free(trial *t) {
  tensor_free(t->context, &t->q), tensor_free(t->context, &t->k);
  tensor_free(t->context, &t->v), tensor_free(t->context, &t->o);
  attune_free(t->context, t->lse), attune_free(t->context, t->workspace);
}

static attune_attn_args args_of(const trial *t, size_t workspace_bytes) {
  const attune_shape *s = t->shape;
  attune_attn_args a = attune_attn_args_init();
  a.q = t->q.view, a.k = t->k.view, a.v = t->v.view, a.o = t->o.view;
  a.lse = t->lse;
  a.lse_stride_batch = s->heads_q * s->len_q, a.lse_stride_head = s->len_q, a.lse_stride_seq = 1;
  a.batch = (int32_t)s->batch, a.heads_q = (int32_t)s->heads_q, a.heads_kv = (int32_t)s->heads_kv;
  a.len_q = (int32_t)s->len_q, a.len_k = (int32_t)s->len_k;
  a.flags = ATTUNE_DEFAULT_SCALE;
  a.corner = s->corner;
  a.window_left = (int32_t)s->window_left, a.window_right = (int32_t)s->window_right;
  a.workspace = t->workspace, a.workspace_bytes = workspace_bytes;
  return a;
}

attune_status trial_launch(trial *t, attune_program *program) {
  const attune_shape *s = t->shape;
  size_t bytes;
  must(attune_workspace(program, (int32_t)s->batch, (int32_t)s->heads_q, (int32_t)s->len_q,
                        (int32_t)s->len_k, &bytes));
  if (bytes && !t->workspace) must(attune_alloc(t->context, bytes, &t->workspace));
  attune_attn_args a = args_of(t, bytes);
  if (t->arrange) t->arrange(&a);
  attune_status status = attune_launch(program, &a, NULL);
  move(&t->o, t->variant.dtype_out, 0);
  return status;
}
