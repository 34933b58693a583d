/* launch.c - grid rules, workspace rules, and the launch of a program's parts in order.
 *
 * Input: loaded parts and a caller's arguments. Output: launches on the device. The parameter block
 * is params.c's job, loading is program.c's. Nothing here allocates, locks or waits. */
#include "context.h"

#include <inttypes.h>

enum {
  GRID_MAX = 0x7fffffff, /* blocks in x, CUDA C++ programming guide, table of technical limits */
  THREADS_MAX = 1024,    /* per block, same table */
  WORKSPACE_ALIGN = 256  /* what cudaMalloc gives */
};

/* ---- rules --------------------------------------------------------------------------------- */

static int64_t tiles(int64_t length, uint32_t block) {
  return (length + block - 1) / block;
}

/* a * b for counts of at least 0, GRID_MAX + 1 when it is more than that. */
static int64_t capped_product(int64_t a, int64_t b) {
  const int64_t over = (int64_t)GRID_MAX + 1;
  if (a == 0 || b == 0) return 0;
  return a > over / b ? over : a * b;
}

/* Rows of Q by tile: with packed GQA the heads of a group are rows of one. Of packed sequences each
 * begins in a tile of its own, so that they leave at most one tile each without a row. */
static int64_t row_tiles(const attune_recipe *recipe, int group,
                         const attune_params_attn_standard *params) {
  if (recipe->grid == ATTUNE_GRID_VARLEN_TILES)
    return (int64_t)params->total_q * group / recipe->block_m + params->batch;
  return capped_product(tiles((int64_t)params->len_q * group, recipe->block_m), params->batch);
}

attune_status attune__grid(const attune_variant *variant, const attune_recipe *recipe,
                           const attune_params_attn_standard *params, uint32_t *blocks) {
  int64_t count = row_tiles(recipe, variant->group, params);
  if (recipe->grid == ATTUNE_GRID_S_TILES)
    count = capped_product(count, tiles(params->len_k, recipe->block_n));
  count = capped_product(count, params->heads_q / variant->group);
  *blocks = (uint32_t)count;
  if (count <= GRID_MAX) return ATTUNE_OK;
  int packed = recipe->grid == ATTUNE_GRID_VARLEN_TILES;
  return attune_fail(ATTUNE_INVALID,
                     "batch %" PRId32 ", heads_q %" PRId32 " and %s %" PRId32
                     " need more than %d blocks of %" PRIu32
                     " rows: launch fewer sequences at once",
                     params->batch, params->heads_q, packed ? "total_q" : "len_q",
                     packed ? params->total_q : params->len_q, GRID_MAX, recipe->block_m);
}

size_t attune__workspace_bytes(uint32_t rule, int dtype, int64_t batch, int64_t heads_q,
                               int64_t len_q, int64_t len_k) {
  if (rule != ATTUNE_WORKSPACE_SCORES) return 0;
  const int64_t factor[] = {batch, heads_q, len_q, attune__scores_pitch(len_k),
                            attune__dtype_bytes(dtype)};
  size_t bytes = 1;
  for (size_t i = 0; i < sizeof factor / sizeof *factor; i++)
    if (factor[i] == 0) return 0;
  for (size_t i = 0; i < sizeof factor / sizeof *factor; i++)
    if (__builtin_mul_overflow(bytes, (size_t)factor[i], &bytes)) return SIZE_MAX;
  return bytes;
}

static int known_grid(uint32_t grid) {
#define X(name, id, text, doc)                                                                     \
  if (grid == id) return 1;
  ATTUNE_GRIDS(X)
#undef X
  return 0;
}

static int known_workspace(uint32_t rule) {
#define X(name, id, text, doc)                                                                     \
  if (rule == id) return 1;
  ATTUNE_WORKSPACES(X)
#undef X
  return 0;
}

attune_status attune__recipe_check(const attune_entry *entry) {
  const attune_recipe *r = &entry->recipe;
  size_t param_bytes = attune__param_bytes(entry->variant.op, r->maps != 0);
  int packed = (entry->variant.features & ATTUNE_FEATURE_VARLEN) != 0;
  const char *wrong = NULL;
  if (r->abi != ATTUNE_ABI)
    wrong = "its parameter block is of another attune version";
  else if (r->param_bytes != param_bytes)
    wrong = "its parameter block has another size";
  else if (r->threads == 0 || r->threads > THREADS_MAX)
    wrong = "its threads are not 1 .. 1024";
  else if (!known_grid(r->grid))
    wrong = "its grid rule is unknown";
  else if ((r->grid == ATTUNE_GRID_VARLEN_TILES) != packed)
    wrong =
        packed ? "its grid is not one for packed sequences" : "its grid is for packed sequences";
  else if (!known_workspace(r->workspace))
    wrong = "its workspace rule is unknown";
  else if (r->block_m == 0)
    wrong = "block_m is 0";
  else if (r->grid == ATTUNE_GRID_S_TILES && r->block_n == 0)
    wrong = "block_n is 0";
  else if (r->early > 1)
    wrong = "it is neither launched early nor not";
  else if (r->cluster != 1)
    wrong = "it launches in clusters";
  if (!wrong) return ATTUNE_OK;
  return attune_fail(ATTUNE_BAD_FILE, "kernel %s cannot be launched: %s; build it again",
                     entry->name, wrong);
}

/* ---- launch -------------------------------------------------------------------------------- */

static attune_status check_workspace(const attune__part *parts, int count,
                                     const attune_params_attn_standard *p, int dtype,
                                     const attune_attn_args *args) {
  size_t need = 0;
  for (int i = 0; i < count; i++) {
    size_t bytes = attune__workspace_bytes(parts[i].entry.recipe.workspace, dtype, p->batch,
                                           p->heads_q, p->len_q, p->len_k);
    if (bytes > need) need = bytes;
  }
  if (need == 0) return ATTUNE_OK;
  if (!args->workspace || args->workspace_bytes < need)
    return attune_fail(ATTUNE_WORKSPACE,
                       "workspace is %zu bytes%s, this shape needs %zu: ask attune_workspace()",
                       args->workspace_bytes, args->workspace ? "" : " at NULL", need);
  if ((uintptr_t)args->workspace % WORKSPACE_ALIGN != 0)
    return attune_fail(ATTUNE_WORKSPACE, "workspace is %p, not a multiple of %d bytes",
                       args->workspace, WORKSPACE_ALIGN);
  return ATTUNE_OK;
}

/* Whether the kernel takes so many keys. */
static attune_status check_keys(const attune_entry *entry, int32_t len_k) {
  int32_t most = attune__tile_max_len_k(&entry->tile);
  if (!most || len_k <= most) return ATTUNE_OK;
  return attune_fail(
      ATTUNE_INVALID,
      "len_k %" PRId32 ": kernel %s takes up to %" PRId32
      " keys; look up by the problem's own lengths, which finds a row for every shape",
      len_k, entry->name, most);
}

/* Every part is checked before the first is launched: a refused call computes nothing. */
static attune_status check_parts(const attune__part *parts, int count,
                                 const attune_variant *variant,
                                 const attune_params_attn_standard *params, uint32_t *blocks) {
  for (int i = 0; i < count; i++) {
    attune_status status = check_keys(&parts[i].entry, params->len_k);
    if (!status) status = attune__grid(variant, &parts[i].entry.recipe, params, &blocks[i]);
    if (!status) status = attune__params_check_pins(&parts[i].entry.pins, variant->op, params);
    if (status) return status;
  }
  return ATTUNE_OK;
}

static attune_status launch_with_maps(attune__device *device, const attune__part *part,
                                      const attune__launch_config *config,
                                      const attune_variant *variant,
                                      const attune_params_attn_standard *params, void *stream) {
  attune_params_attn_fwd_maps block;
  attune__clear(&block, sizeof block);
  memcpy(&block.params, params, params->size);
  block.params.size = sizeof block;
  attune_status status = attune__maps_fill(device, variant, &part->entry.recipe, params, block.map);
  if (status) return status;
  return device->ops->launch(device, part->function, config, &block, sizeof block, stream);
}

/* A persistent grid has no more blocks than run at once. */
static uint32_t limit_blocks(const attune__device *device, const attune_recipe *recipe,
                             uint32_t blocks) {
  uint32_t most = (uint32_t)device->facts.sm_count * recipe->persistent;
  return recipe->persistent && blocks > most ? most : blocks;
}

attune_status attune__launch(attune__device *device, const attune__part *parts, int count,
                             const attune_variant *variant, attune_corner spec_corner,
                             const attune_attn_args *args, void *stream) {
  attune_params_attn_standard params;
  uint32_t blocks[ATTUNE_MAX_PARTS];
  attune_status status = attune__params_fill(variant, spec_corner, args, &params);
  if (status) return status;
  if (attune__no_rows(variant, &params)) return ATTUNE_OK;
  status = check_workspace(parts, count, &params, variant->dtype_q, args);
  if (!status) status = check_parts(parts, count, variant, &params, blocks);
  for (int i = 0; i < count && !status; i++) {
    const attune_recipe *recipe = &parts[i].entry.recipe;
    attune__launch_config config = {.grid = limit_blocks(device, recipe, blocks[i]),
                                    .threads = recipe->threads,
                                    .smem_bytes = recipe->smem_bytes,
                                    .cluster = recipe->cluster,
                                    .early = recipe->early};
    if (blocks[i] == 0) continue; /* no tiles of S: there are no keys */
    status = recipe->maps ? launch_with_maps(device, &parts[i], &config, variant, &params, stream)
                          : device->ops->launch(device, parts[i].function, &config, &params,
                                                recipe->param_bytes, stream);
  }
  return status;
}

/* Two stores; a launch that came at the same time may be the one that is kept. */
static void note_launch(attune_context *context, void *stream) {
  attune__device *device = context->device;
  int64_t now = attune__microseconds();
  atomic_store_explicit(&context->launched_us, now, memory_order_relaxed);
  if (device->ops->capturing && device->ops->capturing(device, stream))
    atomic_store_explicit(&context->captured_us, now, memory_order_relaxed);
}

attune_status attune_launch(attune_program *program, const void *args, void *stream) {
  if (!program || !args)
    return attune_fail(ATTUNE_INVALID, "attune_launch: %s is NULL", program ? "args" : "program");
  attune__device *device = program->context->device;
  if (!device)
    return attune_fail(ATTUNE_NO_DEVICE,
                       "%s cannot be launched: the context looks up for %s without a device",
                       program->name, program->context->arch_name);
  if (!atomic_load_explicit(&program->prepared, memory_order_acquire))
    return attune_fail(ATTUNE_BUSY, "%s is not loaded yet: call attune_prepare first",
                       program->name);
  if (atomic_load_explicit(&program->context->watched, memory_order_relaxed))
    note_launch(program->context, stream);
  const attune__part *parts = atomic_load_explicit(&program->parts, memory_order_relaxed);
  return attune__launch(device, parts, program->count, &program->variant, program->corner, args,
                        stream);
}

attune_status attune_launch_problem(attune_context *context, const attune_problem *problem,
                                    const void *args, void *stream) {
  if (!problem || !args)
    return attune_fail(ATTUNE_INVALID, "attune_launch_problem: %s is NULL",
                       problem ? "args" : "problem");
  const attune_attn_args *shape = args;
  attune_problem shaped = *problem;
  attune_program *program;
  shaped.batch = shape->batch, shaped.heads_q = shape->heads_q, shaped.heads_kv = shape->heads_kv;
  shaped.len_q = shape->len_q, shaped.len_k = shape->len_k;
  attune_status status = attune_prepare(context, &shaped, &program);
  return status ? status : attune_launch(program, args, stream);
}

attune_status attune_workspace(const attune_program *program, int32_t batch, int32_t heads_q,
                               int32_t len_q, int32_t len_k, size_t *bytes) {
  if (!program || !bytes || batch < 0 || heads_q < 0 || len_q < 0 || len_k < 0)
    return attune_fail(ATTUNE_INVALID, "attune_workspace: a pointer is NULL or a size below 0");
  attune_program *writable = (attune_program *)(uintptr_t)program; /* C11 atomics are not const */
  const attune__part *parts = atomic_load_explicit(&writable->parts, memory_order_acquire);
  if (!parts)
    return attune_fail(ATTUNE_BUSY, "%s is not read yet: call attune_prepare first", program->name);
  *bytes = 0;
  for (int i = 0; i < program->count; i++) {
    size_t need = attune__workspace_bytes(parts[i].entry.recipe.workspace, program->variant.dtype_q,
                                          batch, heads_q, len_q, len_k);
    if (need > *bytes) *bytes = need;
  }
  if (*bytes < SIZE_MAX) return ATTUNE_OK;
  return attune_fail(ATTUNE_INVALID, "the scores of this shape do not fit the address space");
}
