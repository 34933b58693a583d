/* test_embed.c - C files made of kernel sets: they compile as C and C++ without a warning, are
 * deterministic, and the examples over them run. A standalone file's launches equal the runtime's,
 * byte for byte, over random arguments, by a made-up driver (tests/embed/) on one side and a fake
 * device (fake.h) on the other. Kernels are fake; the examples' are compiled by NVRTC. */
#include "../gen/embed.h"
#include "embed/recording_driver.h"
#include "fake.h"
#include "scratch.h"

#include <dlfcn.h>
#include <limits.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

#define FWD "attn_fwd_sm80_fp16_d64"
static const fake_row rows[] = {
    {.variant = FWD},
    {.variant = FWD, .cls = ATTUNE_CLASS_DECODE, .tile = "fma_m16n64"},
    {.variant = FWD, .cls = ATTUNE_CLASS_LONG_MANY, .tile = "fma_m128n64"},
    {.variant = "attn_fwd_sm86_fp16_d64_causal", .tile = "fma_m32n32"},
    {.variant = FWD "_causal"},
    {.variant = FWD "_window"},
    {.variant = "attn_fwd_sm80_bf16_d192x128_causal_elem"},
    {.variant = "attn_fwd_sm80_fp16_ofp32_d64"},
    {.variant = FWD "_causal_g4"},
    {.variant = FWD "_softcap"},
    {.variant = FWD "_alibi"},
    {.variant = FWD "_bias_sink"},
    {.variant = FWD "_bitmask"},
    {.variant = FWD "_varlen"},
    {.variant = FWD "_causal_g4_softcap_alibi_varlen"},
    {.variant = "attn_fwd_sm90a_fp16_d64"}};

/* ---- making files ---------------------------------------------------------------------------- */

static attune_loaded fake_loaded(const char *folder, const fake_row *from, int count) {
  attune_loaded loaded;
  fake_set(folder, from, count);
  ck_assert_msg(attune__loaded_read(folder, &loaded) == ATTUNE_OK, "%s", attune_error());
  return loaded;
}

static void embed(const char *folder, const attune_embed_options *options, attune__text *file,
                  attune__text *header) {
  attune_loaded loaded = fake_loaded(folder, rows, COUNT(rows));
  ck_assert_msg(attune__embed(&loaded, options, file, header) == ATTUNE_OK, "%s", attune_error());
  attune__loaded_free(&loaded);
}

static void write_text(const char *folder, const char *name, const attune__text *text) {
  char path[PATH_MAX];
  ck_assert_int_lt(snprintf(path, sizeof path, "%s/%s", folder, name), PATH_MAX);
  ck_assert_msg(!attune__file_publish(path, text->data, text->size), "%s", attune_error());
}

static char output[1 << 14]; /* of the last shell line, messages too */

/* Exit code of a line of shell; $S is the test's folder, $B what the tests were built into. */
static int shell(const char *folder, const char *line) {
  char self[PATH_MAX] = "", whole[2 * PATH_MAX];
  ck_assert_int_gt(readlink("/proc/self/exe", self, sizeof self - 1), 0);
  for (int i = 0; i < 2; i++) *strrchr(self, '/') = 0;
  ck_assert_int_lt(snprintf(whole, sizeof whole, "B=%s S=%s; exec 2>&1; %s", self, folder, line),
                   (int)sizeof whole);
  FILE *pipe = popen(whole, "r");
  ck_assert_ptr_nonnull(pipe);
  output[fread(output, 1, sizeof output - 1, pipe)] = 0;
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void must(const char *folder, const char *line) {
  int code = shell(folder, line);
  ck_assert_msg(code == 0, "exit %d of %s: %s", code, line, output);
}

#define COMPILE                                                                                    \
  "for f in $F; do for c in 'gcc -std=c11 -Wconversion -Wmissing-prototypes -Wstrict-prototypes'"  \
  " 'clang -std=c11' 'g++ -x c++' 'clang++ -x c++'; do"                                            \
  " command -v ${c%% *} >/dev/null || { [ \"${c%% *}\" != gcc ] && continue; };"                   \
  " $c -O1 -Wall -Wextra -Wpedantic -Wshadow -Werror -Iruntime -fsyntax-only $S/$f || exit 1; "    \
  "done; done"

START_TEST(they_compile_without_a_warning) {
  char folder[64];
  attune__text file = {0}, header = {0}, alone = {0}, alone_header = {0}, use = {0};
  attune_embed_options options = {.prefix = "some"};
  scratch_make(folder);
  embed(folder, &options, &file, &header);
  options.prefix = "mine", options.standalone = 1;
  embed(folder, &options, &alone, &alone_header);
  write_text(folder, "some.c", &file), write_text(folder, "some.h", &header);
  write_text(folder, "mine.c", &alone), write_text(folder, "mine.h", &alone_header);
  attune__text_puts(&use, "#include \"some.h\"\n#include \"mine.h\"\nint use(void);\n"
                          "int use(void) { return (int)sizeof(mine_params) + MINE_VARLEN; }\n");
  write_text(folder, "use.c", &use);
  must(folder, "F='some.c mine.c use.c'; " COMPILE);
  ck_assert_ptr_nonnull(strstr(alone.data, "40      1024"));
  ck_assert_ptr_nonnull(strstr(alone.data, "/* " FWD "__fma_m64n64: "));
  ck_assert_ptr_null(strstr(alone.data, "attune.h"));
  attune__text_free(&file), attune__text_free(&header), attune__text_free(&use);
  attune__text_free(&alone), attune__text_free(&alone_header);
  scratch_remove(folder);
}
END_TEST

START_TEST(equal_sets_give_equal_text) {
  for (int standalone = 0; standalone < 2; standalone++) {
    attune__text text[2] = {{0}, {0}};
    attune_embed_options options = {.prefix = "some", .standalone = standalone};
    for (int turn = 0; turn < 2; turn++) { /* another folder each time */
      char folder[64];
      scratch_make(folder);
      embed(folder, &options, &text[turn], NULL);
      scratch_remove(folder);
    }
    ck_assert_str_eq(text[0].data, text[1].data);
    attune__text_free(&text[0]), attune__text_free(&text[1]);
  }
}
END_TEST

static void expect_refused(const fake_row *row, const char *prefix, const char *part) {
  char folder[64];
  attune__text text = {0};
  scratch_make(folder);
  attune_loaded loaded = fake_loaded(folder, row, row ? 1 : 0);
  attune_embed_options options = {.prefix = prefix, .standalone = 1};
  ck_assert_int_eq(attune__embed(&loaded, &options, &text, NULL), ATTUNE_INVALID);
  ck_assert_msg(strstr(attune_error(), part) != NULL, "%s", attune_error());
  attune__loaded_free(&loaded);
  attune__text_free(&text);
  scratch_remove(folder);
}

START_TEST(what_is_not_dispatched_is_refused_by_name) {
  attune_pinset pins = {0};
  ck_assert_int_eq(attune__pinset_add(&pins, "window_left", 127), ATTUNE_OK);
  const fake_row standard = {.variant = "attn_standard_sm80_fp32_d64"};
  const fake_row pinned = {.variant = FWD "_window", .pins = &pins};
  const fake_row paged = {.variant = FWD "_paged"};
  expect_refused(&standard, "ok",
                 "attn_standard_qk_sm80_fp32_d64__fma_m64n64: it is of op attn_standard");
  expect_refused(&pinned, "ok", "__fma_m64n64: it has pins");
  expect_refused(&paged, "ok", "_paged__fma_m64n64: it has the feature paged");
  expect_refused(NULL, "ok", "has no row");
  expect_refused(rows, "4u", "wanted a C identifier");
  expect_refused(rows, "", "wanted a C identifier");
  expect_refused(rows, "a-b", "wanted a C identifier");
}
END_TEST

/* ---- a standalone file on a made-up driver -----------------------------------------------------
 */

/* The problem as the generated file declares it: fields of fields.def but arch, pins, op, part. */
typedef struct alone_problem {
  uint32_t features, head_dim_qk, head_dim_v, dtype_q, dtype_kv, dtype_out, mask, align, group;
} alone_problem;

typedef struct alone {
  char folder[64];
  void *library;
  recording *driver;
  int (*attend)(const alone_problem *, const attune_params_attn_fwd *, void *);
  int (*load)(void);
  const char *(*error)(void);
  attune_params_attn_fwd (*init)(void);
} alone;

static void *symbol_of(void *library, const char *name) {
  void *found = dlsym(library, name);
  ck_assert_msg(found != NULL, "%s", dlerror());
  return found;
}

static void *open_library(const char *folder, const char *name) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "./%s/%s", folder, name);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  ck_assert_msg(library != NULL, "%s", dlerror());
  return library;
}

/* A standalone file finds it by its soname, for it is loaded already; one serves the process. */
static recording *made_up_driver(void) {
  static recording *driver;
  char folder[64];
  if (!driver) {
    scratch_make(folder);
    must(folder, "cc -O1 -shared -fPIC -Wall -Wextra -Werror -Wl,-soname,libcuda.so.1"
                 " -o $S/driver.so tests/embed/recording_driver.c");
    driver = symbol_of(open_library(folder, "driver.so"), "recorded");
    scratch_remove(folder);
  }
  *driver = (recording){.cc = 80, .block_bytes = sizeof(attune_params_attn_fwd)};
  return driver;
}

static alone open_alone(void) {
  alone a;
  attune__text file = {0};
  attune_embed_options options = {.prefix = "mine", .standalone = 1};
  scratch_make(a.folder);
  embed(a.folder, &options, &file, NULL);
  write_text(a.folder, "mine.c", &file);
  attune__text_free(&file);
  must(a.folder, "cc -O1 -shared -fPIC -o $S/mine.so $S/mine.c");
  a.driver = made_up_driver();
  a.library = open_library(a.folder, "mine.so");
  *(void **)&a.attend = symbol_of(a.library, "mine_attn_fwd");
  *(void **)&a.load = symbol_of(a.library, "mine_load");
  *(void **)&a.error = symbol_of(a.library, "mine_error");
  *(void **)&a.init = symbol_of(a.library, "mine_params_init");
  return a;
}

static void close_alone(alone *a) {
  dlclose(a->library);
  scratch_remove(a->folder);
}

static attune_variant variant_of(const char *name) {
  attune_variant v;
  attune_tile tile;
  int has_tile, is_program;
  ck_assert_int_eq(attune__name_parse(name, &v, &tile, &has_tile, &is_program), ATTUNE_OK);
  return v;
}

static alone_problem alone_problem_of(const attune_variant *v) {
  return (alone_problem){v->features,  v->head_dim_qk, v->head_dim_v, v->dtype_q, v->dtype_kv,
                         v->dtype_out, v->mask,        v->align,      v->group};
}

static attune_params_attn_fwd params_of(const alone *a, const attune_attn_args *args) {
  attune_params_attn_fwd p = a->init();
#define TENSOR(t)                                                                                  \
  p.t = args->t.data, p.t##_stride_batch = args->t.stride_batch;                                   \
  p.t##_stride_seq = args->t.stride_seq, p.t##_stride_head = args->t.stride_head
  TENSOR(q);
  TENSOR(k);
  TENSOR(v);
  TENSOR(o);
#define SAME(x) p.x = args->x
  SAME(lse), SAME(lse_stride_batch), SAME(lse_stride_seq), SAME(lse_stride_head);
  SAME(seqused_q), SAME(seqused_k), SAME(cu_seqlens_q), SAME(cu_seqlens_k);
  SAME(alibi_slopes), SAME(alibi_stride_batch), SAME(sinks);
  SAME(bias), SAME(bias_stride_batch), SAME(bias_stride_head);
  SAME(bias_stride_q), SAME(bias_stride_k);
  SAME(bitmask), SAME(bitmask_stride_batch), SAME(bitmask_stride_head), SAME(bitmask_stride_q);
  SAME(bitmask_classes), SAME(bitmask_classes_stride_batch);
  SAME(bitmask_classes_stride_head), SAME(bitmask_classes_stride_q);
  SAME(batch), SAME(heads_q), SAME(heads_kv), SAME(len_q), SAME(len_k), SAME(total_q);
  SAME(total_k), SAME(scale), SAME(softcap), SAME(window_left), SAME(window_right);
  p.bottom_right = args->corner ? args->corner == ATTUNE_CORNER_BOTTOM_RIGHT : -1;
  return p;
}

static uint32_t seed = 1;
static int pick(int count) {
  seed = seed * 1664525u + 1013904223u;
  return (int)(seed >> 8) % count;
}
#define ONE_OF(...) (((const int[]){__VA_ARGS__})[pick(COUNT(((const int[]){__VA_ARGS__})))])

static void add_features(const attune_variant *v, attune_attn_args *args) {
  if (v->features & ATTUNE_FEATURE_SOFTCAP) args->softcap = 30;
  if (v->features & ATTUNE_FEATURE_ALIBI)
    args->alibi_slopes = fake_address(0x70000), args->alibi_stride_batch = ONE_OF(0, 8);
  if (v->features & ATTUNE_FEATURE_BIAS)
    args->bias = fake_address(0x80002), args->bias_stride_q = 101, args->bias_stride_k = 1;
  if (v->features & ATTUNE_FEATURE_SINK) args->sinks = fake_address(0x90004);
  if (v->features & ATTUNE_FEATURE_BITMASK) {
    args->bitmask = fake_address(0xa0004), args->bitmask_stride_q = 4;
    if (pick(2)) args->bitmask_classes = fake_address(0xb0001), args->bitmask_classes_stride_q = 9;
  }
  if (!(v->features & ATTUNE_FEATURE_VARLEN)) return;
  args->cu_seqlens_q = fake_address(0xc0000), args->cu_seqlens_k = fake_address(0xd0000);
  args->total_q = ONE_OF(0, 1, 300, 5000), args->total_k = ONE_OF(0, 1, 300, 5000);
}

/* Arguments that a kernel of the variant takes. */
static attune_attn_args good_args(const attune_variant *v) {
  attune_attn_args args = attune_attn_args_init();
  int dim = v->head_dim_qk, dim_v = v->head_dim_v;
  args.batch = ONE_OF(0, 1, 3, 40), args.heads_kv = ONE_OF(1, 2);
  args.heads_q = args.heads_kv * ONE_OF(4, 8);
  args.len_q = ONE_OF(0, 1, 16, 17, 100, 512, 513, 4096);
  args.len_k = pick(2) ? args.len_q : ONE_OF(0, 1, 17, 100, 513);
  args.q = attune_bshd(fake_address(0x10000), args.len_q, args.heads_q, dim);
  args.k = attune_bhsd(fake_address(0x20000), args.len_k, args.heads_kv, dim);
  args.v = attune_bhsd(fake_address(0x30000), args.len_k, args.heads_kv, dim_v);
  args.o = attune_bshd(fake_address(0x40000), args.len_q, args.heads_q, dim_v);
  if (pick(2)) {
    args.lse = fake_address(0x50000), args.lse_stride_seq = 1;
    args.lse_stride_head = 4096, args.lse_stride_batch = 40960;
  }
  if (pick(4) == 0) args.seqused_q = fake_address(0x60000);
  if (pick(4) == 0) args.seqused_k = fake_address(0x61000);
  args.scale = (float)ONE_OF(0, 1, -3) / 8;
  args.corner = (attune_corner)ONE_OF(ATTUNE_CORNER_TOP_LEFT, ATTUNE_CORNER_BOTTOM_RIGHT);
  args.window_left = ONE_OF(-1, 0, 5, 127), args.window_right = ONE_OF(-1, 0, 5);
  add_features(v, &args);
  return args;
}

/* One thing that may be wrong, depending on the variant and the shape. */
static void spoil_tensor(attune_attn_args *args) {
  switch (pick(9)) {
    case 0:
      args->q.data = NULL;
      break;
    case 1:
      args->k.data = fake_address(0x20002);
      break;
    case 2:
      args->v.stride_seq += 1;
      break;
    case 3:
      args->o.stride_head = 0;
      break;
    case 4:
      args->o.data = fake_address(0x40008);
      break;
    case 5:
      args->lse = fake_address(0x50002);
      break;
    case 6:
      args->seqused_k = fake_address(0x61002);
      break;
    case 7:
      args->cu_seqlens_k = NULL;
      break;
    default:
      args->bias = fake_address(0x80001);
  }
}

static void spoil_number(attune_attn_args *args) {
  switch (pick(8)) {
    case 0:
      args->heads_q += 1;
      break;
    case 1:
      args->heads_kv = 0;
      break;
    case 2:
      args->scale = NAN;
      break;
    case 3:
      args->corner = (attune_corner)0;
      break;
    case 4:
      args->softcap = (float)ONE_OF(0, -1, 30);
      break;
    case 5:
      args->len_k = -1;
      break;
    case 6:
      args->len_q = 1 << 28, args->batch = 1 << 20;
      break;
    default:
      args->batch = 1 << 29;
  }
}

/* A feature's argument where it is not wanted, or none where it is. */
static void spoil_feature(attune_attn_args *args) {
  switch (pick(5)) {
    case 0:
      args->bias = args->bias ? NULL : fake_address(0x80000);
      break;
    case 1:
      args->bitmask = args->bitmask ? NULL : fake_address(0xa0000);
      break;
    case 2:
      args->alibi_slopes = args->alibi_slopes ? NULL : fake_address(0x70000);
      break;
    case 3:
      args->sinks = args->sinks ? NULL : fake_address(0x90000);
      break;
    default:
      args->total_q = 7;
  }
}

static void spoil(attune_attn_args *args) {
  static void (*const ways[])(attune_attn_args *) = {spoil_tensor, spoil_number, spoil_feature};
  ways[pick(3)](args);
}

static attune_problem problem_of(const char *variant, const attune_attn_args *args) {
  attune_problem p = fake_problem(variant);
  p.features = variant_of(variant).features;
  p.batch = args->batch, p.heads_q = args->heads_q, p.heads_kv = args->heads_kv;
  p.len_q = args->len_q, p.len_k = args->len_k;
  return p;
}

static void expect_equal_launch(const alone *a, const fake_log *log, const char *variant) {
  const recording *r = a->driver;
  int last = (atomic_load(&log->launches) - 1) % FAKE_LAUNCHES;
  ck_assert_str_eq(r->kernel, log->launch[last].kernel);
  ck_assert_uint_eq(r->grid, log->launch[last].config.grid);
  ck_assert_uint_eq(r->threads, log->launch[last].config.threads);
  ck_assert_uint_eq(r->smem_bytes, log->launch[last].config.smem_bytes);
  ck_assert_ptr_eq(r->stream, log->launch[last].stream);
  ck_assert_uint_eq(log->launch[last].param_bytes, r->block_bytes);
  const unsigned char *expected = (const unsigned char *)&log->launch[last].params;
  for (size_t i = 0; i < r->block_bytes; i++)
    if (r->block[i] != expected[i]) ck_abort_msg("%s: byte %zu of the block differs", variant, i);
}

/* The same call both ways: the same refusal, or the same launch. */
static int compare(const alone *a, attune_context *context, fake_log *log, const char *variant,
                   const attune_attn_args *args) {
  attune_variant v = variant_of(variant);
  attune_problem problem = problem_of(variant, args);
  alone_problem alone_one = alone_problem_of(&v);
  attune_params_attn_fwd params = params_of(a, args);
  void *stream = fake_address(0x5000);
  int before = atomic_load(&log->launches), alone_before = a->driver->launches;
  attune_program *program;
  attune_status expected = attune_prepare(context, &problem, &program);
  if (!expected) expected = attune_launch(program, args, stream);
  int status = a->attend(&alone_one, &params, stream);
  int launches = atomic_load(&log->launches) - before;
  ck_assert_msg(status == (int)expected, "%s: standalone %d (%s), runtime %d (%s)", variant, status,
                a->error(), (int)expected, attune_error());
  ck_assert_msg(a->driver->launches - alone_before == launches, "%s: launches differ", variant);
  if (launches) expect_equal_launch(a, log, variant);
  return launches;
}

START_TEST(launches_equal_the_runtimes) {
  enum { TRIALS = 4000 };
  alone a = open_alone();
  fake_log log = {0};
  attune_context *context = fake_open("sm_86", NULL, &log);
  ck_assert_int_eq(attune_open_set(context, a.folder), ATTUNE_OK);
  a.driver->cc = 86;
  int launched = 0, refused = 0;
  for (int trial = 0; trial < TRIALS; trial++) {
    const char *variant = rows[pick(COUNT(rows) - 1)].variant; /* sm_90a does not run here */
    attune_variant v = variant_of(variant);
    attune_attn_args args = good_args(&v);
    launched += compare(&a, context, &log, variant, &args);
    spoil(&args);
    int launches = compare(&a, context, &log, variant, &args);
    launched += launches, refused += !launches;
  }
  ck_assert_int_gt(launched, TRIALS / 2);
  ck_assert_int_gt(refused, TRIALS / 4);
  ck_assert_int_eq(a.driver->capture_mode, 0); /* given back */
  ck_assert_int_lt(a.driver->loads, COUNT(rows));
  attune_close(context);
  close_alone(&a);
}
END_TEST

#define SAYS(call, code, text)                                                                     \
  do {                                                                                             \
    ck_assert_int_eq(call, (int)(code));                                                           \
    ck_assert_msg(strstr(a.error(), text) != NULL, "%s", a.error());                               \
  } while (0)

START_TEST(the_device_decides) {
  alone a = open_alone();
  attune_variant v = variant_of(FWD);
  seed = 7;
  attune_attn_args args = good_args(&v);
  args.batch = 1, args.len_q = args.len_k = 100;
  attune_params_attn_fwd params = params_of(&a, &args), other;
  alone_problem problem = {.head_dim_qk = 64,
                           .dtype_q = ATTUNE_DTYPE_FP16}; /* the rest is implied */
  ck_assert_int_eq(a.attend(&problem, &params, NULL), 0);
  ck_assert_str_eq(a.driver->kernel, FWD "__fma_m64n64");
  a.driver->cc = 90;
  ck_assert_int_eq(a.attend(&problem, &params, NULL), 0);
  ck_assert_str_eq(a.driver->kernel, "attn_fwd_sm90a_fp16_d64__fma_m64n64");
  problem.mask = ATTUNE_MASK_CAUSAL;
  SAYS(a.attend(&problem, &params, NULL), ATTUNE_NOT_FOUND, "compute capability 9.0");
  SAYS(a.attend(&problem, &params, NULL), ATTUNE_NOT_FOUND, "sm_80, sm_86, sm_90a");
  a.driver->cc = 80, a.driver->no_context = 1;
  SAYS(a.attend(&problem, &params, NULL), ATTUNE_NO_DEVICE, "no CUDA context is current");
  a.driver->no_context = 0, a.driver->smem = 512;
  SAYS(a.attend(&problem, &params, NULL), ATTUNE_NOT_FOUND, "needs 1024 bytes of shared memory");
  a.driver->smem = 0, a.driver->launch_result = 700;
  SAYS(a.attend(&problem, &params, NULL), ATTUNE_DRIVER, "CUDA error 700: a made-up error");
  a.driver->launch_result = 0;
  int attributes = a.driver->attributes;
  ck_assert_int_eq(a.attend(&problem, &params, NULL), 0);
  ck_assert_int_eq(a.driver->attributes, attributes); /* loaded before: it only launches */
  a.driver->device = 1; /* another device of the same kind: its limits are its own */
  ck_assert_int_eq(a.attend(&problem, &params, NULL), 0);
  ck_assert_int_eq(a.driver->attributes, attributes + 1);
  SAYS(a.attend(NULL, &params, NULL), ATTUNE_INVALID, "problem is NULL");
  SAYS(a.attend(&problem, NULL, NULL), ATTUNE_INVALID, "params is NULL");
  other = params, other.abi++;
  SAYS(a.attend(&problem, &other, NULL), ATTUNE_INVALID, "mine_params_init");
  other = params, other.size = 0;
  SAYS(a.attend(&problem, &other, NULL), ATTUNE_INVALID, "mine_params_init");
  other = params, other.scale = a.init().scale;
  SAYS(a.attend(&problem, &other, NULL), ATTUNE_INVALID, "scale is not set");
  problem.group = 0x80000000u;
  SAYS(a.attend(&problem, &params, NULL), ATTUNE_NOT_FOUND, "group 2147483648");
  a.driver->load_result = 209;
  a.driver->cc = 86;
  SAYS(a.load(), ATTUNE_DRIVER, "loading attn_fwd_sm");
  a.driver->load_result = 0;
  ck_assert_int_eq(a.load(), 0);
  ck_assert_int_gt(a.driver->loads, 14);
  close_alone(&a);
}
END_TEST

/* ---- the examples ------------------------------------------------------------------------------
 */

START_TEST(the_examples_run) {
  char folder[64];
  scratch_make(folder);
  must(folder, "$B/examples/embedded cpu");
  ck_assert_ptr_nonnull(strstr(output, "embedded attn_fwd on the CPU as sm_80: max|err| "));
  must(folder, "ldd $B/examples/standalone");
  ck_assert_ptr_null(strstr(output, "cuda"));
  ck_assert_ptr_null(strstr(output, "attune"));
  must(folder, "$B/examples/standalone");
  int on_gpu = strstr(output, "standalone attn_fwd on ") != NULL;
  printf("the standalone example %s\n", on_gpu ? "computed on a GPU"
                                               : "found no GPU: its argument "
                                                 "checks ran");
  if (!on_gpu) ck_assert_ptr_nonnull(strstr(output, "no GPU here; its arguments were checked"));
  if (!on_gpu) ck_assert_int_eq(shell(folder, "$B/examples/standalone cuda"), 1);
  scratch_remove(folder);
}
END_TEST

START_TEST(words_of_the_program) {
  char folder[64];
  scratch_make(folder);
  must(folder, "$B/attune embed $B/examples/kernels.pack -o $S/a.c --header $S/a.h --json");
  ck_assert_ptr_nonnull(strstr(output, "\"kernels\": 5"));
  must(folder, "$B/attune embed $B/examples/kernels.pack --ptx -o $S/b.c");
  must(folder, "[ $(wc -c <$S/a.c) -lt $(wc -c <$S/b.c) ] && grep -q attune_embedded_open $S/a.h");
  must(folder, "LC_ALL=C $B/attune embed $B/examples/kernels.pack --standalone -o $S/c.c && "
               "LC_ALL=de_DE.UTF-8 $B/attune embed $B/examples/kernels.pack --standalone -o $S/d.c "
               "&& cmp $S/c.c $S/d.c");
  ck_assert_int_eq(shell(folder, "$B/attune embed $B/examples/kernels.pack"), 2);
  ck_assert_int_eq(shell(folder, "$B/attune embed $S/a.h --ptx --standalone -o $S/x.c"), 2);
  ck_assert_int_eq(shell(folder, "$B/attune embed $B/examples/kernels.pack -o $S/no/x.c"), 3);
  scratch_remove(folder);
}
END_TEST

TEST_MAIN("embed", they_compile_without_a_warning, equal_sets_give_equal_text,
          what_is_not_dispatched_is_refused_by_name, launches_equal_the_runtimes,
          the_device_decides, the_examples_run, words_of_the_program)
