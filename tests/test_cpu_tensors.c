/* test_cpu_tensors.c - what kernels may do to the tensors of each feature on the CPU device: bounds
 * of what they read, and which rows of O and LSE must be written or must not. Each kernel is a list
 * of accesses, written in PTX here; it goes through attune_launch as every kernel does. */
#include "../gen/verify.h"
#include "../runtime/attune_cpu.h"
#include "../runtime/context.h"
#include "test.h"

enum { DIM = 4, HEADS = 2, PTX_MAX = 1 << 16, FLOATS = 4096 };

/* ---- kernels of accesses ------------------------------------------------------------------------
 */

/* 4 bytes, or 1, at a byte behind the pointer that stands at `pointer` in the block. */
typedef struct access {
  size_t pointer;
  int64_t byte;
  int store, bytes;
} access;

typedef struct script {
  char ptx[PTX_MAX];
  size_t used;
} script;

#define PUT(s, ...)                                                                                \
  ((s)->used += (size_t)snprintf((s)->ptx + (s)->used, sizeof(s)->ptx - (s)->used, __VA_ARGS__))

/* The first thread of the grid alone goes on. */
static void begin(script *s, const char *name) {
  s->used = 0;
  PUT(s,
      ".version 9.0\n.target sm_80\n.address_size 64\n.visible .entry %s(\n"
      ".param .align 8 .b8 p[%zu])\n{\n.reg .pred %%q; .reg .b32 %%r<4>; .reg .b64 %%d<4>;\n"
      "mov.u32 %%r1, %%tid.x; mov.u32 %%r2, %%ctaid.x; or.b32 %%r1, %%r1, %%r2;\n"
      "setp.ne.s32 %%q, %%r1, 0; @%%q bra DONE;\n",
      name, sizeof(attune_params_attn_fwd));
}

static void put_access(script *s, const access *a) {
  PUT(s, "ld.param.u64 %%d1, [p+%zu]; add.s64 %%d1, %%d1, %lld;\n", a->pointer, (long long)a->byte);
  if (a->store)
    PUT(s, "mov.u32 %%r3, 0; st.global.u32 [%%d1], %%r3;\n");
  else
    PUT(s, "ld.global.%s %%r3, [%%d1];\n", a->bytes == 1 ? "u8" : "u32");
}

static void finish(script *s) {
  PUT(s, "DONE: ret;\n}\n");
  ck_assert_uint_lt(s->used, sizeof s->ptx);
}

static void must(attune_status status) {
  ck_assert_msg(status == ATTUNE_OK, "%s", attune_error());
}

static attune_entry entry_of(const char *variant, const script *s) {
  attune_entry entry = {0};
  int has_tile, is_program;
  snprintf(entry.name, sizeof entry.name, "%s__fma_m64n64", variant);
  snprintf(entry.compiler, sizeof entry.compiler, "test");
  must(attune__name_parse(entry.name, &entry.variant, &entry.tile, &has_tile, &is_program));
  int packed = (entry.variant.features & ATTUNE_FEATURE_VARLEN) != 0;
  entry.recipe = (attune_recipe){.abi = ATTUNE_ABI,
                                 .param_bytes = sizeof(attune_params_attn_fwd),
                                 .threads = 32,
                                 .grid = packed ? ATTUNE_GRID_VARLEN_TILES : ATTUNE_GRID_Q_TILES,
                                 .block_m = 64,
                                 .block_n = 64,
                                 .cluster = 1};
  entry.payload[ATTUNE_PAYLOAD_PTX].data = s->ptx;
  entry.payload[ATTUNE_PAYLOAD_PTX].bytes = s->used;
  return entry;
}

/* Launches the script as a kernel of the variant. */
static attune_status run(const char *variant, const script *s, const attune_attn_args *args,
                         attune_cpu_counters *counters) {
  attune_cpu_options options = attune_cpu_options_init();
  attune_context *context;
  attune_program *program;
  attune_entry entry = entry_of(variant, s);
  void *bytes;
  size_t size;
  options.arch = "sm_80", options.threads = 1;
  must(attune_cpu_open(&options, &context));
  must(attune__entry_write(&entry, &bytes, &size));
  must(attune__verify_open(context, &entry.variant, NULL, (const void *const *)&bytes, &size, 1,
                           &program));
  attune_status status = attune_launch(program, args, NULL);
  if (counters) must(attune_cpu_count(context, 0, counters));
  free(bytes);
  attune_close(context);
  return status;
}

/* ---- arguments ----------------------------------------------------------------------------------
 */

static float q[FLOATS], k[FLOATS], v[FLOATS], o[FLOATS], lse[FLOATS], bias[FLOATS], slopes[8],
    sinks[HEADS];
static uint32_t bits[FLOATS];
static uint8_t classes[64];
static int32_t used_q[3], used_k[3], cu_q[4], cu_k[4];

/* 3 sequences of 5 queries and 70 keys, 2 heads of dim 4. */
static attune_attn_args some_args(void) {
  attune_attn_args a = attune_attn_args_init();
  a.batch = 3, a.heads_q = a.heads_kv = HEADS, a.len_q = 5, a.len_k = 70;
  a.q = attune_bshd(q, 5, HEADS, DIM), a.o = attune_bshd(o, 5, HEADS, DIM);
  a.k = attune_bshd(k, 70, HEADS, DIM), a.v = attune_bshd(v, 70, HEADS, DIM);
  a.scale = 1, a.corner = ATTUNE_CORNER_TOP_LEFT;
  return a;
}

/* 3 sequences of 2, 0 and 4 queries, 70, 3 and 0 keys; one row of Q more. */
static attune_attn_args packed_args(void) {
  static const int32_t lengths_q[] = {0, 2, 2, 6}, lengths_k[] = {0, 70, 73, 73};
  attune_attn_args a = some_args();
  memcpy(cu_q, lengths_q, sizeof cu_q), memcpy(cu_k, lengths_k, sizeof cu_k);
  a.cu_seqlens_q = cu_q, a.cu_seqlens_k = cu_k;
  a.total_q = 7, a.total_k = 73;
  a.len_q = a.len_k = 0;
  return a;
}

#define AT(field) offsetof(attune_params_attn_fwd, field)

/* Stores of rows [first, first + count) of O, dense, all heads. */
static void store_rows(script *s, int first, int count) {
  for (int e = first * HEADS * DIM; e < (first + count) * HEADS * DIM; e++) {
    access a = {AT(o), 4 * e, 1, 4};
    put_access(s, &a);
  }
}

static void expect(attune_status status, const char *words) {
  if (!words) ck_assert_msg(status == ATTUNE_OK, "%s", attune_error());
  if (!words) return;
  ck_assert_msg(status == ATTUNE_MISMATCH, "not found: %s", words);
  ck_assert_msg(strstr(attune_error(), words) != NULL, "'%s' lacks '%s'", attune_error(), words);
}

/* ---- rows in use --------------------------------------------------------------------------------
 */

static const char PLAIN[] = "attn_fwd_sm80_fp32_d4", VARLEN[] = "attn_fwd_sm80_fp32_d4_varlen";

static script the_script;

/* Of sequences of 5 rows, `count[b]` rows each are written. */
static void expect_rows(const int count[3], const int32_t *seqused, const char *words) {
  attune_attn_args a = some_args();
  if (seqused) memcpy(used_q, seqused, sizeof used_q), a.seqused_q = used_q;
  begin(&the_script, "attn_fwd_sm80_fp32_d4__fma_m64n64");
  for (int b = 0; b < 3; b++) store_rows(&the_script, 5 * b, count[b]);
  finish(&the_script);
  expect(run(PLAIN, &the_script, &a, NULL), words);
}

START_TEST(only_rows_in_use_are_written) {
  static const int all[] = {5, 5, 5}, some[] = {3, 0, 5}, short_one[] = {5, 5, 4};
  static const int one_less[] = {2, 0, 5}, one_more[] = {3, 1, 5};
  static const int32_t used[] = {3, 0, 5}, beyond[] = {3, -7, 99};
  expect_rows(all, NULL, NULL);
  expect_rows(short_one, NULL, "o[2, 4, 0, 0] was never written");
  expect_rows(some, used, NULL);
  expect_rows(some, beyond, NULL); /* as kernels do: 0 .. the sequence's */
  expect_rows(one_less, used, "o[0, 2, 0, 0] was never written");
  expect_rows(one_more, used, "writes o[1, 0, 0, 0], a row that is of no sequence or behind");
  expect_rows(all, used, "writes o[0, 3, 0, 0], a row that is of no sequence or behind");
}
END_TEST

/* Of 7 packed rows those of [first, first + count), [again, again + more) are written. */
static void expect_packed(int first, int count, int again, int more, const int32_t *seqused,
                          const char *words) {
  attune_attn_args a = packed_args();
  if (seqused) memcpy(used_q, seqused, sizeof used_q), a.seqused_q = used_q;
  begin(&the_script, "attn_fwd_sm80_fp32_d4_varlen__fma_m64n64");
  store_rows(&the_script, first, count), store_rows(&the_script, again, more);
  finish(&the_script);
  expect(run(VARLEN, &the_script, &a, NULL), words);
}

START_TEST(only_rows_of_a_sequence_are_written) {
  static const int32_t used[] = {1, 0, 3};
  expect_packed(0, 6, 0, 0, NULL, NULL);
  expect_packed(0, 7, 0, 0, NULL, "writes o[0, 6, 0, 0], a row that is of no sequence");
  expect_packed(0, 5, 0, 0, NULL, "o[0, 5, 0, 0] was never written");
  expect_packed(0, 6, 1, 1, NULL, "writes o[0, 1, 0, 0], which was written before");
  expect_packed(0, 1, 2, 3, used, NULL);
  expect_packed(0, 1, 2, 2, used, "o[0, 4, 0, 0] was never written");
  expect_packed(0, 2, 2, 3, used, "writes o[0, 1, 0, 0], a row that is");
  expect_packed(0, 8, 0, 0, NULL, "a row that is of no sequence");
}
END_TEST

/* LSE [head, row], apart from O: the same rows. */
START_TEST(lse_follows_the_same_rows) {
  static const int32_t used[] = {1, 0, 3};
  for (int wrong = 0; wrong < 3; wrong++) {
    attune_attn_args a = packed_args();
    memcpy(used_q, used, sizeof used_q), a.seqused_q = used_q;
    a.lse = lse, a.lse_stride_head = 7, a.lse_stride_seq = 1;
    begin(&the_script, "attn_fwd_sm80_fp32_d4_varlen__fma_m64n64");
    store_rows(&the_script, 0, 1), store_rows(&the_script, 2, 3);
    for (int h = 0; h < HEADS; h++)
      for (int i = 0; i < 5; i++) {
        access at = {AT(lse), 4 * (7 * h + i), 1, 4};
        if (i == 1 && !(wrong == 1 && h == 1)) continue;
        if (wrong == 2 && i == 4 && h == 1) continue;
        put_access(&the_script, &at);
      }
    finish(&the_script);
    expect(run(VARLEN, &the_script, &a, NULL), wrong == 0   ? NULL
                                               : wrong == 1 ? "writes lse[0, 1, 1, 0], a row"
                                                            : "lse[0, 4, 1, 0] was never written");
  }
}
END_TEST

/* ---- bounds of inputs ---------------------------------------------------------------------------
 */

static const char ALL[] = "attn_fwd_sm80_fp32_d4_alibi_bias_sink_bitmask",
                  PACKED[] = "attn_fwd_sm80_fp32_d4_alibi_bias_sink_bitmask_varlen";

/* Bias [3, 2, 5, 70], bits [3, 2, 5, 3 words], classes [3, 2, 1, 2]. */
static void add_features(attune_attn_args *a) {
  a->alibi_slopes = slopes, a->alibi_stride_batch = 2;
  a->bias = bias, a->bias_stride_k = 1, a->bias_stride_q = 70;
  a->bias_stride_head = 5 * 70, a->bias_stride_batch = HEADS * 5 * 70;
  a->sinks = sinks;
  a->bitmask = bits, a->bitmask_stride_q = 3;
  a->bitmask_stride_head = 15, a->bitmask_stride_batch = 30;
  a->bitmask_classes = classes, a->bitmask_classes_stride_q = 2;
  a->bitmask_classes_stride_head = 2, a->bitmask_classes_stride_batch = 4;
  a->seqused_q = used_q, a->seqused_k = used_k;
  used_q[0] = used_q[1] = used_q[2] = 0, used_k[0] = used_k[1] = used_k[2] = 70;
}

/* One access of a kernel that has nothing to write. */
static void expect_access(const char *variant, const attune_attn_args *args, access at,
                          const char *words) {
  char name[ATTUNE_NAME_MAX];
  snprintf(name, sizeof name, "%s__fma_m64n64", variant);
  begin(&the_script, name);
  put_access(&the_script, &at);
  finish(&the_script);
  expect(run(variant, &the_script, args, NULL), words);
}

/* The last element can be read, the one behind it and a store can't. */
static void expect_bounds(const char *variant, const attune_attn_args *args, size_t pointer,
                          int64_t count, int bytes, const char *tensor) {
  char words[64];
  expect_access(variant, args, (access){pointer, 0, 0, bytes}, NULL);
  expect_access(variant, args, (access){pointer, (count - 1) * bytes, 0, bytes}, NULL);
  snprintf(words, sizeof words, "of %s are no elements of it", tensor);
  expect_access(variant, args, (access){pointer, count * bytes, 0, bytes}, words);
  expect_access(variant, args, (access){pointer, -bytes, 0, bytes}, words);
  if (bytes < 4) return; /* no kernel stores bytes: the device knows no st.global.u8 */
  snprintf(words, sizeof words, "stores to %s[", tensor);
  expect_access(variant, args, (access){pointer, 0, 1, bytes}, words);
}

START_TEST(inputs_have_bounds) {
  attune_attn_args a = some_args();
  add_features(&a);
  expect_bounds(ALL, &a, AT(bias), 3 * HEADS * 5 * 70, 4, "bias");
  expect_bounds(ALL, &a, AT(alibi_slopes), 3 * HEADS, 4, "alibi_slopes");
  expect_bounds(ALL, &a, AT(sinks), HEADS, 4, "sinks");
  expect_bounds(ALL, &a, AT(bitmask), 3 * HEADS * 5 * 3, 4, "bitmask");
  expect_bounds(ALL, &a, AT(bitmask_classes), 3 * HEADS * 2, 1, "bitmask_classes");
  expect_bounds(ALL, &a, AT(seqused_q), 3, 4, "seqused_q");
  expect_bounds(ALL, &a, AT(seqused_k), 3, 4, "seqused_k");
  a.alibi_stride_batch = 0; /* the same for all sequences */
  expect_bounds(ALL, &a, AT(alibi_slopes), HEADS, 4, "alibi_slopes");
  expect_access(ALL, &a, (access){AT(cu_seqlens_q), 0, 0, 4}, "belongs to no tensor");
}
END_TEST

/* Packed, the pairs are those of the longest sequence: 4 queries and 70 keys, whatever len_q says.
 */
START_TEST(packed_inputs_have_bounds) {
  attune_attn_args a = packed_args();
  add_features(&a);
  expect_bounds(PACKED, &a, AT(cu_seqlens_q), 4, 4, "cu_seqlens_q");
  expect_bounds(PACKED, &a, AT(cu_seqlens_k), 4, 4, "cu_seqlens_k");
  expect_bounds(PACKED, &a, AT(q), 7 * HEADS * DIM, 4, "q");
  expect_bounds(PACKED, &a, AT(k), 73 * HEADS * DIM, 4, "k");
  expect_bounds(PACKED, &a, AT(v), 73 * HEADS * DIM, 4, "v");
  int64_t rest = 2 * HEADS * 5 * 70 + 5 * 70; /* to the last sequence and head */
  expect_bounds(PACKED, &a, AT(bias), rest + 4 * 70, 4, "bias");
  expect_bounds(PACKED, &a, AT(bitmask), 2 * 30 + 15 + 4 * 3, 4, "bitmask");
}
END_TEST

/* Every stride of a bias may be 0, and that of keys any other: then what lies between is none. */
START_TEST(a_bias_has_any_strides) {
  attune_attn_args a = some_args();
  add_features(&a);
  a.bias_stride_batch = a.bias_stride_head = a.bias_stride_q = 0;
  expect_bounds(ALL, &a, AT(bias), 70, 4, "bias");
  a.bias_stride_k = 3;
  expect_access(ALL, &a, (access){AT(bias), 69 * 3 * 4, 0, 4}, NULL);
  expect_access(ALL, &a, (access){AT(bias), 4 * 4, 0, 4}, "4 bytes at byte 16 of bias are no");
  expect_access(ALL, &a, (access){AT(bias), 70 * 3 * 4, 0, 4}, "of bias are no elements of it");
  a.bias_stride_k = 5, a.bias_stride_q = 1; /* keys outside, queries inside */
  expect_bounds(ALL, &a, AT(bias), 5 * 70, 4, "bias");
  a.bias_stride_k = 0, a.bias_stride_q = 1; /* one number a row */
  expect_bounds(ALL, &a, AT(bias), 5, 4, "bias");
  a.bias_stride_q = 0;
  expect_bounds(ALL, &a, AT(bias), 1, 4, "bias");
  a.bias_stride_k = -1;
  script *s = &the_script;
  ck_assert_int_eq(run(ALL, s, &a, NULL), ATTUNE_INVALID);
  ck_assert_ptr_nonnull(strstr(attune_error(), "bias has a negative extent or stride"));
}
END_TEST

/* Bytes are counted by tensor: requested each time, compulsory once. */
START_TEST(bytes_of_features_are_counted) {
  attune_attn_args a = some_args();
  attune_cpu_counters counted = attune_cpu_counters_init();
  add_features(&a);
  a.bias_stride_batch = a.bias_stride_head = a.bias_stride_q = 0, a.bias_stride_k = 2;
  begin(&the_script, "attn_fwd_sm80_fp32_d4_alibi_bias_sink_bitmask__fma_m64n64");
  for (int i = 0; i < 12; i++) {
    access at = {AT(bias), 8 * (i % 4), 0, 4};
    put_access(&the_script, &at);
  }
  finish(&the_script);
  must(run(ALL, &the_script, &a, &counted));
  int found = 0;
  for (int t = 0; t < counted.tensors; t++) {
    const attune_cpu_tensor *c = &counted.tensor[t];
    if (strcmp(c->name, "bias") == 0) {
      ck_assert_uint_eq(c->requested_read, 48);
      ck_assert_uint_eq(c->compulsory_read, 16);
      found = 1;
    } else {
      ck_assert_uint_eq(c->requested_read + c->requested_write, 0);
    }
  }
  ck_assert_int_eq(found, 1);
}
END_TEST

TEST_MAIN("cpu_tensors", only_rows_in_use_are_written, only_rows_of_a_sequence_are_written,
          lse_follows_the_same_rows, inputs_have_bounds, packed_inputs_have_bounds,
          a_bias_has_any_strides, bytes_of_features_are_counted)
