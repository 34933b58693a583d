/* test_conformance.c - the CPU device against what an H200 computed (tests/conformance/golden/):
 * each case bit for bit, in the hardware-sum mode; approximations within the bounds that PTX
 * states. */
#include "../gen/nvrtc.h"
#include "../runtime/cpu/engine.h"
#include "../runtime/cpu/narrow.h"
#include "../runtime/cpu/tensormap_bytes.h"
#include "conformance.h"
#include "test.h"

#include <math.h>

enum { TENSOR_IN, TENSOR_OUT, TENSORS };

/* PTX of a case's file, compiled when the file changes. */
static const char *ptx_of(const conformance_case *c, size_t *bytes) {
  static const char *file;
  static char *ptx;
  static size_t size;
  if (!file || strcmp(file, c->file) != 0) {
    free(ptx);
    char *source = conformance_source(c);
    ck_assert_ptr_nonnull(source);
    attune_status status = attune__nvrtc_ptx(source, c->kernel, attune__arch(90, 'a'), &ptx, &size);
    ck_assert_msg(!status, "%s: %s", c->file, attune_error());
    free(source);
    file = c->file;
  }
  *bytes = size;
  return ptx;
}

static void encode(const conformance_map *m, uint64_t base, uint64_t out[16]) {
  static const attune__map_type types[] = {ATTUNE__MAP_U8, ATTUNE__MAP_F32, ATTUNE__MAP_F16,
                                           ATTUNE__MAP_BF16};
  attune__tensormap map = {.type = types[m->type], .rank = m->rank, .base = base};
  map.swizzle = m->swizzle == 128  ? ATTUNE__SWIZZLE_128
                : m->swizzle == 64 ? ATTUNE__SWIZZLE_64
                : m->swizzle == 32 ? ATTUNE__SWIZZLE_32
                                   : ATTUNE__SWIZZLE_NONE;
  for (uint32_t k = 0; k < m->rank; k++)
    map.extent[k] = m->dim[k], map.box[k] = m->box[k], map.stride[k] = m->stride[k];
  ck_assert_msg(!attune__tensormap_encode(&map, (unsigned char *)out), "%s", attune_error());
}

static attune__tensor words(const char *name, uint32_t *data, uint32_t count) {
  return (attune__tensor){.name = name,
                          .kind = ATTUNE__TENSOR_READ | ATTUNE__TENSOR_WRITE,
                          .base = (unsigned char *)data,
                          .element_bytes = 1,
                          .extent = {1, 1, 1, 4 * (int64_t)count},
                          .stride = {0, 0, 0, 1}};
}

static void run(const conformance_case *c, attune_cpu_sums sums, uint32_t *out) {
  size_t bytes;
  attune__ptx *program;
  attune__gmem *gmem;
  conformance_params params = {.a = c->a, .b = c->b};
  uint32_t *in = conformance_input(c);
  const char *ptx = ptx_of(c, &bytes);
  ck_assert_msg(!attune__ptx_parse(ptx, bytes, c->kernel, &program), "%s", attune_error());
  attune__tensor tensor[TENSORS] = {words("in", in, conformance_in_words(c)),
                                    words("out", out, c->out_words)};
  ck_assert_int_eq(attune__gmem_make(tensor, TENSORS, 1, &gmem), ATTUNE_OK);
  params.in = attune__gmem_pointer(gmem, TENSOR_IN);
  params.out = attune__gmem_pointer(gmem, TENSOR_OUT);
  if (c->map) encode(c->map, c->map->of_output ? params.out : params.in, params.map);
  attune__cpu_launch launch = {
      .program = program,
      .kernel = c->kernel,
      .params = (const unsigned char *)&params,
      .grid = c->grid,
      .threads = c->threads,
      .smem_bytes = c->smem_bytes,
      .cluster = c->cluster ? c->cluster : 1,
      .gmem = gmem,
      .options = {
          .size = sizeof(attune_cpu_options), .arch = "sm_90a", .sums = sums, .threads = 1}};
  ck_assert_msg(!attune__cpu_run(&launch, NULL), "%s: %s", c->name, attune_error());
  attune__gmem_free(gmem);
  attune__ptx_free(program);
  free(in);
}

/* ---- comparison --------------------------------------------------------------------------------
 */

static double value(conformance_type type, uint32_t word, int half) {
  uint32_t bits = half ? word >> 16 : word & 0xffff;
  if (type == TYPE_F16) return attune__f32(half_to_float(bits));
  if (type == TYPE_BF16) return attune__f32(bf16_to_float(bits));
  return attune__f32(word);
}

static int close(double a, double b, const conformance_case *c) {
  if (a == b || (a != a && b != b)) return 1;
  return fabs(a - b) <= c->relative * fabs(b) + c->absolute;
}

static int is_nan(uint32_t x) {
  return (x & 0x7fffffff) > 0x7f800000;
}

static int same(const conformance_case *c, uint32_t a, uint32_t b) {
  if (c->any_nan && is_nan(a) && is_nan(b)) return 1;
  if (c->relative == 0 && c->absolute == 0) return a == b;
  for (int half = 0; half < (c->result == TYPE_F32 ? 1 : 2); half++)
    if (!close(value(c->result, a, half), value(c->result, b, half), c)) return 0;
  return 1;
}

static int read_golden(const conformance_case *c, uint32_t *to) {
  char path[256];
  snprintf(path, sizeof path, "tests/conformance/golden/%s.bin", c->name);
  FILE *f = fopen(path, "rb");
  if (!f) return 0;
  size_t count = fread(to, 4, c->out_words + 1, f);
  fclose(f);
  return count == c->out_words;
}

/* Words that differ; prints the first. */
static uint32_t differences(const conformance_case *c, const uint32_t *out,
                            const uint32_t *golden) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < c->out_words; i++) {
    if (same(c, out[i], golden[i])) continue;
    if (!count++)
      printf("%s: word %u is 0x%08x, an H200 has 0x%08x\n", c->name, i, out[i], golden[i]);
  }
  if (count) printf("%s: %u of %u words differ\n", c->name, count, c->out_words);
  return count;
}

START_TEST(as_recorded) {
  uint32_t wrong = 0;
  for (size_t k = 0; k < conformance_count; k++) {
    const conformance_case *c = &conformance_cases[k];
    uint32_t *out = calloc(c->out_words + 1, sizeof *out);
    uint32_t *golden = calloc(c->out_words + 1, sizeof *golden);
    ck_assert(out && golden);
    run(c, ATTUNE_CPU_SUMS_HARDWARE, out);
    ck_assert_msg(read_golden(c, golden), "%s: no golden file of %u words", c->name, c->out_words);
    wrong += differences(c, out, golden) > 0;
    free(out);
    free(golden);
  }
  ck_assert_msg(wrong == 0, "%u cases differ from an H200", wrong);
}
END_TEST

/* Plain sums of the cases whose numbers are of like size: 32 products below 256 and a sum below 16.
 * f16 sums and wgmma's 8-bit ones keep fewer bits on the GPU. */
static double plain_bound(const conformance_case *c) {
  int half = strstr(c->name, "half") != NULL;
  int narrow = strstr(c->name, "e4m3") || strstr(c->name, "e5m2");
  return 8192 * (half ? 0x1p-10 : narrow ? 0x1p-12 : 0x1p-20);
}

static int is_plain(const conformance_case *c) {
  return c->fill.type != TYPE_RAW && c->fill.spread == 3 && strstr(c->file, "mma.cu");
}

START_TEST(plain_sums_are_near) {
  uint32_t cases = 0;
  for (size_t k = 0; k < conformance_count; k++) {
    const conformance_case *c = &conformance_cases[k];
    if (!is_plain(c)) continue;
    uint32_t *out = calloc(c->out_words + 1, sizeof *out);
    uint32_t *golden = calloc(c->out_words + 1, sizeof *golden);
    ck_assert(out && golden && read_golden(c, golden));
    conformance_case near = *c;
    near.result = strstr(c->name, "half") ? TYPE_F16 : TYPE_F32;
    near.absolute = plain_bound(c);
    run(c, ATTUNE_CPU_SUMS_FLOAT, out);
    ck_assert_uint_eq(differences(&near, out, golden), 0);
    free(out);
    free(golden);
    cases++;
  }
  ck_assert_uint_eq(cases, 38);
}
END_TEST

TEST_MAIN("conformance", as_recorded, plain_sums_are_near)
