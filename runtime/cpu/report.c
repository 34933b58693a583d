/* report.c - faults as text: kernel, block, warp, lane, the template's line, what happened. */
#include "engine.h"

#include <stdarg.h>
#include <stdio.h>

_Noreturn void attune__fault(attune__warp *w, int lane, const char *format, ...) {
  attune__engine *e = w->engine;
  char where[256], who[64] = "", text[1024];
  attune__ptx_where(e->launch->program, w->at->place, where, sizeof where);
  if (lane >= 0) snprintf(who, sizeof who, ", lane %d", lane);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  snprintf(e->fault, sizeof e->fault, "kernel %s, block %u, warp %u%s, %s: %s", e->launch->kernel,
           w->block->index, w->index, who, where, text);
  longjmp(e->escape, 1);
}

static void append(attune__engine *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void append(attune__engine *e, const char *format, ...) {
  size_t used = strlen(e->fault);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(e->fault + used, sizeof e->fault - used, format, arguments);
  va_end(arguments);
}

/* "has returned", "at fma.cu:131 waits at barrier 0, 96 of 128 threads arrived". */
static void describe(const attune__warp *w, char out[512]) {
  char where[192], what[256];
  if (w->state == ATTUNE__EXITED) {
    snprintf(out, 512, "has returned");
    return;
  }
  attune__ptx_where(w->engine->launch->program, w->at->place, where, sizeof where);
  w->describe(w, what, sizeof what);
  snprintf(out, 512, "at %s waits at %s", where, what);
}

/* Whether a warp of the same block before this one said the same. */
static int is_named(const attune__engine *e, uint32_t k, const char *text) {
  char other[512];
  for (uint32_t j = 0; j < k; j++) {
    if (e->warp[j].block != e->warp[k].block) continue;
    describe(&e->warp[j], other);
    if (strcmp(other, text) == 0) return 1;
  }
  return 0;
}

/* Warps that say the same stand together: "warp 0, 1 has returned; warp 2, 3 at ...". */
void attune__report_deadlock(attune__engine *e) {
  char text[512], other[512];
  const char *between = " ";
  snprintf(e->fault, sizeof e->fault, "kernel %s, block %u: deadlock:", e->launch->kernel,
           e->block[0].index);
  for (uint32_t k = 0; k < e->warps; k++) {
    const attune__warp *w = &e->warp[k];
    describe(w, text);
    if (is_named(e, k, text)) continue;
    append(e, "%s", between);
    if (e->blocks > 1) append(e, "block %u ", w->block->index);
    append(e, "warp %u", w->index);
    for (uint32_t j = k + 1; j < e->warps && e->warp[j].block == w->block; j++) {
      describe(&e->warp[j], other);
      if (strcmp(other, text) == 0) append(e, ", %u", e->warp[j].index);
    }
    append(e, " %s", text);
    between = "; ";
  }
}
