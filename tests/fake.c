/* fake.c - the fake device and fake sets of fake.h.
 *
 * Sets go through the real writer and reader: only the cubins in them are empty. */
#include "fake.h"

#include "test.h"

#include <elf.h>
#include <ftw.h>
#include <stdio.h>
#include <unistd.h>

/* ---- device --------------------------------------------------------------------------------- */

typedef struct fake_device {
  attune__device base;
  fake_log *log;
} fake_device;

struct attune__function {
  char kernel[ATTUNE_NAME_MAX];
};

static fake_log *log_of(attune__device *device) {
  return ((fake_device *)device)->log;
}

static void fake_close(attune__device *device) {
  atomic_fetch_add(&log_of(device)->closes, 1);
  free(device);
}

static attune_status fake_load(attune__device *device, const attune_entry *entry,
                               attune__function **out) {
  fake_log *log = log_of(device);
  atomic_fetch_add(&log->loads, 1);
  if (log->load_status) return attune_fail(log->load_status, "the fake device refuses");
  *out = calloc(1, sizeof **out);
  ck_assert_ptr_nonnull(*out);
  ck_assert_ptr_nonnull(entry->payload[ATTUNE_PAYLOAD_CUBIN].data);
  memcpy((*out)->kernel, entry->name, sizeof entry->name);
  return ATTUNE_OK;
}

static void fake_unload(attune__device *device, attune__function *function) {
  atomic_fetch_add(&log_of(device)->unloads, 1);
  free(function);
}

static attune_status fake_launch(attune__device *device, attune__function *function,
                                 const attune__launch_config *config, const void *params,
                                 size_t param_bytes, void *stream) {
  fake_log *log = log_of(device);
  if (log->launch_status) return attune_fail(log->launch_status, "the fake device refuses");
  int i = atomic_fetch_add(&log->launches, 1) % FAKE_LAUNCHES;
  memcpy(log->launch[i].kernel, function->kernel, sizeof function->kernel);
  log->launch[i].config = *config;
  memset(&log->launch[i].params, 0, sizeof log->launch[i].params);
  memcpy(&log->launch[i].params, params, param_bytes);
  log->launch[i].param_bytes = param_bytes;
  log->launch[i].stream = stream;
  return ATTUNE_OK;
}

static attune_status fake_alloc(attune__device *device, size_t bytes, void **out) {
  (void)device;
  *out = malloc(bytes ? bytes : 1);
  return *out ? ATTUNE_OK : ATTUNE_NO_MEMORY;
}

static void fake_free(attune__device *device, void *memory) {
  (void)device;
  free(memory);
}

attune_status fake_copy(attune__device *device, void *to, const void *from, size_t bytes) {
  (void)device;
  memcpy(to, from, bytes);
  return ATTUNE_OK;
}

attune_status fake_synchronize(attune__device *device) {
  (void)device;
  return ATTUNE_OK;
}

static const attune__device_ops fake_ops = {.name = "fake",
                                            .close = fake_close,
                                            .load = fake_load,
                                            .unload = fake_unload,
                                            .launch = fake_launch,
                                            .alloc = fake_alloc,
                                            .free = fake_free,
                                            .upload = fake_copy,
                                            .download = fake_copy,
                                            .synchronize = fake_synchronize};

attune_context *fake_open(const char *arch, const attune_options *options, fake_log *log) {
  uint32_t number = attune__arch_parse(arch);
  ck_assert_uint_ne(number, 0);
  fake_device *device = NULL;
  if (log) {
    device = calloc(1, sizeof *device);
    ck_assert_ptr_nonnull(device);
    *device = (fake_device){.base = {.ops = &fake_ops, .facts = {.name = "Fake", .arch = number}},
                            .log = log};
  }
  attune_context *context;
  ck_assert_int_eq(attune__open_with(device ? &device->base : NULL, number, options, &context), 0);
  return context;
}

/* ---- entries -------------------------------------------------------------------------------- */

/* The least that passes for a cubin: an ELF of one empty string table. */
static struct {
  Elf64_Ehdr head;
  Elf64_Shdr section[2];
  char names[8];
} empty_cubin;

static void fill_cubin(void) {
  Elf64_Ehdr *head = &empty_cubin.head;
  memcpy(head->e_ident, ELFMAG, SELFMAG);
  head->e_ident[EI_CLASS] = ELFCLASS64;
  head->e_ident[EI_DATA] = ELFDATA2LSB;
  head->e_machine = EM_CUDA;
  head->e_ehsize = sizeof *head;
  head->e_shentsize = sizeof(Elf64_Shdr);
  head->e_shoff = sizeof *head;
  head->e_shnum = 2;
  head->e_shstrndx = 1;
  empty_cubin.section[1].sh_type = SHT_STRTAB;
  empty_cubin.section[1].sh_offset = offsetof(__typeof__(empty_cubin), names);
  empty_cubin.section[1].sh_size = sizeof empty_cubin.names;
}

static attune_recipe recipe_of(const attune_entry *entry) {
  int standard = entry->variant.op == ATTUNE_OP_ATTN_STANDARD;
  int scores = standard && entry->variant.part == 0;
  int packed = (entry->variant.features & ATTUNE_FEATURE_VARLEN) != 0;
  return (attune_recipe){.abi = ATTUNE_ABI,
                         .param_bytes = (uint32_t)attune__param_bytes(entry->variant.op, 0),
                         .threads = 32u * entry->tile.warps,
                         .smem_bytes = 1024,
                         .grid = scores   ? ATTUNE_GRID_S_TILES
                                 : packed ? ATTUNE_GRID_VARLEN_TILES
                                          : ATTUNE_GRID_Q_TILES,
                         .block_m = entry->tile.block_m,
                         .block_n = entry->tile.block_n,
                         .cluster = 1,
                         .early = 1,
                         .workspace = standard ? ATTUNE_WORKSPACE_SCORES : ATTUNE_WORKSPACE_NONE};
}

attune_entry fake_entry(const char *kernel_name, const attune_pinset *pins) {
  attune_entry entry = {0};
  int has_tile, is_program;
  fill_cubin();
  ck_assert_msg(
      !attune__name_parse(kernel_name, &entry.variant, &entry.tile, &has_tile, &is_program) &&
          has_tile,
      "%s: %s", kernel_name, attune_error());
  snprintf(entry.name, sizeof entry.name, "%s", kernel_name);
  snprintf(entry.compiler, sizeof entry.compiler, "none");
  if (pins) entry.pins = *pins;
  entry.recipe = recipe_of(&entry);
  entry.facts.registers = 40;
  entry.payload[ATTUNE_PAYLOAD_CUBIN].data = &empty_cubin;
  entry.payload[ATTUNE_PAYLOAD_CUBIN].bytes = sizeof empty_cubin;
  return entry;
}

/* ---- sets ----------------------------------------------------------------------------------- */

void fake_folder(char path[FAKE_PATH]) {
  snprintf(path, FAKE_PATH, "build/tmp-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(path));
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *place) {
  (void)info, (void)type, (void)place;
  return remove(path);
}

void fake_remove(const char *path) {
  ck_assert_int_eq(nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static attune_variant variant_of_name(const char *name, const attune_pinset *pins) {
  attune_variant variant;
  attune_tile tile;
  int has_tile, is_program;
  ck_assert_msg(!attune__name_parse(name, &variant, &tile, &has_tile, &is_program), "%s: %s", name,
                attune_error());
  if (pins) variant.pins = attune__pinset_digest(pins);
  return variant;
}

static int kernel_index(attune__set *set, const char *name, const attune_pinset *pins) {
  for (int i = 0; i < set->kernel_count; i++)
    if (strcmp(set->kernels[i].name, name) == 0) return i;
  attune__set_kernel *kernel = &set->kernels[set->kernel_count];
  attune_entry entry = fake_entry(name, pins);
  void *bytes;
  size_t size;
  ck_assert_msg(!attune__entry_write(&entry, &bytes, &size), "%s", attune_error());
  memcpy(kernel->name, entry.name, sizeof kernel->name);
  attune__sha256_hex(bytes, size, kernel->digest);
  char *path = attune__set_entry_path(set->path, name);
  ck_assert_int_eq(attune__file_publish(path, bytes, size), 0);
  free(path);
  free(bytes);
  return set->kernel_count++;
}

static void add_row(attune__set *set, const fake_row *from) {
  attune__set_row *row = &set->rows[set->row_count++];
  row->variant = variant_of_name(from->variant, from->pins);
  row->cls = from->cls;
  row->corner = from->corner;
  row->kernel_count = attune__op_parts(row->variant.op);
  for (int part = 0; part < row->kernel_count; part++) {
    attune_variant v = row->variant;
    char variant[ATTUNE_NAME_MAX], name[ATTUNE_NAME_MAX * 2];
    v.part = (uint8_t)part;
    attune__variant_name(&v, 0, variant);
    snprintf(name, sizeof name, "%s__%s", variant, from->tile ? from->tile : "fma_m64n64");
    row->kernel[part] = kernel_index(set, name, from->pins);
  }
  if (from->pins) set->pins[set->pinset_count++] = *from->pins;
}

void fake_set(const char *path, const fake_row *rows, int count) {
  char copy[FAKE_PATH];
  snprintf(copy, sizeof copy, "%s", path);
  attune__set set = {.path = copy, .made_by = "fake"};
  set.kernels = calloc((size_t)count * ATTUNE_MAX_PARTS, sizeof *set.kernels);
  set.rows = calloc((size_t)count, sizeof *set.rows);
  set.pins = calloc((size_t)count, sizeof *set.pins);
  ck_assert(set.kernels && set.rows && set.pins);
  for (int i = 0; i < count; i++) add_row(&set, &rows[i]);
  ck_assert_msg(!attune__set_write(&set), "%s", attune_error());
  free(set.kernels);
  free(set.rows);
  free(set.pins);
}

void fake_open_set(attune_context *context, const char *path, const fake_row *rows, int count) {
  fake_set(path, rows, count);
  ck_assert_msg(!attune_open_set(context, path), "%s", attune_error());
}

attune_problem fake_problem(const char *variant) {
  attune_variant v = variant_of_name(variant, NULL);
  attune_problem p = attune_problem_init();
  p.op = (attune_op)v.op;
  p.dtype_q = (attune_dtype)v.dtype_q;
  p.dtype_kv = (attune_dtype)v.dtype_kv;
  p.dtype_out = (attune_dtype)v.dtype_out;
  p.head_dim_qk = v.head_dim_qk;
  p.head_dim_v = v.head_dim_v;
  p.mask = (attune_mask)v.mask;
  p.features = v.features;
  p.align = (attune_align)v.align;
  p.group = v.group;
  p.batch = 1, p.heads_q = p.heads_kv = 8, p.len_q = p.len_k = 1024;
  return p;
}

/* ---- callers ------------------------------------------------------------------------------- */

void *fake_address(uintptr_t address) {
  return (void *)address;
}

attune_attn_args fake_args(void) {
  attune_attn_args args = attune_attn_args_init();
  args.batch = 2, args.heads_q = 8, args.heads_kv = 2, args.len_q = args.len_k = 100;
  args.q = attune_bshd(fake_address(0x10000), 100, 8, 64);
  args.k = attune_bhsd(fake_address(0x20000), 100, 2, 64);
  args.v = attune_bhsd(fake_address(0x30000), 100, 2, 64);
  args.o = attune_bshd(fake_address(0x40000), 100, 8, 64);
  args.lse = fake_address(0x50000);
  args.lse_stride_batch = 800, args.lse_stride_head = 100, args.lse_stride_seq = 1;
  args.scale = 0.125f;
  return args;
}

void fake_filled(const char *variant, attune_corner spec_corner, const attune_attn_args *args,
                 attune_params_attn_standard *out) {
  attune_variant v = variant_of_name(variant, NULL);
  ck_assert_msg(!attune__params_fill(&v, spec_corner, args, out), "%s", attune_error());
}

void fake_refused(const char *variant, const attune_attn_args *args, const char *words) {
  attune_variant v = variant_of_name(variant, NULL);
  attune_params_attn_standard params;
  ck_assert_msg(attune__params_fill(&v, (attune_corner)0, args, &params) == ATTUNE_INVALID,
                "not refused: %s", words);
  ck_assert_msg(strstr(attune_error(), words) != NULL, "'%s' lacks '%s'", attune_error(), words);
}

attune_program *fake_find(attune_context *context, const attune_problem *problem) {
  attune_program *program = NULL;
  attune_status status = attune_find(context, problem, &program);
  ck_assert_msg(status == ATTUNE_OK, "%s", attune_error());
  return program;
}

attune_program_info fake_info(const attune_program *program) {
  attune_program_info info = attune_program_info_init();
  ck_assert_int_eq(attune_info(program, &info), ATTUNE_OK);
  return info;
}

static void keep_message(void *user, attune_level level, const char *text) {
  fake_messages *kept = user;
  kept->count++;
  kept->level = level;
  snprintf(kept->last, sizeof kept->last, "%s", text);
}

attune_options fake_listening(fake_messages *kept) {
  attune_options options = attune_options_init();
  options.message = keep_message;
  options.message_user = kept;
  return options;
}

static void free_result(attune_miss_result *result) {
  for (int i = 0; i < result->count; i++) free((void *)(uintptr_t)result->entries[i]);
  atomic_fetch_add(&((fake_handler *)result->owner)->frees, 1);
}

attune_status fake_handle(void *user, const attune_problem *problem, const char *arch, int dry_run,
                          attune_miss_result *result) {
  fake_handler *h = user;
  attune_variant v;
  atomic_fetch_add(dry_run ? &h->dry_runs : &h->calls, 1);
  if (h->status) return attune_fail(h->status, "the handler's reason");
  if (dry_run) return ATTUNE_OK;
  if (attune__variant_of(problem, attune__arch_parse(arch), &v)) return ATTUNE_INVALID;
  result->count = attune__op_parts(v.op);
  for (int i = 0; i < result->count; i++) {
    char name[ATTUNE_NAME_MAX];
    attune_tile tile = {
        .family = ATTUNE_FAMILY_FMA, .block_m = 32, .block_n = 32, .stages = 1, .warps = 4};
    void *bytes;
    v.part = (uint8_t)i;
    attune__kernel_name(&v, &tile, name);
    attune_entry entry = fake_entry(h->lie ? h->lie : name, NULL);
    if (attune__entry_write(&entry, &bytes, &result->entry_bytes[i])) return ATTUNE_INVALID;
    result->entries[i] = bytes;
  }
  result->owner = h;
  result->free_entries = free_result;
  return ATTUNE_OK;
}
