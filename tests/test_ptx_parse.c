/* test_ptx_parse.c - the CPU device's reader of PTX: what it understands, what it refuses and how
 * it says so, and that no text makes it fall. */
#include "../runtime/cpu/ptx.h"
#include "test.h"

enum { TEXT_MAX = 1 << 14 };

/* A kernel "k" around a body. The body begins on line 8. */
static const char *module_of(const char *body) {
  static char text[TEXT_MAX];
  snprintf(text, sizeof text,
           ".version 9.0\n.target sm_90a\n.address_size 64\n.file 1 \"/attune/templates/a/b.cu\"\n"
           ".extern .shared .align 16 .b8 smem[];\n"
           ".visible .entry k(.param .align 8 .b8 k_param_0[64]) .maxntid 128, 1, 1\n{\n%s\n}\n",
           body);
  return text;
}

static attune__ptx *parsed(const char *text) {
  attune__ptx *p;
  attune_status status = attune__ptx_parse(text, strlen(text), "k", &p);
  ck_assert_msg(status == ATTUNE_OK, "%s", attune_error());
  return p;
}

/* ---- what is understood -----------------------------------------------------------------------
 */

static const char all_kinds[] = ".reg .pred %p<4>;\n"
                                ".reg .b16 %rs<4>;\n"
                                ".reg .b32 %r<8>;\n"
                                ".reg .f32 %f<8>;\n"
                                ".reg .b64 %rd<8>;\n"
                                "// a comment; with a semicolon\n"
                                "/* and one\n over two lines */ mov.u32 %r1, %tid.x;\n"
                                "ld.param.u64 %rd1, [k_param_0+8];\n"
                                "mov.b64 %rd2, k_param_0;\n"
                                "ld.param.v2.u32 {%r2, %r3}, [%rd2+-0];\n"
                                "mov.u32 %r4, smem;\n"
                                "ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r4+16];\n"
                                "st.shared.f32 [smem+4], 0f3F800000;\n"
                                "setp.lt.s32 %p1, %r1, -5;\n"
                                "@!%p1 bra $L1;\n"
                                "{ .reg .b32 t; mov.b32 t, 0x7; add.s32 %r5, t, %r1; }\n"
                                "$L1: shfl.sync.bfly.b32 %r6|%p2, %r5, 16, 31, -1;\n"
                                "cvt.u64.u32 %rd3, %r6; add.s64 %rd4, %rd1, %rd3;\n"
                                "st.global.u16 [%rd4], %rs1;\n"
                                "ret;";

START_TEST(kinds_of_operands) {
  attune__ptx *p = parsed(module_of(all_kinds));
  ck_assert_uint_eq(p->param_bytes, 64);
  ck_assert_uint_eq(p->threads, 128);
  ck_assert_uint_eq(p->count, 17); /* 16 and the ret that ends every kernel */
  ck_assert_uint_eq(p->granule, 4);
  ck_assert_str_eq(p->ins[1].opcode->name, "ld.param.u64");
  ck_assert_int_eq(p->ins[1].operand[1].offset, 8);
  ck_assert_uint_eq(p->ins[5].operands, 5);
  ck_assert_int_eq(p->ins[5].operand[4].offset, 16);
  ck_assert_uint_eq(p->ins[8].negate, UINT32_MAX);
  ck_assert_int_eq(p->ins[8].target, 11);
  ck_assert_uint_gt(p->special[ATTUNE__SPECIAL_TID_X], 0);
  ck_assert_uint_eq(p->special[ATTUNE__SPECIAL_CTAID_X], 0);
  attune__ptx_free(p);
}
END_TEST

/* Bytes that the narrowest access to shared memory needs told apart. */
START_TEST(granules) {
  attune__ptx *p = parsed(module_of(".reg .b16 %h<2>; st.shared.u16 [smem], %h1; ret;"));
  ck_assert_uint_eq(p->granule, 2);
  attune__ptx_free(p);
  p = parsed(module_of(".reg .b16 %h<2>; st.shared.u8 [smem], %h1; ret;"));
  ck_assert_uint_eq(p->granule, 1);
  attune__ptx_free(p);
}
END_TEST

START_TEST(shared_variables) {
  attune__ptx *p = parsed(".shared .align 4 .b8 a[6];\n.shared .align 16 .f32 b[2][3];\n"
                          ".extern .shared .align 16 .b8 c[];\n"
                          ".entry k(.param .align 8 .b8 q[8]) { .reg .b32 %r<3>;\n"
                          "mov.u32 %r0, a; mov.u32 %r1, b; mov.u32 %r2, c; ret; }");
  ck_assert_uint_eq(p->static_smem, 48);
  uint64_t want[] = {1024, 1040, 1072};
  for (uint32_t k = 0; k < 3; k++) ck_assert_uint_eq(p->constant[k].value, want[k]);
  attune__ptx_free(p);
}
END_TEST

/* The chain of calls that a line was inlined through ends at the kernel's own line. */
START_TEST(lines_of_inlined_code) {
  attune__ptx *p = parsed(
      module_of(".reg .b32 %r<4>;\n.loc 1 10 3\nmov.b32 %r1, 1;\n"
                ".loc 2 20 5, function_name $L__info_string0, inlined_at 1 10 3\nmov.b32 %r1, 2;\n"
                ".loc 3 30 7, function_name $L__info_string1, inlined_at 2 20 5\nmov.b32 %r1, 3;\n"
                ".loc 1 11 3\nret;\n}\n.file 2 \"/attune/templates/prim/c.cuh\"\n"
                ".file 3 \"/attune/d.cu\"\n.section .debug_str\n{\n.b8 1,2,0\n"));
  static const char *const want[] = {"a/b.cu:10", "a/b.cu:10 (in prim/c.cuh:20)",
                                     "a/b.cu:10 (in d.cu:30)", "a/b.cu:11"};
  for (uint32_t k = 0; k < 4; k++) {
    char where[128];
    attune__ptx_where(p, p->ins[k].place, where, sizeof where);
    ck_assert_str_eq(where, want[k]);
  }
  attune__ptx_free(p);
}
END_TEST

/* Others of the module are passed over, whatever is in them. */
START_TEST(one_kernel_of_several) {
  attune__ptx *p = parsed(".global .align 4 .u32 kBlockM = 64;\n"
                          ".func (.param .b32 r) f(.param .b32 a) { call nobody; }\n"
                          ".entry other(.param .b64 x, .param .b64 y) { odd.opcode {}; }\n"
                          ".entry k(.param .align 8 .b8 q[8]) { ret; }\n"
                          ".entry more(.param .b64 x) { odd.opcode; }\n");
  ck_assert_uint_eq(p->count, 2);
  attune__ptx_free(p);
}
END_TEST

/* ---- what is refused --------------------------------------------------------------------------
 */

#define REGISTERS ".reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<4>; .reg .b64 %d<4>;\n"

/* body, and what the message says behind "k.ptx:" */
static const struct {
  const char *body, *message;
} refused[] = {
    /* opcodes: whole, with every modifier */
    {REGISTERS "frobnicate.u32 %r1, %r2;", "9: opcode frobnicate.u32: not known"},
    {REGISTERS "add.s32x %r1, %r2, %r3;", "9: opcode add.s32x: not known"},
    {REGISTERS "add.sat.s32 %r1, %r2, %r3;", "9: opcode add.sat.s32: not known"},
    {REGISTERS "\n\nfma.rz.f32 %r1, %r2, %r3, %r1;", "11: opcode fma.rz.f32: not known"},
    {REGISTERS "ld.local.u32 %r1, [%d1];", "9: opcode ld.local.u32: not known"},
    {REGISTERS "call.uni f, (%r1);", "9: opcode call.uni: not known"},
    /* operands: kind and width */
    {REGISTERS "add.s32 %r1, %r2, %d1;", "9: opcode add.s32: not known to the CPU device with"},
    {REGISTERS "add.s32 %d1, %r2, %r1;", "9: opcode add.s32: not known to the CPU device with"},
    {REGISTERS "add.s32 %r1, %r2;", "9: opcode add.s32: not known to the CPU device with"},
    {REGISTERS "add.s32 %r1, %r2, %r3, %r1;", "9: opcode add.s32: not known to the CPU device"},
    {REGISTERS "add.s32 5, %r2, %r3;", "9: opcode add.s32: not known to the CPU device with"},
    {REGISTERS "add.s32 %r1, %r2, 4294967296;", "9: opcode add.s32: not known to the CPU device"},
    {REGISTERS "xor.b32 %p1, %p2, %p3;", "9: opcode xor.b32: not known to the CPU device with"},
    {REGISTERS "xor.pred %r1, %p2, %p3;", "9: opcode xor.pred: not known to the CPU device with"},
    {REGISTERS "add.s32 %r1, %r2, %h1;", "9: opcode add.s32: not known to the CPU device with"},
    {REGISTERS "ld.global.u32 %r1, [%r2];", "9: opcode ld.global.u32: not known to the CPU"},
    {REGISTERS "ld.global.u32 %r1, %d2;", "9: opcode ld.global.u32: not known to the CPU device"},
    {REGISTERS "ld.global.v2.u32 %r1, [%d2];", "9: opcode ld.global.v2.u32: not known to the CPU"},
    {REGISTERS "st.global.u32 [%d1+4294967296], %r1;", "9: opcode st.global.u32: not known to the"},
    {REGISTERS "selp.b32 %r1, %r2, %r3, 1;", "9: opcode selp.b32: not known to the CPU device"},
    {REGISTERS "mov.u32 %tid.x, %r1;", "9: opcode mov.u32: not known to the CPU device"},
    {REGISTERS "mov.u32 %r1, %clock;", "9: opcode mov.u32: operand %clock: not known to the"},
    {REGISTERS "add.s32 %r1, %r2, %r4;", "9: opcode add.s32: operand %r4: not known to the CPU"},
    {REGISTERS "mov.u32 %r1, %r01;", "9: opcode mov.u32: operand %r01: not known"},
    {REGISTERS "mov.u32 %r1, kBlockM;", "9: opcode mov.u32: operand kBlockM: not known to the CPU"},
    /* structure */
    {REGISTERS "@%r1 bra $L;", "9: %r1 is no predicate"},
    {REGISTERS "@%p9 ret;", "9: %p9 is no predicate"},
    {REGISTERS "bra $L9;", "9: no label $L9"},
    {REGISTERS "{ $L: ret; } bra $L;", "9: no label $L"},
    {REGISTERS "mov.u32 %r1, %r2", "9: opcode mov.u32: its ';' is missing"},
    {REGISTERS "{ ret;", "11: the kernel's '}' is missing"},
    {REGISTERS "{ .reg .b32 t; } mov.b32 t, 1;", "9: opcode mov.b32: operand t: not known"},
    {".local .align 4 .b8 stack[64]; ret;", "8: .local: not known to the CPU device"},
    {".reg .b128 %q<2>; ret;", "8: .reg .b128: not known to the CPU device"},
    {".reg .b32 %r<99999999>; ret;", "8: registers of more than"},
    {".loc 1; ret;", "8: .loc: three numbers are missing"},
};

START_TEST(refusals_name_line_and_opcode) {
  for (size_t k = 0; k < sizeof refused / sizeof *refused; k++) {
    attune__ptx *p;
    const char *text = module_of(refused[k].body);
    attune_status status = attune__ptx_parse(text, strlen(text), "k", &p);
    ck_assert_msg(status == ATTUNE_BAD_FILE, "%s: not refused", refused[k].body);
    ck_assert_ptr_null(p);
    char want[256];
    snprintf(want, sizeof want, "k.ptx:%s", refused[k].message);
    ck_assert_msg(strncmp(attune_error(), want, strlen(want)) == 0, "wanted %s, got %s", want,
                  attune_error());
  }
}
END_TEST

static void refuse_module(const char *text, const char *message) {
  attune__ptx *p;
  ck_assert_int_eq(attune__ptx_parse(text, strlen(text), "k", &p), ATTUNE_BAD_FILE);
  ck_assert_msg(strstr(attune_error(), message) != NULL, "wanted %s, got %s", message,
                attune_error());
}

START_TEST(modules_without_the_kernel) {
  refuse_module("", "no kernel of that name");
  refuse_module(".entry other() { ret; }", "no kernel of that name");
  refuse_module(".entry k", "'(' is missing");
  refuse_module(".entry k(.param .b64 a, .param .b64 b) { ret; }", "more than one parameter");
  refuse_module(".entry k(.reg .b32 a) { ret; }", "parameter is missing");
  refuse_module(".entry k(.param .align 8 .b8 a[8]) .pragma \"x\" { ret; }", ".pragma: not known");
  refuse_module(".shared .align 3 .b8 a[4];", ".align is not a power of two");
  refuse_module(".shared .align 4 .b8 a[4294967295];", "too large");
  refuse_module(".file x", ".file: a number");
}
END_TEST

/* ---- no text makes it fall --------------------------------------------------------------------
 */

static uint64_t state = 1;
static uint32_t below(uint32_t n) {
  state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
  return (uint32_t)(state >> 33) % n;
}

static void parse_any(const char *text, size_t size) {
  attune__ptx *p;
  char *exact = malloc(size ? size : 1); /* so that a sanitizer sees a read behind the end */
  ck_assert_ptr_nonnull(exact);
  memcpy(exact, text, size);
  if (attune__ptx_parse(exact, size, "k", &p) == ATTUNE_OK) attune__ptx_free(p);
  free(exact);
}

/* Bytes changed, cut out, doubled, and swapped with others of the text. */
static size_t mutate(char *text, size_t size) {
  static const char marks[] = "{}[]();:,.@!%<>|+-\"/*\n _$09ax";
  for (uint32_t n = 1 + below(4); n > 0 && size > 1; n--) {
    uint32_t at = below((uint32_t)size), span = 1 + below(12);
    if (at + span > size) span = (uint32_t)size - at;
    switch (below(4)) {
      case 0:
        text[at] = marks[below(sizeof marks - 1)];
        break;
      case 1:
        memmove(text + at, text + at + span, size - at - span);
        size -= span;
        break;
      case 2:
        if (size + span > TEXT_MAX) break;
        memmove(text + at + span, text + at, size - at);
        size += span;
        break;
      default:
        memmove(text + at, text + below((uint32_t)(size - span + 1)), span);
    }
  }
  return size;
}

START_TEST(mutations) {
  static char text[TEXT_MAX];
  for (int k = 0; k < 20000; k++) {
    const char *source = module_of(all_kinds);
    size_t size = strlen(source);
    memcpy(text, source, size + 1);
    parse_any(text, mutate(text, size));
  }
}
END_TEST

START_TEST(every_prefix) {
  const char *source = module_of(all_kinds);
  for (size_t size = 0; size <= strlen(source); size++) parse_any(source, size);
}
END_TEST

START_TEST(deep_and_long) {
  static char text[TEXT_MAX];
  memset(text, '{', sizeof text);
  static const char head[] = ".entry k(.param .align 8 .b8 a[8]) ";
  memcpy(text, head, sizeof head - 1);
  parse_any(text, sizeof text);
  memset(text + strlen(head), 'a', sizeof text - strlen(head));
  text[strlen(head)] = '{';
  parse_any(text, sizeof text);
  memset(text + strlen(head) + 3, ',', sizeof text - strlen(head) - 3);
  parse_any(text, sizeof text);
}
END_TEST

TEST_MAIN("ptx_parse", kinds_of_operands, granules, shared_variables, lines_of_inlined_code,
          one_kernel_of_several, refusals_name_line_and_opcode, modules_without_the_kernel,
          mutations, every_prefix, deep_and_long)
