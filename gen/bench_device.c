/* bench_device.c - the timer of a GPU: programs of one problem on one shape.
 *
 * Input: prepared programs, a shape. Output: the times of bench.c. Calls of half a millisecond and
 * more are launched one by one between two events; shorter ones are recorded into a graph of as
 * many calls as a sample has, so that the host is not what is timed. What lies between two calls of
 * a graph on the device (1 to 2 microseconds on Hopper) stays in the time, as it does for a caller.
 */
#include "bench_features.h"

#include "../runtime/context.h"
#include "nvrtc.h"
#include "plan.h"
#include "probe.h"
#include "reference.h"

#include <stdlib.h>
#include <string.h>

enum {
  DIRECT_CALLS = 10,    /* samples of at most so many calls are launched one by one */
  MAX_CONTENDERS = 64,  /* of one bench */
  POOL = (1 << 17) + 7, /* random elements that the tensors are filled from, over and over */
  ALIGN = 256           /* bytes; what cudaMalloc gives */
};

typedef struct contender {
  attune_program *program;
  void *workspace;
  size_t workspace_bytes;
  attune__graph *graph;
  int graph_calls;
} contender;

/* Bytes from the start of a set of tensors. */
typedef struct places {
  size_t q, k, v, o, lse, end;
} places;

struct attune__bench {
  attune__device *device;
  attune_variant variant;
  attune_shape shape;
  attune__bench_features features;
  places at;
  int sets;
  unsigned char *memory; /* the sets, one after the other */
  void *stream;
  contender contenders[MAX_CONTENDERS];
  int count;
};

/* ---- tensors --------------------------------------------------------------------------------- */

static size_t claim(size_t *end, size_t count, int dtype) {
  size_t at = *end;
  *end += (count * (size_t)attune__dtype_bytes(dtype) + ALIGN - 1) / ALIGN * ALIGN;
  return at;
}

static places lay_out(const attune_variant *v, const attune_shape *s) {
  attune__probe_sizes sizes = attune__probe_sizes_of(v, s);
  places p = {.end = 0};
  p.q = claim(&p.end, sizes.q, v->dtype_q);
  p.k = claim(&p.end, sizes.k, v->dtype_kv);
  p.v = claim(&p.end, sizes.v, v->dtype_kv);
  p.o = claim(&p.end, sizes.o, v->dtype_out);
  p.lse = claim(&p.end, sizes.lse, ATTUNE_DTYPE_FP32);
  return p;
}

/* Sets that together are twice the L2: none of a call's tensors is left there from the last time.
 */
static int sets_for(const attune__device *device, size_t set_bytes, attune__l2 l2) {
  size_t want = 2 * (size_t)device->facts.l2_bytes, sets = (want + set_bytes - 1) / set_bytes;
  if (l2 == ATTUNE__L2_WARM || sets < 1) return 1;
  return sets < ATTUNE__BENCH_MAX_CALLS ? (int)sets : ATTUNE__BENCH_MAX_CALLS;
}

static attune_status make_pool(uint64_t seed, int dtype, unsigned char **out) {
  float *numbers = malloc(POOL * sizeof *numbers);
  *out = malloc((size_t)POOL * (size_t)attune__dtype_bytes(dtype));
  if (!numbers || !*out) {
    free(numbers);
    return attune_fail(ATTUNE_NO_MEMORY, "no host memory for random numbers");
  }
  attune__probe_normal(seed, dtype, numbers, POOL);
  attune__to_dtype(dtype, numbers, *out, POOL);
  free(numbers);
  return ATTUNE_OK;
}

static attune_status fill(const attune__bench *b, unsigned char *to, size_t count, int dtype,
                          const unsigned char *pool) {
  size_t element = (size_t)attune__dtype_bytes(dtype);
  attune_status status = ATTUNE_OK;
  for (size_t done = 0; done < count && !status; done += POOL) {
    size_t part = count - done < POOL ? count - done : POOL;
    status = b->device->ops->upload(b->device, to + done * element, pool, part * element);
  }
  return status;
}

/* One tensor of every set; each tensor of a set has numbers of its own. */
static attune_status fill_sets(const attune__bench *b, uint64_t seed, size_t at, size_t count,
                               int dtype) {
  unsigned char *pool = NULL;
  attune_status status = make_pool(seed, dtype, &pool);
  for (int set = 0; set < b->sets && !status; set++)
    status = fill(b, b->memory + (size_t)set * b->at.end + at, count, dtype, pool);
  free(pool);
  return status;
}

static attune_status make_tensors(attune__bench *b) {
  const attune_variant *v = &b->variant;
  attune__probe_sizes sizes = attune__probe_sizes_of(v, &b->shape);
  void *memory = NULL;
  attune_status status = b->device->ops->alloc(b->device, (size_t)b->sets * b->at.end, &memory);
  b->memory = memory;
  if (!status) status = fill_sets(b, 1, b->at.q, sizes.q, v->dtype_q);
  if (!status) status = fill_sets(b, 2, b->at.k, sizes.k, v->dtype_kv);
  if (!status) status = fill_sets(b, 3, b->at.v, sizes.v, v->dtype_kv);
  return status;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static attune_attn_args args_of(const attune__bench *b, const contender *c, int set) {
  const attune_shape *s = &b->shape;
  const attune_variant *v = &b->variant;
  unsigned char *base = b->memory + (size_t)set * b->at.end;
  attune_attn_args args = attune_attn_args_init();
  args.q = attune_bshd(base + b->at.q, s->len_q, s->heads_q, v->head_dim_qk);
  args.k = attune_bshd(base + b->at.k, s->len_k, s->heads_kv, v->head_dim_qk);
  args.v = attune_bshd(base + b->at.v, s->len_k, s->heads_kv, v->head_dim_v);
  args.o = attune_bshd(base + b->at.o, s->len_q, s->heads_q, v->head_dim_v);
  args.lse = (float *)(void *)(base + b->at.lse);
  args.lse_stride_batch = s->heads_q * s->len_q;
  args.lse_stride_head = s->len_q, args.lse_stride_seq = 1;
  args.batch = (int32_t)s->batch;
  args.heads_q = (int32_t)s->heads_q, args.heads_kv = (int32_t)s->heads_kv;
  args.len_q = (int32_t)s->len_q, args.len_k = (int32_t)s->len_k;
  args.corner = s->corner;
  args.window_left = (int32_t)s->window_left, args.window_right = (int32_t)s->window_right;
  args.workspace = c->workspace, args.workspace_bytes = c->workspace_bytes;
  attune__bench_features_args(&b->features, &args);
  return args;
}

static attune_status launch(const attune__bench *b, const contender *c, int calls) {
  attune_status status = ATTUNE_OK;
  for (int i = 0; i < calls && !status; i++) {
    attune_attn_args args = args_of(b, c, i % b->sets);
    status = attune_launch(c->program, &args, b->stream);
  }
  return status;
}

static void forget_graph(const attune__bench *b, contender *c) {
  if (c->graph) b->device->ops->graph_free(b->device, c->graph);
  c->graph = NULL, c->graph_calls = 0;
}

/* A recording that was begun is ended, whatever happens in between. */
static attune_status record(const attune__bench *b, contender *c, int calls) {
  const attune__device_ops *ops = b->device->ops;
  if (c->graph_calls == calls) return ATTUNE_OK;
  forget_graph(b, c);
  attune_status status = ops->record_begin(b->device, b->stream);
  if (status) return status;
  attune_status launched = launch(b, c, calls);
  status = ops->record_end(b->device, b->stream, &c->graph);
  if (launched || status) {
    forget_graph(b, c);
    return launched ? launched : status;
  }
  c->graph_calls = calls;
  /* The first launch of a graph also puts it on the device. Only this stream is waited for: others
   * of the process may be busy, or be captured. */
  float ignored;
  status = ops->time_begin(b->device, b->stream);
  if (status) return status;
  status = ops->graph_launch(b->device, c->graph, b->stream);
  attune_status ended = ops->time_end(b->device, b->stream, &ignored);
  return status ? status : ended;
}

static attune_status time_device(void *user, int index, int calls, double *milliseconds) {
  attune__bench *b = user;
  contender *c = &b->contenders[index];
  const attune__device_ops *ops = b->device->ops;
  float took = 0;
  int direct = calls <= DIRECT_CALLS;
  attune_status status = direct ? ATTUNE_OK : record(b, c, calls);
  if (!status) status = ops->time_begin(b->device, b->stream);
  if (status) return status;
  status = direct ? launch(b, c, calls) : ops->graph_launch(b->device, c->graph, b->stream);
  attune_status ended = ops->time_end(b->device, b->stream, &took);
  *milliseconds = (double)took;
  return status ? status : ended;
}

static attune_status time_host(void *user, int index, int calls, double *milliseconds) {
  attune__bench *b = user;
  double began = attune__now_ms();
  attune_status status = launch(b, &b->contenders[index], calls);
  *milliseconds = attune__now_ms() - began;
  attune_status waited = b->device->ops->synchronize(b->device);
  return status ? status : waited;
}

/* ---- opening, adding, running ---------------------------------------------------------------- */

attune_status attune__bench_open(attune__device *device, const attune_variant *variant,
                                 const attune_pinset *pins, const attune_shape *shape,
                                 attune__l2 l2, attune__bench **out) {
  *out = NULL;
  if (!device->ops->stream_make)
    return attune_fail(ATTUNE_NO_DEVICE,
                       "%s cannot tell the time of a kernel: timing needs an NVIDIA GPU",
                       device->facts.name);
  attune__bench *b = calloc(1, sizeof *b);
  if (!b) return attune_fail(ATTUNE_NO_MEMORY, "no memory for a bench");
  b->device = device, b->variant = *variant;
  b->shape = attune__shape_pinned(shape, pins);
  b->at = lay_out(variant, &b->shape);
  b->sets = sets_for(device, b->at.end ? b->at.end : 1, l2);
  attune_status status = device->ops->stream_make(device, &b->stream);
  if (!status) status = make_tensors(b);
  if (!status) status = attune__bench_features_make(device, variant, pins, &b->shape, &b->features);
  if (status)
    attune__bench_close(b);
  else
    *out = b;
  return status;
}

void attune__bench_close(attune__bench *b) {
  if (!b) return;
  for (int i = 0; i < b->count; i++) {
    forget_graph(b, &b->contenders[i]);
    b->device->ops->free(b->device, b->contenders[i].workspace);
  }
  attune__bench_features_free(&b->features);
  b->device->ops->free(b->device, b->memory);
  if (b->stream) b->device->ops->stream_free(b->device, b->stream);
  free(b);
}

attune_status attune__bench_add(attune__bench *b, attune_program *program) {
  const attune_shape *s = &b->shape;
  if (b->count == MAX_CONTENDERS)
    return attune_fail(ATTUNE_INVALID, "more than %d programs in one bench", MAX_CONTENDERS);
  contender *c = &b->contenders[b->count];
  *c = (contender){.program = program};
  attune_status status =
      attune_workspace(program, (int32_t)s->batch, (int32_t)s->heads_q, (int32_t)s->len_q,
                       (int32_t)s->len_k, &c->workspace_bytes);
  if (!status && c->workspace_bytes)
    status = b->device->ops->alloc(b->device, c->workspace_bytes, &c->workspace);
  if (!status) b->count++;
  return status;
}

attune__bench_timer attune__bench_timer_of(attune__bench *b) {
  return (attune__bench_timer){b, time_device, time_host};
}

attune_status attune__bench_times(attune__bench *b, const attune__bench_options *options,
                                  attune__bench_time *out) {
  attune__bench_timer timer = attune__bench_timer_of(b);
  return attune__bench_run(&timer, b->count, options, out);
}

/* ---- questions ------------------------------------------------------------------------------- */

/* Of a prepared program. */
static const attune__part *parts_of(const attune__bench *b, int index) {
  return atomic_load_explicit(&b->contenders[index].program->parts, memory_order_acquire);
}

int attune__bench_parts(const attune__bench *b, int index) {
  return b->contenders[index].program->count;
}

const attune_entry *attune__bench_entry(const attune__bench *b, int index, int part) {
  return &parts_of(b, index)[part].entry;
}

int attune__bench_occupancy(const attune__bench *b, int index, int part) {
  const attune__part *p = &parts_of(b, index)[part];
  attune__launch_config config = {.grid = 1,
                                  .threads = p->entry.recipe.threads,
                                  .smem_bytes = p->entry.recipe.smem_bytes,
                                  .cluster = p->entry.recipe.cluster};
  int blocks = 0;
  if (!b->device->ops->occupancy) return 0;
  if (b->device->ops->occupancy(b->device, p->function, &config, &blocks)) return 0;
  return blocks;
}

const attune_shape *attune__bench_shape(const attune__bench *b) {
  return &b->shape;
}

int attune__bench_sets(const attune__bench *b) {
  return b->sets;
}

size_t attune__bench_set_bytes(const attune__bench *b) {
  return b->at.end;
}
