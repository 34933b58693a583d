/* test_tune_page.c - the page of a tuning run: well-formed, the same bytes for the same result,
 * nothing to load, and points where the figures say. */
#include "../gen/tune_page.h"
#include "test.h"

#include <ctype.h>

/* ---- a made-up run ------------------------------------------------------------------------- */

static attune__tiles tiles_of(const char *text) {
  attune__tiles tiles;
  ck_assert_msg(attune__tiles_parse(text, &tiles) == ATTUNE_OK, "%s: %s", text, attune_error());
  return tiles;
}

static attune_variant variant_of(const char *name) {
  attune_variant v;
  attune_tile tile;
  int has_tile, is_program;
  ck_assert_int_eq(attune__name_parse(name, &v, &tile, &has_tile, &is_program), ATTUNE_OK);
  return v;
}

static attune__tune_trial timed(const char *tile, double ratio, uint32_t smem, uint32_t registers) {
  attune__tune_trial t = {.state = ATTUNE__TRIAL_TIMED, .ratio = ratio};
  t.tiles = tiles_of(tile);
  t.time = (attune__tuned_time){ratio * 0.5, ratio * 0.49, ratio * 0.51};
  t.smem_bytes = smem, t.registers = registers;
  return t;
}

enum { H200_SMEM = 232448 };
static attune__tune_trial trials[6];
static attune__tune_cell cells[3];

/* Two cells of a variant, one of them without a time, and a third of another variant. */
static attune__tune_result made_up(void) {
  attune__tune_result r = {.cell = cells, .cells = 3, .compiled = 5, .checked = 4, .timed = 3};
  r.facts.key = (attune__tuned_key){.gpu = "NVIDIA \"H200\" <&>", .sms = 132, .memory_mhz = 3200};
  r.facts.key.arch = attune__arch(90, 'a'), r.facts.driver = 13010;
  r.wall_s = 12.34;
  trials[0] = timed("mma_m128n64", 1, H200_SMEM / 4, 128);
  trials[1] = timed("mma_m64n64", 0.8, H200_SMEM / 2, 255);
  trials[2] = timed("mma_m64n32", 1.5, 0, 0); /* its registers are not known */
  trials[3] = (attune__tune_trial){.state = ATTUNE__TRIAL_WRONG, .why = "row 3 <of> \"Q\" & more"};
  trials[3].tiles = tiles_of("mma_m128n128");
  trials[4] = (attune__tune_trial){.state = ATTUNE__TRIAL_LATE};
  trials[4].tiles = tiles_of("mma_m128n32");
  memset(cells, 0, sizeof cells);
  for (int i = 0; i < 3; i++)
    cells[i] = (attune__tune_cell){
        .variant = variant_of(i < 2 ? "attn_fwd_sm90a_fp16_d64" : "attn_fwd_sm90a_fp16_d128"),
        .cls = i == 1 ? ATTUNE_CLASS_LONG_MANY : ATTUNE_CLASS_SHORT_MANY,
        .shape = attune__plan_shape(ATTUNE_CLASS_SHORT_MANY),
        .winner = -1};
  cells[0].trial = trials, cells[0].trials = 5, cells[0].winner = 1;
  attune__tuned_row *row = &cells[0].row;
  row->tiles = trials[1].tiles, row->time = trials[1].time;
  row->over = trials[0].tiles, row->over_time = trials[0].time;
  row->rounds = 15, row->calls = 7, row->tried = 3;
  snprintf(row->date, sizeof row->date, "2026-11-30T03:00:47Z");
  return r;
}

static char *page_of(const attune__tune_result *r) {
  attune__text text = {0};
  attune__tune_page(r, &text);
  ck_assert(!text.failed && text.data);
  return text.data;
}

/* ---- well-formed --------------------------------------------------------------------------- */

enum { DEEP = 32 };
typedef struct checker {
  char open[DEEP][32];
  int depth, elements;
} checker;

/* `&amp;` and its like. */
static int is_entity(const char *at) {
  static const char *const known[] = {"&lt;", "&gt;", "&amp;", "&quot;"};
  for (size_t i = 0; i < 4; i++)
    if (!strncmp(at, known[i], strlen(known[i]))) return 1;
  return 0;
}

/* Attributes up to '>': each a name with a value in quotes, no '<' within. Returns the '>'. */
static const char *check_attributes(const char *at, int *empty) {
  *empty = 0;
  for (;;) {
    while (isspace((unsigned char)*at)) at++;
    if (*at == '>') return at;
    if (at[0] == '/' && at[1] == '>') return *empty = 1, at + 1;
    const char *name = at;
    while (isalnum((unsigned char)*at) || *at == '-' || *at == ':') at++;
    ck_assert_msg(at > name && at[0] == '=' && at[1] == '"', "attribute: %.40s", name);
    for (at += 2; *at != '"'; at++)
      ck_assert_msg(*at && *at != '<' && (*at != '&' || is_entity(at)), "value: %.40s", name);
    at++;
  }
}

static const char *check_tag(checker *c, const char *at) {
  char name[32];
  int closing = *at == '/', length = 0, empty;
  at += closing;
  while (isalnum((unsigned char)*at) && length < 31) name[length++] = *at++;
  name[length] = 0;
  ck_assert_msg(length > 0, "no tag: %.40s", at);
  if (closing) {
    ck_assert_msg(c->depth > 0 && !strcmp(c->open[c->depth - 1], name), "</%s> closes <%s>", name,
                  c->depth ? c->open[c->depth - 1] : "nothing");
    c->depth--;
    ck_assert_int_eq(*at, '>');
    return at + 1;
  }
  at = check_attributes(at, &empty);
  c->elements++;
  if (empty) return at + 1;
  ck_assert_int_lt(c->depth, DEEP);
  memcpy(c->open[c->depth++], name, sizeof name);
  return at + 1;
}

static int check_well_formed(const char *page) {
  static const char doctype[] = "<!DOCTYPE html>\n";
  checker c = {.depth = 0};
  ck_assert(!strncmp(page, doctype, sizeof doctype - 1));
  for (const char *at = page + sizeof doctype - 1; *at;) {
    if (*at == '<') {
      at = check_tag(&c, at + 1);
      continue;
    }
    ck_assert_msg(*at != '&' || is_entity(at), "text: %.40s", at);
    at++;
  }
  ck_assert_int_eq(c.depth, 0);
  return c.elements;
}

static int count(const char *text, const char *words) {
  int found = 0;
  for (; (text = strstr(text, words)); text++) found++;
  return found;
}

START_TEST(a_page_is_well_formed_and_the_same_again) {
  attune__tune_result r = made_up();
  char *page = page_of(&r), *again = page_of(&r);
  ck_assert_int_gt(check_well_formed(page), 100);
  ck_assert_str_eq(page, again);
  free(page);
  free(again);
}
END_TEST

START_TEST(an_empty_run_is_a_page) {
  attune__tune_result r = {.cells = 0};
  char *page = page_of(&r);
  check_well_formed(page);
  ck_assert_int_eq(count(page, "<section"), 0);
  free(page);
}
END_TEST

START_TEST(a_page_loads_nothing) {
  attune__tune_result r = made_up();
  char *page = page_of(&r);
  /* addresses of name spaces are names, not places; links lead to the page's own sections */
  ck_assert_int_eq(count(page, "http"), count(page, "xmlns=\"http://www.w3.org/"));
  ck_assert_int_eq(count(page, "href=\""), count(page, "href=\"#"));
  static const char *const loading[] = {"<script", "<link", "<img",   "<iframe",
                                        "src=",    "url(",  "@import"};
  for (size_t i = 0; i < sizeof loading / sizeof *loading; i++)
    ck_assert_int_eq(count(page, loading[i]), 0);
  free(page);
}
END_TEST

/* ---- what it says -------------------------------------------------------------------------- */

START_TEST(a_page_names_all_cells_and_all_failures) {
  attune__tune_result r = made_up();
  char *page = page_of(&r);
  ck_assert_int_eq(count(page, "<section id=\"attn_fwd_sm90a_fp16_d64\">"), 1);
  ck_assert_int_eq(count(page, "<section id=\"attn_fwd_sm90a_fp16_d128\">"), 1);
  ck_assert_int_eq(count(page, "<td colspan=\"5\">not timed</td>"), 2);
  ck_assert_int_eq(count(page, "NVIDIA &quot;H200&quot; &lt;&amp;>"), 2);
  ck_assert_int_eq(count(page, "2 of 5 candidates have no time"), 1);
  ck_assert_int_eq(count(page, "<code>mma_m128n128</code> wrong results, a defect: row 3 &lt;of> "
                               "&quot;Q&quot; &amp; more"),
                   1);
  ck_assert_int_eq(count(page, "<code>mma_m128n32</code> not reached within the budget"), 1);
  /* 0.5 ms planned, 0.4 ms measured: 25 % faster; in the table and above the drawing */
  ck_assert_int_eq(count(page, "+25.0 % ("), 2);
  ck_assert_int_eq(count(page, "driver for CUDA 13.1"), 1);
  free(page);
}
END_TEST

START_TEST(a_provisional_row_says_why) {
  attune__tune_result r = made_up();
  cells[0].row.provisional = 1;
  snprintf(cells[0].row.why, sizeof cells[0].row.why, "1 other process on the GPU");
  char *page = page_of(&r);
  check_well_formed(page);
  ck_assert_int_eq(count(page, "provisional: 1 other process on the GPU</span>"), 2);
  free(page);
}
END_TEST

/* ---- where points lie ---------------------------------------------------------------------- */

/* The value of an attribute of the element whose title begins with `title`. */
static double attribute_of(const char *svg, const char *title, const char *name) {
  char whole[160], attribute[16];
  snprintf(whole, sizeof whole, "<title>%s", title);
  const char *at = strstr(svg, whole);
  ck_assert_msg(at != NULL, "no point %s", title);
  while (*at != '\n') at--; /* an element a line */
  snprintf(attribute, sizeof attribute, " %s=\"", name);
  at = strstr(at, attribute);
  ck_assert_ptr_nonnull(at);
  return strtod(at + strlen(attribute), NULL);
}

START_TEST(candidates_lie_at_their_figures) {
  attune__tune_result r = made_up();
  attune__text text = {0};
  attune__tune_draw_trials(&r.cell[0], attune__board(attune__arch(90, 'a')), &text);
  const char *svg = text.data;
  /* two panels: shared memory has all three, registers the same, the unknown at 0 */
  ck_assert_int_eq(count(svg, "<title>"), 6);
  ck_assert_int_eq(count(svg, "<title>mma_m64n64: 400.00 us, 0.800 of the planned; 116224 bytes of "
                              "shared memory, 255 registers</title>"),
                   2);
  /* the left panel is 250 wide from 58; the winner has half of what a block may have */
  ck_assert_double_eq_tol(attribute_of(svg, "mma_m64n64", "cx"), 58 + 125, 0.06);
  ck_assert_double_eq_tol(attribute_of(svg, "mma_m64n32", "cx"), 58, 0.06);
  ck_assert_double_eq_tol(attribute_of(svg, "mma_m128n64", "x") + 4.5, 58 + 62.5, 0.06);
  /* faster is lower; equal factors are equal distances: log(1/0.8) to log(1.5/1) */
  double fast = attribute_of(svg, "mma_m64n64", "cy");
  double planned = attribute_of(svg, "mma_m128n64", "y") + 4.5;
  double slow = attribute_of(svg, "mma_m64n32", "cy");
  ck_assert_double_eq_tol((fast - planned) / (planned - slow), 0.22314 / 0.40547, 0.005);
  /* the winner's ring in both panels, and in the legend */
  ck_assert_int_eq(count(svg, "<circle r=\"8\""), 3);
  attune__text_free(&text);
}
END_TEST

START_TEST(the_roofline_has_the_boards_ceilings_and_what_was_reached) {
  attune__tune_result r = made_up();
  attune__text text = {0};
  attune__tune_draw_roofline(r.cell, 2, attune__board(attune__arch(90, 'a')), &text);
  /* 132 SMs x 1980 MHz x 4096 FLOP = 1070.5 TFLOP/s */
  ck_assert_int_eq(count(text.data, "tensor cores, 16 bit: 1071 TFLOP/s; device memory: 4800 GB/s"),
                   1);
  ck_assert_int_eq(count(text.data, "<title>short_many, "), 2); /* planned and winner */
  ck_assert_int_eq(count(text.data, "long_many"), 0);           /* has no time */
  /* FLOPs by the field's convention, 4 b h n n d, over 0.4 ms */
  const attune_shape *s = &r.cell[0].shape;
  double flops =
      4.0 * (double)s->batch * (double)s->heads_q * (double)s->len_q * (double)s->len_k * 64;
  char words[96];
  snprintf(words, sizeof words, "mma_m64n64: %.2f TFLOP/s", flops / 0.4e-3 / 1e12);
  ck_assert_msg(strstr(text.data, words) != NULL, "%s", words);
  /* twice the intensity's rate at most: below the roof is a larger y */
  ck_assert_double_lt(attribute_of(text.data, "short_many, mma_m64n64", "cy"),
                      attribute_of(text.data, "short_many, mma_m128n64", "y") + 4.5);
  attune__text_free(&text);
}
END_TEST

TEST_MAIN("tune_page", a_page_is_well_formed_and_the_same_again, an_empty_run_is_a_page,
          a_page_loads_nothing, a_page_names_all_cells_and_all_failures, a_provisional_row_says_why,
          candidates_lie_at_their_figures,
          the_roofline_has_the_boards_ceilings_and_what_was_reached)
