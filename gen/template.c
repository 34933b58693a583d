/* template.c - hosts the template engine: a Lua state with limits, for one expansion.
 *
 * Input: templates, an environment, the path of the first. Output: the expanded text, or an error
 * at the template line that caused it. The language itself is templates/engine.lua; what templates
 * can name is templates/sandbox.lua; this file gives both no way out: base, string, table and math
 * without files and bytecode, a cap on memory, a cap on steps, the C locale.
 *
 * Lua errors unwind by longjmp: between lua_pcall and its return nothing here owns memory that is
 * not reachable from the host struct. */
#include "template.h"

#include "template_files.h"

#include <lauxlib.h>
#include <locale.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_PER_HOOK = 10000, PATH_BYTES = 256 };
#define CHUNK_PREFIX "@templates/"

typedef struct place {
  char path[PATH_BYTES]; /* below templates/; "" when unknown */
  int line;
} place;

typedef struct host {
  const attune_template_job *job;
  lua_State *lua; /* NULL until it stands */
  size_t bytes;   /* allocated by Lua now */
  int64_t steps;
  int over_memory; /* the cap was hit, at: */
  place memory_place;
  attune__text error; /* message of the error that ended it */
  attune__text *out;
} host;

/* ---- places -------------------------------------------------------------------------- */

static int is_template_chunk(const char *source) {
  size_t prefix = sizeof CHUNK_PREFIX - 1;
  return !strncmp(source, CHUNK_PREFIX, prefix) && !strstr(source, ".lua");
}

/* The next frame at or above *level that runs a template; 0 when there is none. */
static int template_frame(lua_State *lua, int *level, place *out, int *is_main) {
  lua_Debug frame;
  for (; lua_getstack(lua, *level, &frame); ++*level) {
    lua_getinfo(lua, "Sl", &frame);
    if (!is_template_chunk(frame.source)) continue;
    const char *path = frame.source + sizeof CHUNK_PREFIX - 1;
    size_t size = strlen(path);
    if (size >= sizeof out->path) size = sizeof out->path - 1;
    memcpy(out->path, path, size);
    out->path[size] = 0, out->line = frame.currentline;
    *is_main = !strcmp(frame.what, "main");
    return 1;
  }
  return 0;
}

static const attune_template_file *find_file(const attune_template_job *job, const char *path) {
  for (int i = 0; i < job->count; i++)
    if (!strcmp(job->files[i].path, path)) return &job->files[i];
  return NULL;
}

static int is_outline(const attune_template_job *job, const char *path) {
  return job->text && !strcmp(path, job->root);
}

/* The text of a template, or of the outline in its place; NULL when there is none. */
static const char *find_text(const attune_template_job *job, const char *path, size_t *bytes) {
  if (is_outline(job, path)) return *bytes = strlen(job->text), job->text;
  const attune_template_file *file = find_file(job, path);
  return file ? (*bytes = file->bytes, file->text) : NULL;
}

/* As messages and #line name it. */
static void add_place(const attune_template_job *job, const char *path, attune__text *out) {
  if (is_outline(job, path))
    attune__text_puts(out, job->place);
  else
    attune__text_printf(out, "templates/%s", path);
}

/* Appends line `line` of a template, from 1; nothing when there is no such line. */
static void add_template_line(const host *h, const place *at, attune__text *out) {
  size_t bytes;
  const char *begin = find_text(h->job, at->path, &bytes), *end = begin ? begin + bytes : NULL;
  if (!begin) return;
  for (int line = 1; line < at->line && begin < end; line++) {
    const char *newline = memchr(begin, '\n', (size_t)(end - begin));
    begin = newline ? newline + 1 : end;
  }
  const char *newline = memchr(begin, '\n', (size_t)(end - begin));
  if (begin == end) return;
  attune__text_puts(out, "\n");
  attune__text_add(out, begin, (size_t)((newline ? newline : end) - begin));
}

static void set_error(host *h, const place *at, const char *text) {
  attune__text_free(&h->error);
  int placed = at->path[0] != 0;
  add_place(h->job, placed ? at->path : h->job->root, &h->error);
  attune__text_printf(&h->error, ":%d: error: %s", placed ? at->line : 1, text);
  if (placed) add_template_line(h, at, &h->error);
}

/* ---- errors -------------------------------------------------------------------------- */

/* Lua and its libraries put "chunk:line: " before a message; the place is told better by us. */
static const char *without_position(lua_State *lua, const char *text) {
  lua_Debug frame;
  for (int level = 0; level < 3 && lua_getstack(lua, level, &frame); level++) {
    lua_getinfo(lua, "Sl", &frame);
    if (frame.currentline < 0) continue;
    lua_pushfstring(lua, "%s:%d: ", frame.short_src, frame.currentline);
    const char *position = lua_tostring(lua, -1);
    size_t size = strlen(position);
    if (!strncmp(text, position, size)) return text + size;
  }
  return text;
}

/* An error that the engine raised with a place of its own: {path, line, text}. */
static const char *placed_error(lua_State *lua, place *at) {
  lua_getfield(lua, 1, "path"), lua_getfield(lua, 1, "line"), lua_getfield(lua, 1, "text");
  const char *path = lua_tostring(lua, -3), *text = lua_tostring(lua, -1);
  if (path) strncpy(at->path, path, sizeof at->path - 1);
  at->line = (int)lua_tointeger(lua, -2);
  return text ? text : "error without a text";
}

/* Message handler: runs where the error was raised, so the stack still tells the place. */
static int on_error(lua_State *lua) {
  host *h = *(host **)lua_getextraspace(lua);
  place at = {{0}, 0}, from = {{0}, 0};
  int level = 0, is_main = 0;
  lua_settop(lua, 1);
  if (lua_istable(lua, 1)) {
    set_error(h, &at, placed_error(lua, &at));
    is_main = 1; /* a chunk that did not come to run has no frame */
  } else {
    const char *text = lua_tostring(lua, 1);
    if (!text) text = "error without a text";
    if (template_frame(lua, &level, &at, &is_main)) level++, text = without_position(lua, text);
    set_error(h, &at, text);
  }
  while (!is_main && template_frame(lua, &level, &from, &is_main)) level++;
  for (; template_frame(lua, &level, &from, &is_main); level++)
    if (is_main) {
      attune__text_puts(&h->error, "\nincluded from ");
      add_place(h->job, from.path, &h->error);
      attune__text_printf(&h->error, ":%d", from.line);
    }
  return 1;
}

/* ---- limits -------------------------------------------------------------------------- */

static void *limited_alloc(void *user, void *block, size_t old_size, size_t size) {
  host *h = user;
  if (!block) old_size = 0; /* Lua passes the kind of object then */
  if (size == 0) {
    free(block);
    h->bytes -= old_size;
    return NULL;
  }
  if (size > old_size && h->bytes - old_size + size > ATTUNE_TEMPLATE_BYTES) {
    /* Memory errors call no message handler, so the place is taken here. Walking the frames of a
     * running state allocates nothing. */
    int level = 0, is_main;
    h->over_memory = 1;
    if (h->lua) template_frame(h->lua, &level, &h->memory_place, &is_main);
    return NULL;
  }
  void *moved = realloc(block, size);
  if (!moved) return size <= old_size ? block : NULL;
  h->bytes += size - old_size;
  return moved;
}

static void count_steps(lua_State *lua, lua_Debug *event) {
  (void)event;
  host *h = *(host **)lua_getextraspace(lua);
  h->steps += STEPS_PER_HOOK;
  if (h->steps > ATTUNE_TEMPLATE_STEPS) {
    lua_pushfstring(lua, "over %d steps; does a loop not end?", ATTUNE_TEMPLATE_STEPS);
    lua_error(lua);
  }
}

/* ---- what the engine calls ----------------------------------------------------------- */

/* source(path) -> text, or nil and why not */
static int source(lua_State *lua) {
  host *h = *(host **)lua_getextraspace(lua);
  const char *path = luaL_checkstring(lua, 1);
  size_t bytes;
  const char *text = find_text(h->job, path, &bytes);
  if (!text) {
    lua_pushnil(lua);
    lua_pushfstring(lua, "there is no template '%s'", path);
    return 2;
  }
  if (h->job->op && !attune__template_of_op(path, h->job->op)) {
    lua_pushnil(lua);
    lua_pushfstring(lua, "'%s' belongs to another op than %s; move what both need to prim/", path,
                    attune__op_name(h->job->op));
    return 2;
  }
  lua_pushlstring(lua, text, bytes);
  return 1;
}

static void open_libraries(lua_State *lua) {
  static const luaL_Reg libraries[] = {{LUA_GNAME, luaopen_base},
                                       {LUA_STRLIBNAME, luaopen_string},
                                       {LUA_TABLIBNAME, luaopen_table},
                                       {LUA_MATHLIBNAME, luaopen_math}};
  static const char *const removed[] = {"dofile", "loadfile", "collectgarbage", "print", "warn"};
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
    luaL_requiref(lua, libraries[i].name, libraries[i].func, 1);
    lua_pop(lua, 1);
  }
  for (size_t i = 0; i < sizeof removed / sizeof *removed; i++) {
    lua_pushnil(lua);
    lua_setglobal(lua, removed[i]);
  }
}

/* Pushes the environment: the text runs with no names at all. */
static void push_environment(lua_State *lua, const char *text) {
  if (luaL_loadbufferx(lua, text, strlen(text), "=environment", "t")) lua_error(lua);
  lua_newtable(lua);
  lua_setupvalue(lua, -2, 1);
  lua_call(lua, 0, 1);
  luaL_checktype(lua, -1, LUA_TTABLE);
}

static void push_host(lua_State *lua, const attune_template_job *job) {
  lua_newtable(lua);
  lua_pushcfunction(lua, source), lua_setfield(lua, -2, "source");
  push_environment(lua, job->environment), lua_setfield(lua, -2, "environment");
  lua_pushstring(lua, job->root), lua_setfield(lua, -2, "root");
  lua_pushboolean(lua, job->lines), lua_setfield(lua, -2, "lines");
  lua_pushboolean(lua, job->outline), lua_setfield(lua, -2, "outline");
  if (job->text) lua_pushstring(lua, job->place), lua_setfield(lua, -2, "place");
  lua_pushinteger(lua, ATTUNE_TEMPLATE_DEPTH), lua_setfield(lua, -2, "depth");
  lua_pushinteger(lua, ATTUNE_TEMPLATE_REP_BYTES), lua_setfield(lua, -2, "rep_bytes");
}

static int run(lua_State *lua) {
  host *h = *(host **)lua_getextraspace(lua);
  const attune_template_file *engine = find_file(h->job, "engine.lua");
  if (!engine) return luaL_error(lua, "there is no templates/engine.lua");
  open_libraries(lua);
  if (luaL_loadbufferx(lua, engine->text, engine->bytes, CHUNK_PREFIX "engine.lua", "t"))
    return lua_error(lua);
  push_host(lua, h->job);
  lua_call(lua, 1, 1);
  size_t size;
  const char *text = luaL_checklstring(lua, -1, &size);
  attune__text_add(h->out, text, size);
  return 0;
}

/* ---- one expansion ------------------------------------------------------------------- */

static attune_status failed(host *h, int code) {
  if (code == LUA_ERRMEM) {
    if (!h->over_memory) return attune_fail(ATTUNE_NO_MEMORY, "expanding %s", h->job->root);
    char text[64];
    snprintf(text, sizeof text, "over %d MB of memory", ATTUNE_TEMPLATE_BYTES >> 20);
    set_error(h, &h->memory_place, text);
  }
  if (h->error.failed || !h->error.data) return attune_fail(ATTUNE_NO_MEMORY, "an error's text");
  return attune_fail(ATTUNE_TEMPLATE, "%s", h->error.data);
}

static attune_status expand(host *h) {
  lua_State *lua = lua_newstate(limited_alloc, h);
  if (!lua) return attune_fail(ATTUNE_NO_MEMORY, "a Lua state for %s", h->job->root);
  h->lua = lua;
  *(host **)lua_getextraspace(lua) = h;
  lua_sethook(lua, count_steps, LUA_MASKCOUNT, STEPS_PER_HOOK);
  lua_pushcfunction(lua, on_error);
  lua_pushcfunction(lua, run);
  int code = lua_pcall(lua, 0, 0, 1);
  attune_status status = code == LUA_OK ? ATTUNE_OK : failed(h, code);
  lua_close(lua);
  if (status == ATTUNE_OK && h->out->failed)
    status = attune_fail(ATTUNE_NO_MEMORY, "the text of %s", h->job->root);
  return status;
}

/* Numbers in and out of Lua follow the thread's locale: it is "C" for as long as Lua runs. */
attune_status attune__template_expand(const attune_template_job *job, attune__text *out) {
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (c == (locale_t)0) return attune_fail(ATTUNE_NO_MEMORY, "the C locale");
  host h = {.job = job, .out = out};
  locale_t before = uselocale(c);
  attune_status status = expand(&h);
  uselocale(before);
  freelocale(c);
  attune__text_free(&h.error);
  return status;
}
