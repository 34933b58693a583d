/* test_template.c - the template engine on small templates: what it writes, each error at its own
 * line, what templates cannot reach, limits, and the same bytes in a comma locale. */
#include "../gen/template.h"
#include "origins.h"
#include "test.h"

#include <locale.h>
#include <time.h>

enum { MAX_FILES = 24 };

/* The engine's own files with templates of a test; not sorted, which only the runtime needs. */
typedef struct sources {
  attune_template_file file[MAX_FILES];
  int count;
} sources;

static void add_source(sources *s, const char *path, const char *text) {
  ck_assert_int_lt(s->count, MAX_FILES);
  s->file[s->count++] = (attune_template_file){path, text, strlen(text)};
}

static sources engine_files(void) {
  sources s = {.count = 0};
  const attune_template_file *files;
  int count;
  ck_assert_int_eq(attune__template_files(&files, &count), ATTUNE_OK);
  for (int i = 0; i < count; i++)
    if (strstr(files[i].path, ".lua")) s.file[s.count++] = files[i];
  ck_assert_int_eq(s.count, 2);
  return s;
}

static const char environment[] =
    "return {name = 'kernel_a', cc = 90, ratio = 0.5, flag = true,\n"
    "tile = {block_m = 64, block_n = 32}, list = {'x', 'y', 'z'},\n"
    "many = {h = 8, c = 3, f = 6, a = 1, g = 7, b = 2, e = 5, d = 4, [2] = 0, [1] = 0},\n"
    "empty = {}, pieces = {{name = 'q'}, {name = 'k'}}}";

static attune_status expand_sources(const sources *s, int lines, attune__text *out) {
  attune_template_job job = {.files = s->file,
                             .count = s->count,
                             .root = "t.cu",
                             .environment = environment,
                             .lines = lines};
  return attune__template_expand(&job, out);
}

static void check_text(const char *template_text, const char *want) {
  sources s = engine_files();
  attune__text out = {0};
  add_source(&s, "t.cu", template_text);
  attune_status status = expand_sources(&s, 0, &out);
  ck_assert_msg(status == ATTUNE_OK, "%s\n-> %s", template_text, attune_error());
  ck_assert_str_eq(out.data, want);
  attune__text_free(&out);
}

/* The message is "templates/t.cu:<line>: error: ...<part>..." and then the template's line. */
static void check_error(const char *template_text, int line, const char *part) {
  sources s = engine_files();
  attune__text out = {0};
  add_source(&s, "t.cu", template_text);
  attune__text_puts(&out, "kept");
  attune_status status = expand_sources(&s, 1, &out);
  ck_assert_msg(status == ATTUNE_TEMPLATE, "no error from:\n%s\n-> %s", template_text, out.data);
  ck_assert_str_eq(out.data, "kept");
  attune__text_free(&out);

  char place[64];
  const char *message = attune_error();
  snprintf(place, sizeof place, "templates/t.cu:%d: error: ", line);
  ck_assert_msg(!strncmp(message, place, strlen(place)), "want %s\nhave %s", place, message);
  ck_assert_msg(strstr(message, part) != NULL, "want %s\nhave %s", part, message);
  const char *begin = template_text;
  for (int i = 1; i < line; i++) begin = strchr(begin, '\n') + 1;
  size_t size = strcspn(begin, "\n");
  const char *shown = strchr(message, '\n');
  if (size == 0) return;
  ck_assert_msg(shown && !strncmp(shown + 1, begin, size) && strlen(shown + 1) == size,
                "want the line %.*s\nhave %s", (int)size, begin, message);
}

START_TEST(text_passes_through) {
  check_text("int a;\n  int b[2] = {1, 2};  // $ %d \\n \"q\"\n",
             "int a;\n  int b[2] = {1, 2};  // $ %d \\n \"q\"\n");
  check_text("no newline at the end", "no newline at the end\n");
  check_text("a\r\n//@ if flag then\r\nb\r\n//@ end\r\n", "a\nb\n");
}
END_TEST

START_TEST(values) {
  check_text("$(name)", "kernel_a\n");
  check_text("x$(tile.block_m)y$(tile.block_m // tile.block_n)z$(flag)", "x64y2ztrue\n");
  check_text("$(name)$(name)", "kernel_akernel_a\n");
}
END_TEST

START_TEST(control_lines) {
  check_text("//@ local function g(x) return x + 1 end\nf($(g(1)));\n", "f(2);\n");
  check_text("//@ for i, x in ipairs(list) do\n$(i)$(x)\n//@ end\n", "1x\n2y\n3z\n");
  check_text("a\n  //@ if cc >= 100 then\nb\n  //@ else\nc\n  //@ end\nd\n", "a\nc\nd\n");
  check_text("//@ for _, p in ipairs(pieces) do\n$(p.name)[$(#list)]\n//@ end", "q[3]\nk[3]\n");
  check_text("//@ for k, v in pairs(tile) do\n$(k)=$(v)\n//@ end", "block_m=64\nblock_n=32\n");
  check_text("//@ local s = ''\n//@ for k, v in pairs(many) do s = s .. k .. v end\n$(s)",
             "1020a1b2c3d4e5f6g7h8\n");
  check_text("$(table.concat(list, ' '))$(#empty)", "x y z0\n");
  check_text("$(string.format('%.3f', ratio))", "0.500\n");
  check_text("$(('ab'):rep(2))$(('a-b'):gsub('%-', '+'))", "ababa+b\n");
}
END_TEST

START_TEST(notes_and_blank_lines) {
  check_text("//-- for authors\na;  //-- and here $(x) //@\n  //-- there\nb;\n", "a;\nb;\n");
  check_text("\n\na\n\n\n//@ local x = 1\n\nb  \t\n\n", "a\n\nb\n");
  check_text("a //- not a note\n", "a //- not a note\n");
}
END_TEST

START_TEST(syntax_errors) {
  check_error("a\n//@ if flag then\nb\n", 3, "'end' expected (to close 'if' at line 2) at the end");
  check_error("//@ for i = 1, 2 do\n//@ if flag then\nb\n//@ end\nc", 5,
              "'end' expected (to close 'for' at line 1)");
  check_error("a\nb\n//@ end\nc\n", 3, "near 'end'");
  check_error("a\n//@ if flag\nb\n", 2, "'then' expected");
  check_error("//@ local x = \n\n\na\n", 1, "unexpected symbol");
  check_error("a\n//@ f\n//-- note\nb\n", 2, "syntax error");
  check_error("a\n//@ local x = (1;\nb\n", 2, "')' expected near ';'");
  check_error("a\n//@ local 1x = 3\n", 2, "near '1x'");
  check_error("a\nb $(name\nc\n", 2, "$( is not closed");
  check_error("a\nb $(1 +) c\n", 2, "$(1 +): unexpected symbol");
  check_error("a $() b\n", 1, "$()");
  check_error("a $(name -- x) b\n", 1, "$(name -- x)");
  check_error("a $(name, name)\n", 1, "$(name, name)");
  check_error("a\nb; //@ if flag then\n", 2, "//@ must begin its line");
  check_error("//@ local x = [[\na\n//@ ]]\n", 1, "a long bracket must close on its line");
  check_error("//@ --[==[ ]]\na\n", 1, "a long bracket must close on its line");
}
END_TEST

START_TEST(name_errors) {
  check_error("a\n$(blok)\n", 2, "undefined name 'blok'");
  check_error("a\n//@ if blok then\n//@ end\n", 2, "undefined name 'blok'");
  check_error("$(tile.blok_m)\n", 1, "tile has no 'blok_m'; it has block_m, block_n");
  check_error("a\n//@ local x = pieces[1].nam\n", 2, "pieces.1 has no 'nam'; it has name");
  check_error("//@ name = 'x'\n", 1, "'name' is read-only");
  check_error("//@ new = 'x'\n", 1, "'new' is read-only");
  check_error("a\n\n//@ tile.block_m = 3\n", 3, "'block_m' is read-only");
  check_error("//@ table.insert(list, 'w')\n", 1, "read-only");
  check_error("//@ string.rep = 3\n", 1, "read-only");
}
END_TEST

START_TEST(value_errors) {
  check_error("a\nb$(nil)\n", 2, "$(nil) is a nil; it must be a string, an integer or a boolean");
  check_error("$(name)\n$(name)$(list[4])\n", 2, "$(list[4]) is a nil");
  check_error("$(ratio)\n", 1, "$(ratio) is a float");
  check_error("$(tile.block_m / 2)\n", 1, "// divides integers");
  check_error("a\nb $(tile) c\n", 2, "$(tile) is a table");
  check_error("$(ipairs)\n", 1, "$(ipairs) is a function");
  check_error("$('a\\nb')\n", 1, "has a line break");
  check_error("a\n#include <cuda.h>\n", 2, "self-contained");
  check_error("a\n  # include \"x.h\"\n", 2, "self-contained");
}
END_TEST

START_TEST(runtime_errors) {
  check_error("a\n//@ local x = name + 1\n", 2, "attempt to add a 'string' with a 'number'");
  check_error("a\n//@ local x = tile.block_m()\n", 2, "attempt to call a number value");
  check_error("a\n//@ error('no tile')\n", 2, "error: no tile");
  check_error("a\n//@ assert(cc == 80, 'sm_80 only')\n", 2, "error: sm_80 only");
  check_error("//@ local function f()\n//@   error('inner')\n//@ end\na\n//@ f()\n", 2, "inner");
  check_error("a\n//@ for _ in ipairs(nil) do end\n", 2, "attempt to index a nil value");
  check_error("a\n//@ local x = ipairs()\n", 2, "error: bad argument #1 to 'ipairs'");
  check_error("a\n$(string.format('%d', 'x'))\n", 2, "error: bad argument #2 to 'format'");
  check_error("a\n//@ local x = ('x'):rep({})\n", 2, "attempt to perform arithmetic");
  check_error("//@ local function f() return 1 + f() end\na\n//@ f()\n", 1, "");
  check_error("a\n//@ error({path = 'x', line = 1, text = 'forged'})\n", 2, "a table has no text");
  check_error("a\n//@ error()\n", 2, "nil");
}
END_TEST

START_TEST(includes) {
  sources s = engine_files();
  attune__text out = {0};
  add_source(&s, "t.cu", "1\n//@ for i = 1, 2 do\n  //@ include('part/a.cuh')\n//@ end\n2\n");
  add_source(&s, "part/a.cuh", "a $(name)\n//@ local x = 5\n//@ include('b.cuh')\nA$(x)\n");
  add_source(&s, "b.cuh", "b\n");
  ck_assert_int_eq(expand_sources(&s, 0, &out), ATTUNE_OK);
  ck_assert_str_eq(out.data, "1\na kernel_a\nb\nA5\na kernel_a\nb\nA5\n2\n");
  attune__text_free(&out);
}
END_TEST

static void check_include_error(const sources *s, const char *want) {
  attune__text out = {0};
  ck_assert_int_eq(expand_sources(s, 0, &out), ATTUNE_TEMPLATE);
  ck_assert_str_eq(attune_error(), want);
  ck_assert_ptr_null(out.data);
}

START_TEST(errors_in_included_files) {
  sources s = engine_files();
  add_source(&s, "t.cu", "1\n2\n//@ include('a.cuh')\n");
  add_source(&s, "a.cuh", "1\n//@ include('b.cuh')\n");
  sources broken = s;
  add_source(&s, "b.cuh", "1\n2\n  3 $(nam)\n");
  check_include_error(&s, "templates/b.cuh:3: error: undefined name 'nam'\n  3 $(nam)\n"
                          "included from templates/a.cuh:2\nincluded from templates/t.cu:3");
  add_source(&broken, "b.cuh", "//@ if flag then\n");
  check_include_error(&broken, "templates/b.cuh:1: error: 'end' expected at the end of the file\n"
                               "//@ if flag then\nincluded from templates/a.cuh:2\n"
                               "included from templates/t.cu:3");
}
END_TEST

START_TEST(include_errors) {
  check_error("a\n//@ include('nowhere.cuh')\n", 2, "there is no template 'nowhere.cuh'");
  check_error("a\n//@ include(nil)\n", 2, "include(path) wants a string, not a nil");
  check_error("a\n//@ include('t.cu')\n", 2, "include cycle: t.cu -> t.cu");
  sources s = engine_files();
  add_source(&s, "t.cu", "//@ include('a.cuh')\n");
  add_source(&s, "a.cuh", "//@ include('b.cuh')\n");
  add_source(&s, "b.cuh", "\n//@ include('a.cuh')\n");
  check_include_error(&s, "templates/b.cuh:2: error: include cycle: a.cuh -> b.cuh -> a.cuh\n"
                          "//@ include('a.cuh')\nincluded from templates/a.cuh:1\n"
                          "included from templates/t.cu:1");
}
END_TEST

/* A chain of `count` files, each including the next; the last is text. */
static attune_status expand_chain(int count) {
  static char path[MAX_FILES][16], text[MAX_FILES][48];
  sources s = engine_files();
  attune__text out = {0};
  for (int i = 0; i < count; i++) {
    snprintf(path[i], sizeof path[i], i ? "c%02d.cuh" : "t.cu", i);
    snprintf(text[i], sizeof text[i], i + 1 < count ? "//@ include('c%02d.cuh')\n" : "end %d\n",
             i + 1);
    add_source(&s, path[i], text[i]);
  }
  attune_status status = expand_sources(&s, 0, &out);
  attune__text_free(&out);
  return status;
}

START_TEST(include_depth) {
  ck_assert_int_eq(expand_chain(ATTUNE_TEMPLATE_DEPTH), ATTUNE_OK);
  ck_assert_int_eq(expand_chain(ATTUNE_TEMPLATE_DEPTH + 1), ATTUNE_TEMPLATE);
  ck_assert_ptr_nonnull(strstr(attune_error(), "templates/c15.cuh:1: error: includes are nested"));
}
END_TEST

START_TEST(templates_of_another_op) {
  sources s = engine_files();
  attune__text out = {0};
  add_source(&s, "t.cu", "//@ include('attn_standard/x.cuh')\n");
  add_source(&s, "attn_standard/x.cuh", "x\n");
  ck_assert_int_eq(expand_sources(&s, 0, &out), ATTUNE_OK);
  attune__text_free(&out);
  attune_template_job job = {.files = s.file,
                             .count = s.count,
                             .op = ATTUNE_OP_ATTN_FWD,
                             .root = "t.cu",
                             .environment = environment};
  ck_assert_int_eq(attune__template_expand(&job, &out), ATTUNE_TEMPLATE);
  ck_assert_ptr_nonnull(strstr(attune_error(), "belongs to another op than attn_fwd"));
}
END_TEST

START_TEST(names_that_templates_lack) {
  static const char *const names[] = {
      "io",           "os",           "debug",       "load",
      "loadstring",   "loadfile",     "dofile",      "require",
      "package",      "coroutine",    "utf8",        "collectgarbage",
      "getmetatable", "setmetatable", "rawget",      "rawset",
      "rawequal",     "rawlen",       "next",        "pcall",
      "xpcall",       "print",        "warn",        "_G",
      "host",         "arg",          "math.random", "math.randomseed",
      "string.dump",  "string.pack",  "table.sort",  "table.move"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char text[64];
    const char *dot = strchr(names[i], '.');
    snprintf(text, sizeof text, "//@ local x = %s\n", names[i]);
    check_error(text, 1, dot ? " has no '" : "undefined name '");
  }
}
END_TEST

START_TEST(escapes) {
  check_error("//@ local x = ('').dump\n", 1, "string has no 'dump'");
  check_error("//@ local x = _ENV.io\n", 1, "undefined name 'io'");
  check_error("//@ _ENV.name = 'x'\n", 1, "read-only");
  check_error("//@ _ENV = {}\n$(name)\n", 2, "$(name) is a nil");
  check_error("$(tostring(tile))\n", 1, "a table has no text");
  check_error("$(tostring(ipairs))\n", 1, "a function has no text");
  check_error("$(string.format('%s', tile))\n", 1, "a table has no text");
  check_error("$(string.format('%-20p', 'x'))\n", 1, "%p prints an address");
  check_error("$(('x') .. tile)\n", 1, "attempt to concatenate a table value");
  check_error("//@ for k in pairs({[tile] = 1}) do end\n", 1, "a table as key of pairs");
  check_error("\x1bLua\n//@ local x = nam\n", 2, "undefined name 'nam'");
}
END_TEST

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Sanitizers slow Lua down by a factor of ten; limits hold in a few seconds even then. */
START_TEST(limits) {
  double before = now();
  check_error("a\n//@ while true do end\n", 2, "over 10000000 steps");
  check_error("a\n//@ while true do\nx\n//@ end\n", 3, "");
  check_error("a\n//@ local s = 'xx'\n//@ while true do\n//@   s = s .. s\n//@ end\n", 4,
              "over 64 MB of memory");
  check_error("//@ local t = {}\n//@ for i = 1, 1e9 do t[i] = i end\n", 2, "over 64 MB of memory");
  check_error("//@ local s = ('x'):rep(70000)\n", 1, "string.rep: over 65536 bytes");
  check_error("//@ local s = ('x'):rep(3, ('-'):rep(65000))\n", 1, "string.rep: over");
  check_error("//@ local s = ('x'):rep(1e300)\n", 1, "string.rep: over");
  check_error("//@ local s = ('a'):rep(30)\n$(s:find(('a?'):rep(30) .. s))\n", 2,
              "string.find: too many repetitions");
  check_error("//@ local s = ('a'):rep(9999):match('.-.-.-.-b')\n", 1, "string.match: too many");
  check_error("//@ local function f() return ('x'):gsub('x', f) end\n//@ f()\n", 1, "overflow");
  ck_assert_double_lt(now() - before, 20.0);
}
END_TEST

START_TEST(line_directives) {
  sources s = engine_files();
  attune__text out = {0}, plain = {0}, stripped = {0};
  add_source(&s, "t.cu",
             "//-- note\na1\na2\n//@ if flag then\na3\n//@ end\n\n\na4\n"
             "//@ include('b.cuh')\na5\n//@ for i = 1, 3 do\na6 $(i)\na7\n//@ end\na8\n");
  add_source(&s, "b.cuh", "\nb1\n\nb2\n//@ local x = 1\nb3 $(x)\n");
  ck_assert_int_eq(expand_sources(&s, 1, &out), ATTUNE_OK);
  ck_assert_int_eq(expand_sources(&s, 0, &plain), ATTUNE_OK);
  ck_assert_int_eq(check_origins(s.file, s.count, out.data), 18);
  ck_assert_ptr_nonnull(strstr(out.data, "#line 2 \"/attune/templates/t.cu\"\na1\na2\n#line 5 "));
  ck_assert_ptr_nonnull(strstr(out.data, "a6 1\na7\n#line 13 \"/attune/templates/t.cu\"\na6 2\n"));
  without_directives(out.data, &stripped);
  ck_assert_str_eq(stripped.data, plain.data);
  attune__text_free(&out), attune__text_free(&plain), attune__text_free(&stripped);
}
END_TEST

static const char numbers[] = "$(string.format('%g %.2f', ratio, 1.25)) $(tostring(ratio * 3)) "
                              "$(ratio .. '') $(tonumber('0.25') * 4 == 1) $('B' < 'a')\n";
static const char numbers_in_c[] = "0.5 1.25 1.5 0.5 true true\n";

START_TEST(comma_locale) {
  check_text(numbers, numbers_in_c);
  ck_assert_int_eq(system("sh tests/locale.sh"), 0);
  ck_assert_int_eq(setenv("LOCPATH", "build/locale", 1), 0);
  ck_assert_msg(setlocale(LC_ALL, "de_DE.UTF-8") != NULL, "build/locale/de_DE.UTF-8 is unusable");
  char comma[16];
  snprintf(comma, sizeof comma, "%.1f", 0.5);
  ck_assert_str_eq(comma, "0,5"); /* the locale is at work */
  check_text(numbers, numbers_in_c);
  snprintf(comma, sizeof comma, "%.1f", 0.5);
  ck_assert_str_eq(comma, "0,5"); /* and is as it was */
  setlocale(LC_ALL, "C");
}
END_TEST

START_TEST(text_is_appended) {
  sources s = engine_files();
  attune__text out = {0};
  add_source(&s, "t.cu", "b\n");
  attune__text_puts(&out, "a\n");
  ck_assert_int_eq(expand_sources(&s, 0, &out), ATTUNE_OK);
  ck_assert_str_eq(out.data, "a\nb\n");
  attune__text_free(&out);
}
END_TEST

TEST_MAIN("template", text_passes_through, values, control_lines, notes_and_blank_lines,
          syntax_errors, name_errors, value_errors, runtime_errors, includes,
          errors_in_included_files, include_errors, include_depth, templates_of_another_op,
          names_that_templates_lack, escapes, limits, line_directives, comma_locale,
          text_is_appended)
