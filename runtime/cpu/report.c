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

void attune__report_deadlock(attune__engine *e) {
  snprintf(e->fault, sizeof e->fault, "kernel %s, block %u: deadlock:", e->launch->kernel,
           e->block[0].index);
  for (uint32_t k = 0; k < e->warps; k++) {
    const attune__warp *w = &e->warp[k];
    char where[256], what[256] = "has returned";
    append(e, k ? "; " : " ");
    if (e->blocks > 1) append(e, "block %u ", w->block->index);
    append(e, "warp %u ", w->index);
    if (w->state == ATTUNE__EXITED) {
      append(e, "has returned");
      continue;
    }
    attune__ptx_where(e->launch->program, w->at->place, where, sizeof where);
    w->describe(w, what, sizeof what);
    append(e, "at %s waits at %s", where, what);
  }
}
