/* test_expand.c - requests made by hand, as a spec would, to kernels and rows. */
#include "test.h"

#include "../gen/expand.h"

#include <unistd.h>

static attune_request ask(int op, int dtype, int d, int mask, uint32_t budget, int line) {
  attune_request r;
  memset(&r, 0, sizeof r);
  r.variant.op = (uint8_t)op, r.variant.arch = attune__arch_parse("sm_80");
  r.variant.dtype_q = r.variant.dtype_kv = r.variant.dtype_out = (uint8_t)dtype;
  r.variant.head_dim_qk = r.variant.head_dim_v = (uint16_t)d;
  r.variant.mask = (uint8_t)mask, r.variant.align = ATTUNE_ALIGN_16B, r.variant.group = 1;
  r.budget = budget, r.line = line;
  return r;
}

static attune_request ask_forward(int d, uint32_t budget, int line) {
  return ask(ATTUNE_OP_ATTN_FWD, ATTUNE_DTYPE_FP16, d, ATTUNE_MASK_CAUSAL, budget, line);
}

static attune_status expand(attune_request *requests, int count, attune_job *job,
                            attune__text *errors) {
  attune_spec spec = {.path = NULL, .requests = requests, .count = count};
  *errors = (attune__text){0};
  return attune__expand(&spec, job, errors);
}

static void check_sorted(const attune_job *job) {
  for (int i = 1; i < job->kernel_count; i++)
    ck_assert_int_lt(strcmp(job->kernels[i - 1].name, job->kernels[i].name), 0);
  for (int i = 0; i < job->row_count; i++)
    for (int part = 0; part < job->rows[i].kernel_count; part++) {
      int k = job->rows[i].kernel[part];
      ck_assert(k >= 0 && k < job->kernel_count);
      attune_variant v = job->rows[i].variant;
      v.part = (uint8_t)part;
      ck_assert_mem_eq(&job->kernels[k].variant, &v, sizeof v);
    }
}

START_TEST(kernels_are_unique_and_sorted) {
  attune_request r[] = {ask_forward(64, 0, 1), ask_forward(128, 0, 2), ask_forward(64, 0, 3),
                        ask_forward(32, 0, 4)};
  attune_job job;
  attune__text errors;
  ck_assert_int_eq(expand(r, 4, &job, &errors), ATTUNE_OK);
  ck_assert_int_eq(job.kernel_count, 3);
  ck_assert_int_eq(job.row_count, 3);
  ck_assert_ptr_null(errors.data);
  check_sorted(&job);
  ck_assert_int_eq(job.rows[0].variant.head_dim_qk, 128); /* names sort as text */
  ck_assert_int_eq(job.rows[0].cls, ATTUNE_CLASS_ANY);
  attune__job_free(&job);
}
END_TEST

START_TEST(the_largest_budget_gets_the_row) {
  for (int order = 0; order < 2; order++) {
    uint32_t budgets[] = {24 * 1024, 160 * 1024};
    attune_request r[] = {ask_forward(128, budgets[order], 1),
                          ask_forward(128, budgets[1 - order], 2)};
    attune_job job;
    attune__text errors;
    ck_assert_int_eq(expand(r, 2, &job, &errors), ATTUNE_OK);
    ck_assert_int_eq(job.kernel_count, 2);
    ck_assert_int_eq(job.row_count, 1);
    check_sorted(&job);
    ck_assert_uint_gt(job.kernels[job.rows[0].kernel[0]].ledger.bytes, budgets[0]);
    attune__job_free(&job);
  }
}
END_TEST

START_TEST(all_that_the_device_has_is_the_largest_budget) {
  attune_request r[] = {ask_forward(128, 0, 1), ask_forward(128, 20 * 1024, 2)};
  attune_job job;
  attune__text errors;
  ck_assert_int_eq(expand(r, 2, &job, &errors), ATTUNE_OK);
  ck_assert_uint_gt(job.kernels[job.rows[0].kernel[0]].ledger.bytes, 20 * 1024);
  attune__job_free(&job);
}
END_TEST

START_TEST(a_program_has_its_parts_in_order) {
  attune_request r = ask(ATTUNE_OP_ATTN_STANDARD, ATTUNE_DTYPE_FP32, 64, ATTUNE_MASK_NONE, 0, 1);
  r.corner = ATTUNE_CORNER_BOTTOM_RIGHT;
  attune_job job;
  attune__text errors;
  ck_assert_int_eq(expand(&r, 1, &job, &errors), ATTUNE_OK);
  ck_assert_int_eq(job.kernel_count, 3);
  ck_assert_int_eq(job.row_count, 1);
  ck_assert_int_eq(job.rows[0].kernel_count, 3);
  ck_assert_int_eq(job.rows[0].corner, ATTUNE_CORNER_BOTTOM_RIGHT);
  check_sorted(&job);
  ck_assert_str_eq(job.kernels[job.rows[0].kernel[1]].template_path, "attn_standard/softmax.cu");
  attune__job_free(&job);

  attune_kernel kernels[ATTUNE_MAX_PARTS];
  int count = 0;
  ck_assert_int_eq(attune__expand_request(&r, ATTUNE_CLASS_ANY, 0, kernels, &count), ATTUNE_OK);
  ck_assert_int_eq(count, 3);
  for (int part = 0; part < 3; part++) ck_assert_int_eq(kernels[part].variant.part, part);
}
END_TEST

START_TEST(tile_pins_are_kept) {
  attune_request r[] = {ask_forward(64, 0, 1), ask_forward(64, 0, 1)};
  for (int i = 0; i < 2; i++) {
    r[i].tile.fixed = 1u << ATTUNE__TILE_block_m | 1u << ATTUNE__TILE_block_n;
    r[i].tile.tile.block_m = i ? 64 : 16, r[i].tile.tile.block_n = 64;
  }
  attune_job job;
  attune__text errors;
  ck_assert_int_eq(expand(r, 2, &job, &errors), ATTUNE_OK);
  ck_assert_int_eq(job.kernel_count, 2);
  ck_assert_int_eq(job.row_count, 1);
  for (int i = 0; i < 2; i++) {
    ck_assert_int_eq(job.kernels[i].tile.block_n, 64);
    ck_assert_int_eq(job.kernels[i].tile.block_m, i ? 64 : 16); /* m16 before m64 */
  }
  ck_assert_int_eq(job.rows[0].kernel[0], 1); /* the faster one by the model */
  attune__job_free(&job);
}
END_TEST

/* The spec of a data sheet is its kernel's, also where no model lists the tile. */
START_TEST(the_sheets_spec_gives_the_kernel) {
  static const char *const names[] = {
      "attn_fwd_sm80_fp32_d64_causal__fma_m64n16w8",
      "attn_fwd_sm90a_bf16_d64__mma_m32n64s4",
      "attn_fwd_sm90a_bf16_d128_causal__wgmma_m128n128s2w12q1o1z1g1",
      "attn_fwd_sm90a_bf16_d64__short_m128n128s2w12o1t1c2",
      "attn_fwd_sm90a_bf16_d64_causal__middle_m64n128k64s4w16z1",
      "attn_fwd_sm90a_bf16_d64_window__middle_m64n64k64s8w16c2"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    attune_variant variant;
    attune_tile tile;
    int has_tile, is_program;
    attune_spec_options options = {0};
    attune_spec spec = {0};
    attune_job job = {0};
    attune__text line = {0}, errors = {0};
    ck_assert_int_eq(attune__name_parse(names[i], &variant, &tile, &has_tile, &is_program),
                     ATTUNE_OK);
    attune__spec_line(&variant, NULL, &tile, &line);
    ck_assert_int_eq(attune__spec_read("sheet", line.data, line.size, &options, &spec, &errors),
                     ATTUNE_OK);
    attune_status status = attune__expand(&spec, &job, &errors);
    ck_assert_msg(status == ATTUNE_OK, "%s: %s", names[i], errors.data);
    ck_assert_int_eq(job.kernel_count, 1);
    ck_assert_str_eq(job.kernels[0].name, names[i]);
    attune__job_free(&job), attune__spec_free(&spec);
    attune__text_free(&line), attune__text_free(&errors);
  }
}
END_TEST

/* Planned for the keys that are pinned, and no tile that takes fewer than are asked for. */
START_TEST(pinned_lengths_are_planned_for) {
  attune_request r = ask(ATTUNE_OP_ATTN_FWD, ATTUNE_DTYPE_BF16, 64, ATTUNE_MASK_NONE, 0, 1);
  attune_kernel any, pinned, many, more;
  int count;
  r.variant.arch = attune__arch_parse("sm_90a");
  ck_assert_int_eq(attune__expand_request(&r, ATTUNE_CLASS_ANY, 0, &any, &count), ATTUNE_OK);
  ck_assert_uint_ne(any.tile.block_n, 80);
  attune__pinset_add(&r.pins, "len_k", 77);
  r.variant.pins = attune__pinset_digest(&r.pins);
  attune_job job;
  attune__text errors;
  ck_assert_int_eq(expand(&r, 1, &job, &errors), ATTUNE_OK);
  pinned = job.kernels[0];
  ck_assert_uint_eq(pinned.tile.block_n, 80);
  attune__job_free(&job);
  const attune_class cls = ATTUNE_CLASS_MEDIUM_MANY;
  ck_assert_int_eq(attune__expand_request(&r, cls, 0, &many, &count), ATTUNE_OK);
  ck_assert_int_eq(attune__tile_max_len_k(&many.tile), 80);
  ck_assert_int_eq(attune__expand_request(&r, cls, 80, &more, &count), ATTUNE_OK);
  ck_assert_mem_eq(&more.tile, &many.tile, sizeof more.tile);
  ck_assert_int_eq(attune__expand_request(&r, cls, 81, &more, &count), ATTUNE_OK);
  ck_assert_int_ne(attune__tile_max_len_k(&more.tile), 80);
}
END_TEST

START_TEST(what_fits_nowhere_is_said_at_its_line) {
  attune_request r[] = {ask_forward(64, 0, 1), ask_forward(128, 8192, 7),
                        ask_forward(256, 8192, 9)};
  attune_job job;
  attune__text errors;
  ck_assert_int_eq(expand(r, 3, &job, &errors), ATTUNE_NO_FIT);
  ck_assert_int_eq(job.kernel_count, 0);
  ck_assert_ptr_null(job.kernels);
  const char *first =
      strstr(errors.data, "spec:7:1: error: no tile of attn_fwd_sm80_fp16_d128_causal");
  const char *second =
      strstr(errors.data, "spec:9:1: error: no tile of attn_fwd_sm80_fp16_d256_causal");
  ck_assert_ptr_eq(first, errors.data);
  ck_assert_ptr_nonnull(second);
  ck_assert_ptr_nonnull(strstr(attune_error(), "2 of its requests cannot be planned"));
  attune__text_free(&errors);
}
END_TEST

/* With a file behind it, the line is shown. */
START_TEST(the_line_of_the_spec_is_shown) {
  char path[] = "build/expand-XXXXXX";
  int file = mkstemp(path);
  ck_assert_int_ge(file, 0);
  ck_assert_int_eq(write(file, "version: 1\nop: attn_fwd\n", 24), 24);
  close(file);
  attune_request r = ask_forward(128, 8192, 2);
  attune_spec spec = {.path = path, .requests = &r, .count = 1};
  attune_job job;
  attune__text errors = {0};
  ck_assert_int_eq(attune__expand(&spec, &job, &errors), ATTUNE_NO_FIT);
  ck_assert_ptr_nonnull(strstr(errors.data, "\n  op: attn_fwd\n  ^\n"));
  attune__text_free(&errors);
  unlink(path);
}
END_TEST

/* The row says why a slower family serves it; a family or tile that was asked for is no fallback,
 * nor is work that no faster family is made for. */
START_TEST(a_fallback_is_kept_with_its_reason) {
  attune_request r[4] = {ask_forward(64, 0, 1), ask_forward(64, 0, 2), ask_forward(64, 0, 3),
                         ask(ATTUNE_OP_ATTN_FWD, ATTUNE_DTYPE_FP32, 64, 1, 0, 4)};
  r[0].variant.align = ATTUNE_ALIGN_ELEM;
  r[1].variant.align = ATTUNE_ALIGN_ELEM, r[1].variant.head_dim_qk = 72;
  r[1].family = ATTUNE_FAMILY_FMA;
  attune_job job;
  attune__text errors;
  ck_assert_int_eq(expand(r, 4, &job, &errors), ATTUNE_OK);
  ck_assert_int_eq(job.row_count, 4);
  for (int i = 0; i < 4; i++) {
    const attune_variant *v = &job.rows[i].variant;
    int fallback = v->align == ATTUNE_ALIGN_ELEM && v->head_dim_qk == 64;
    ck_assert_str_eq(job.rows[i].fallback,
                     fallback ? "align elem with family mma: rows are copied 16 bytes at a time; "
                                "family fma loads elements"
                              : "");
  }
  attune__job_free(&job);
}
END_TEST

START_TEST(an_unknown_kernel_is_refused) {
  attune_request r = ask_forward(12, 0, 3);
  attune_job job;
  attune__text errors;
  ck_assert_int_eq(expand(&r, 1, &job, &errors), ATTUNE_UNSUPPORTED);
  ck_assert_str_eq(
      errors.data,
      "spec:3:1: error: head_dim_qk 12: with align 16b rows are multiples of 8 elements; "
      "align elem has any other\n");
  attune__text_free(&errors);
}
END_TEST

START_TEST(an_empty_spec_is_an_empty_job) {
  attune_job job;
  attune__text errors;
  ck_assert_int_eq(expand(NULL, 0, &job, &errors), ATTUNE_OK);
  ck_assert_int_eq(job.kernel_count + job.row_count, 0);
  attune__job_free(&job);
}
END_TEST

TEST_MAIN("expand", kernels_are_unique_and_sorted, the_largest_budget_gets_the_row,
          all_that_the_device_has_is_the_largest_budget, a_program_has_its_parts_in_order,
          tile_pins_are_kept, the_sheets_spec_gives_the_kernel, pinned_lengths_are_planned_for,
          what_fits_nowhere_is_said_at_its_line, the_line_of_the_spec_is_shown,
          a_fallback_is_kept_with_its_reason, an_unknown_kernel_is_refused,
          an_empty_spec_is_an_empty_job)
