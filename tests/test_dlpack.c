/* test_dlpack.c - the DLPack adapter: layouts, strides, offsets and what else a DLTensor can say
 * arrive in the problem and the arguments; every wrong tensor is refused by name and writes
 * nothing; a launch from DLTensors computes what plain loops do. Needs NVRTC. */
#include "../gen/jit.h"
#include "../runtime/attune_cpu.h"
#include "../runtime/attune_dlpack.h"
#include "test.h"

#include <math.h>

enum { BATCH = 2, LEN_Q = 5, LEN_K = 7, HEADS = 4, HEADS_KV = 2, DIM = 32 };

/* A tensor and the arrays that it points to. */
typedef struct made {
  DLTensor t;
  int64_t shape[4], strides[4];
} made;

static _Alignas(256) char memory[1 << 16]; /* where tensors point when nothing is computed */

/* fp32, dense, on the CPU; 0 ends the shape. */
static made *dense(made *m, void *data, int64_t a, int64_t b, int64_t c, int64_t d) {
  const int64_t shape[4] = {a, b, c, d};
  memset(m, 0, sizeof *m);
  m->t.data = data, m->t.device.device_type = kDLCPU;
  m->t.dtype.code = kDLFloat, m->t.dtype.bits = 32, m->t.dtype.lanes = 1;
  m->t.shape = m->shape;
  while (m->t.ndim < 4 && shape[m->t.ndim]) {
    m->shape[m->t.ndim] = shape[m->t.ndim];
    m->t.ndim++;
  }
  return m;
}

static made *typed(made *m, int code, int bits) {
  m->t.dtype.code = (uint8_t)code, m->t.dtype.bits = (uint8_t)bits;
  return m;
}

static made *strided(made *m, int64_t a, int64_t b, int64_t c, int64_t d) {
  const int64_t strides[4] = {a, b, c, d};
  memcpy(m->strides, strides, sizeof strides);
  m->t.strides = m->strides;
  return m;
}

/* The call that all tests begin with. */
static made q, k, v, o, extra, second;
static attune_dlpack call;
static attune_problem problem;
static attune_attn_args args;

static void begin(void) {
  memset(&call, 0, sizeof call);
  call.layout = ATTUNE_DLPACK_BSHD, call.device.device_type = kDLCPU;
  call.q = &dense(&q, memory, BATCH, LEN_Q, HEADS, DIM)->t;
  call.k = &dense(&k, memory, BATCH, LEN_K, HEADS_KV, DIM)->t;
  call.v = &dense(&v, memory, BATCH, LEN_K, HEADS_KV, DIM)->t;
  call.o = &dense(&o, memory, BATCH, LEN_Q, HEADS, DIM)->t;
  problem = attune_problem_init();
  args = attune_attn_args_init();
}

static void packed(void) {
  begin();
  call.layout = ATTUNE_DLPACK_THD;
  dense(&q, memory, 12, HEADS, DIM, 0), dense(&k, memory, 20, HEADS_KV, DIM, 0);
  dense(&v, memory, 20, HEADS_KV, DIM, 0), dense(&o, memory, 12, HEADS, DIM, 0);
  call.cu_seqlens_q = &typed(dense(&extra, memory, 4, 0, 0, 0), kDLInt, 32)->t;
  call.cu_seqlens_k = &typed(dense(&second, memory + 64, 4, 0, 0, 0), kDLInt, 32)->t;
}

static void must(void) {
  ck_assert_msg(attune_dlpack_call(&call, &problem, &args) == ATTUNE_OK, "%s", attune_error());
}

static void refused(const char *words) {
  attune_problem problem_before = problem;
  attune_attn_args args_before = args;
  ck_assert_int_eq(attune_dlpack_call(&call, &problem, &args), ATTUNE_INVALID);
  ck_assert_msg(strstr(attune_error(), words) != NULL, "'%s' is not in: %s", words, attune_error());
  ck_assert_int_eq(memcmp(&problem, &problem_before, sizeof problem), 0);
  ck_assert_int_eq(memcmp(&args, &args_before, sizeof args), 0);
}

#define REFUSED(words, ...)                                                                        \
  do {                                                                                             \
    begin();                                                                                       \
    __VA_ARGS__;                                                                                   \
    refused(words);                                                                                \
  } while (0)

START_TEST(what_tensors_say_arrives) {
  begin();
  must();
  ck_assert_int_eq(problem.dtype_q, ATTUNE_DTYPE_FP32);
  ck_assert_int_eq(problem.dtype_kv, ATTUNE_DTYPE_FP32);
  ck_assert_int_eq(problem.dtype_out, ATTUNE_DTYPE_FP32);
  ck_assert_int_eq(problem.align, ATTUNE_ALIGN_16B);
  ck_assert_int_eq(problem.head_dim_qk, DIM);
  ck_assert_int_eq(problem.head_dim_v, DIM);
  ck_assert_int_eq(problem.heads_kv, HEADS_KV);
  ck_assert_int_eq(args.batch, BATCH);
  ck_assert_int_eq(args.heads_q, HEADS);
  ck_assert_int_eq(args.len_q, LEN_Q);
  ck_assert_int_eq(problem.len_k, LEN_K);
  ck_assert_int_eq(args.q.stride_batch, LEN_Q * HEADS * DIM);
  ck_assert_int_eq(args.k.stride_seq, HEADS_KV * DIM);
  ck_assert_int_eq(args.v.stride_head, DIM);
  ck_assert_uint_eq(problem.features, 0);
  ck_assert_ptr_null(args.lse);
}
END_TEST

START_TEST(layout_bhsd) {
  begin();
  call.layout = ATTUNE_DLPACK_BHSD;
  dense(&q, memory, BATCH, HEADS, LEN_Q, DIM), dense(&k, memory, BATCH, HEADS_KV, LEN_K, DIM);
  dense(&v, memory, BATCH, HEADS_KV, LEN_K, 64), dense(&o, memory, BATCH, HEADS, LEN_Q, 64);
  must();
  ck_assert_int_eq(args.len_k, LEN_K);
  ck_assert_int_eq(args.heads_kv, HEADS_KV);
  ck_assert_int_eq(problem.head_dim_v, 64);
  ck_assert_int_eq(args.v.stride_seq, 64);
  ck_assert_int_eq(args.v.stride_head, LEN_K * 64);
}
END_TEST

START_TEST(layout_packed) {
  packed();
  call.lse = &dense(&v, memory, HEADS, 12, 0, 0)->t;
  made values = *dense(&k, memory, 20, HEADS_KV, DIM, 0);
  values.t.shape = values.shape;
  call.v = &values.t;
  must();
  ck_assert_int_eq(args.batch, 3);
  ck_assert_int_eq(args.total_q, 12);
  ck_assert_int_eq(args.total_k, 20);
  ck_assert_int_eq(problem.len_q, 12);
  ck_assert_int_eq(args.q.stride_seq, HEADS * DIM);
  ck_assert_int_eq(args.lse_stride_head, 12);
  ck_assert_int_eq(args.lse_stride_seq, 1);
  ck_assert_ptr_eq((const void *)args.cu_seqlens_k, (void *)(memory + 64));
  ck_assert_uint_eq(problem.features, ATTUNE_FEATURE_VARLEN);

  packed();
  call.cu_seqlens_k = NULL;
  refused("cu_seqlens_k");
  packed();
  second.shape[0] = 5;
  refused("cu_seqlens_k has extent 5");
  packed();
  typed(&extra, kDLInt, 64);
  refused("cu_seqlens_q has DLPack type code 0 of 64 bits");
  REFUSED("cu_seqlens", call.cu_seqlens_q = &typed(dense(&extra, memory, 3, 0, 0, 0), 0, 32)->t);
}
END_TEST

START_TEST(strides_and_offsets) {
  begin();
  strided(&q, 4096, 4, 512, 1); /* a view in no usual order */
  q.t.byte_offset = 64;
  strided(&v, 0, 64, 0, 1); /* one sequence and one head for all */
  must();
  ck_assert_ptr_eq(args.q.data, memory + 64);
  ck_assert_int_eq(args.q.stride_batch, 4096);
  ck_assert_int_eq(args.q.stride_seq, 4);
  ck_assert_int_eq(args.q.stride_head, 512);
  ck_assert_int_eq(args.v.stride_batch, 0);
  ck_assert_int_eq(problem.align, ATTUNE_ALIGN_16B);
}
END_TEST

START_TEST(alignment_is_found) {
  begin();
  k.t.byte_offset = 4; /* an address of 4 more than a multiple of 16 */
  must();
  ck_assert_int_eq(problem.align, ATTUNE_ALIGN_ELEM);
  begin();
  strided(&o, 4096, 129, 32, 1); /* rows of 516 bytes */
  must();
  ck_assert_int_eq(problem.align, ATTUNE_ALIGN_ELEM);
  begin();
  strided(&q, 7, 128, 32, 1); /* a stride that one sequence never takes */
  q.shape[0] = k.shape[0] = v.shape[0] = o.shape[0] = 1;
  must();
  ck_assert_int_eq(problem.align, ATTUNE_ALIGN_16B);
  begin();
  q.shape[3] = k.shape[3] = 30;
  must();
  ck_assert_int_eq(problem.align, ATTUNE_ALIGN_ELEM);
}
END_TEST

START_TEST(types) {
  begin();
  typed(&q, kDLBfloat, 16), typed(&k, kDLFloat, 16), typed(&v, kDLFloat, 16);
  must();
  ck_assert_int_eq(problem.dtype_q, ATTUNE_DTYPE_BF16);
  ck_assert_int_eq(problem.dtype_kv, ATTUNE_DTYPE_FP16);
  ck_assert_int_eq(problem.dtype_out, ATTUNE_DTYPE_FP32);
  REFUSED("q has DLPack type code 2 of 64 bits", typed(&q, kDLFloat, 64));
  REFUSED("o has DLPack type code 0 of 32 bits", typed(&o, kDLInt, 32));
  REFUSED("k and v have different types", typed(&v, kDLFloat, 16));
  REFUSED("k has elements of 4 lanes", k.t.dtype.lanes = 4);
  REFUSED("v has elements of 0 lanes", v.t.dtype.lanes = 0);
}
END_TEST

START_TEST(devices) {
  static const DLDevice first = {kDLCUDA, 0}, second_gpu = {kDLCUDA, 1}, pinned = {kDLCUDAHost, 0},
                        managed = {kDLCUDAManaged, 1};
  REFUSED("q is on DLPack device type 2, id 0", q.t.device = first);
  begin();
  call.device = q.t.device = k.t.device = v.t.device = second_gpu;
  refused("o is on DLPack device type 1, id 0; the call is for type 2, id 1");
  o.t.device = first;
  refused("o is on DLPack device type 2, id 0");
  o.t.device = managed, k.t.device = pinned;
  must();
  REFUSED("v is on DLPack device type 3", v.t.device = pinned); /* not for the CPU device */
}
END_TEST

START_TEST(shapes) {
  REFUSED("q is NULL", call.q = NULL);
  REFUSED("layout is 7", call.layout = (attune_dlpack_layout)7);
  REFUSED("o has 3 dimensions, the layout has 4", o.t.ndim = 3);
  REFUSED("k has 4 dimensions and no shape", k.t.shape = NULL);
  REFUSED("batch of v is 3 and of k 2", v.shape[0] = 3);
  REFUSED("sequence length of o is 6 and of q 5", o.shape[1] = 6);
  REFUSED("number of heads of v is 1 and of k 2", v.shape[2] = 1);
  REFUSED("dim of k is 64 and of q 32", k.shape[3] = 64);
  REFUSED("k has stride 2 in its last dimension", strided(&k, 1024, 128, 64, 2));
  REFUSED("q has extent -1", q.shape[1] = -1);
  REFUSED("q has extent 4294967296", q.shape[1] = INT64_C(1) << 32);
  ck_assert_int_eq(attune_dlpack_call(NULL, &problem, &args), ATTUNE_INVALID);
  begin();
  k.shape[1] = v.shape[1] = 0, k.t.data = v.t.data = NULL; /* no keys: legal */
  must();
  ck_assert_ptr_null(args.k.data);
}
END_TEST

START_TEST(features) {
  begin();
  call.bias = &dense(&extra, memory, HEADS, 1, LEN_K, 0)->t;
  must();
  ck_assert_uint_eq(problem.features, ATTUNE_FEATURE_BIAS);
  ck_assert_int_eq(args.bias_stride_batch, 0);
  ck_assert_int_eq(args.bias_stride_head, LEN_K);
  ck_assert_int_eq(args.bias_stride_q, 0);
  ck_assert_int_eq(args.bias_stride_k, 1);
  extra.shape[1] = 3;
  begin(), call.bias = &extra.t;
  refused("bias has extent 3 in dimension 2 of 4, must be 5");
  typed(dense(&extra, memory, LEN_K, 0, 0, 0), kDLFloat, 16);
  refused("bias has DLPack type");

  begin();
  call.alibi_slopes = &dense(&extra, memory, BATCH, HEADS, 0, 0)->t;
  call.sinks = &dense(&second, memory, HEADS, 0, 0, 0)->t;
  must();
  ck_assert_uint_eq(problem.features, ATTUNE_FEATURE_ALIBI | ATTUNE_FEATURE_SINK);
  ck_assert_int_eq(args.alibi_stride_batch, HEADS);
  dense(&extra, memory, HEADS, 0, 0, 0);
  must();
  ck_assert_int_eq(args.alibi_stride_batch, 0);
  second.shape[0] = 3;
  begin(), call.sinks = &second.t;
  refused("sinks has extent 3");

  begin();
  call.bitmask = &typed(dense(&extra, memory, LEN_Q, 1, 0, 0), kDLUInt, 32)->t;
  call.bitmask_classes = &typed(dense(&second, memory, HEADS, 1, 1, 0), kDLUInt, 8)->t;
  must();
  ck_assert_uint_eq(problem.features, ATTUNE_FEATURE_BITMASK);
  ck_assert_int_eq(args.bitmask_stride_head, 0);
  ck_assert_int_eq(args.bitmask_stride_q, 1);
  ck_assert_int_eq(args.bitmask_classes_stride_head, 1);
  begin(), call.bitmask_classes = &second.t;
  refused("bitmask_classes without bitmask");
}
END_TEST

START_TEST(lengths_and_lse) {
  begin();
  call.seqused_k = &typed(dense(&extra, memory, BATCH, 0, 0, 0), kDLInt, 32)->t;
  call.lse = &dense(&second, memory, BATCH, HEADS, LEN_Q, 0)->t;
  must();
  ck_assert_ptr_eq((const void *)args.seqused_k, (void *)memory);
  ck_assert_ptr_null(args.seqused_q);
  ck_assert_int_eq(args.lse_stride_batch, HEADS * LEN_Q);
  ck_assert_int_eq(args.lse_stride_head, LEN_Q);
  begin();
  call.lse = &dense(&second, memory, BATCH, LEN_Q, HEADS, 0)->t;
  refused("lse has extent 5 in dimension 1 of 3, must be 4");
  begin();
  call.seqused_q = &extra.t, extra.t.device.device_type = kDLCUDA;
  refused("seqused_q is on DLPack device type 2");
}
END_TEST

/* ---- a launch -------------------------------------------------------------------------------- */

static float data[4][BATCH * LEN_K * HEADS * DIM];

/* Element d of row i: head h of sequence b, BHSD. */
static double plain(int b, int h, int i, int d) {
  double sum = 0, out = 0;
  for (int j = 0; j < LEN_K; j++) {
    const float *query = data[0] + ((b * HEADS + h) * LEN_Q + i) * DIM;
    int row = ((b * HEADS_KV + h / (HEADS / HEADS_KV)) * LEN_K + j) * DIM;
    double score = 0;
    for (int c = 0; c < DIM; c++) score += (double)query[c] * (double)data[1][row + c];
    double weight = exp(score / sqrt(DIM));
    sum += weight, out += weight * (double)data[2][row + d];
  }
  return out / sum;
}

START_TEST(a_launch_computes) {
  attune_cpu_options device = attune_cpu_options_init();
  attune_jit_options jit_options = attune_jit_options_init();
  attune_context *context;
  attune_jit *jit;
  device.arch = "sm_80", jit_options.store = "";
  ck_assert_int_eq(attune_cpu_open(&device, &context), ATTUNE_OK);
  ck_assert_int_eq(attune_jit_install(context, &jit_options, &jit), ATTUNE_OK);
  for (size_t t = 0; t < 3; t++)
    for (size_t e = 0; e < sizeof data[t] / sizeof *data[t]; e++)
      data[t][e] = (float)((e * 37 + t * 11) % 101) / 50 - 1;
  begin();
  call.layout = ATTUNE_DLPACK_BHSD;
  dense(&q, data[0], BATCH, HEADS, LEN_Q, DIM), dense(&k, data[1], BATCH, HEADS_KV, LEN_K, DIM);
  dense(&v, data[2], BATCH, HEADS_KV, LEN_K, DIM), dense(&o, data[3], BATCH, HEADS, LEN_Q, DIM);
  problem.op = ATTUNE_OP_ATTN_FWD, args.flags = ATTUNE_DEFAULT_SCALE;
  must();
  attune_status status = attune_launch_problem(context, &problem, &args, NULL);
  ck_assert_msg(status == ATTUNE_OK, "%s", attune_error());
  double worst = 0;
  for (int b = 0; b < BATCH; b++)
    for (int h = 0; h < HEADS; h++)
      for (int i = 0; i < LEN_Q; i++)
        for (int d = 0; d < DIM; d++)
          worst = fmax(worst, fabs((double)data[3][((b * HEADS + h) * LEN_Q + i) * DIM + d] -
                                   plain(b, h, i, d)));
  ck_assert_msg(worst < 1e-5, "max|err| %g", worst);
  attune_close(context);
  attune_jit_close(jit);
}
END_TEST

TEST_MAIN("dlpack", what_tensors_say_arrives, layout_bhsd, layout_packed, strides_and_offsets,
          alignment_is_found, types, devices, shapes, features, lengths_and_lse, a_launch_computes)
