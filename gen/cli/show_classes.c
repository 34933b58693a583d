/* show_classes.c - what the JIT takes for each class of shapes, for `attune explain`.
 *
 * Input: a request, a shape. Output: a line for each class, with the shape that stands for it and
 * the planner's first choice there. Rows that were measured go before; show_rows.c has them. */
#include "show_classes.h"

#include "show.h"

#include <string.h>

typedef struct line {
  attune_class cls;
  int here; /* it is the class of the shape that is explained */
  attune_plan plan;
} line;

/* 0 when nothing fits. */
static int plan_line(const attune_request *request, int part, attune_class cls,
                     const attune_shape *shape, line *out) {
  *out = (line){.cls = cls, .here = cls == attune__class_of(shape)};
  const attune_plan_request ask =
      attune__request_plan(request, part, cls, out->here ? shape->len_k : 0);
  return !attune__plan_make(&ask, &out->plan);
}

static void put_line(const line *l, attune__text *out) {
  const attune_plan_request *r = &l->plan.request;
  attune__text_printf(out, "%c %-11s %-30s  ", l->here ? '>' : ' ', attune__class_name((int)l->cls),
                      l->plan.candidates[0].name);
  show_shape(out, &r->variant, &r->shape);
  attune__text_puts(out, "\n");
}

static void json_line(const line *l, attune__json *json) {
  attune__json_begin(json, '{');
  show_json_text(json, "class", attune__class_name((int)l->cls));
  attune__json_key(json, "this"), attune__json_bool(json, l->here);
  show_json_text(json, "tile", l->plan.candidates[0].name);
  show_json_shape(json, &l->plan.request.shape);
  attune__json_end(json, '}');
}

static void each(const attune_request *request, int part, const attune_shape *shape,
                 attune__text *out, attune__json *json) {
#define X(name, id, text, doc) ATTUNE_CLASS_##name,
  static const attune_class all[] = {ATTUNE_CLASSES(X)};
#undef X
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    line l;
    if (all[i] == ATTUNE_CLASS_ANY) continue;
    if (plan_line(request, part, all[i], shape, &l)) {
      if (out) put_line(&l, out);
      if (json) json_line(&l, json);
    }
    attune__plan_free(&l.plan);
  }
}

void show_classes(attune__text *out, const attune_request *request, int part,
                  const attune_shape *shape) {
  attune__text_puts(out,
                    "\nthe JIT's choice by class of shapes, where nothing is measured, and the "
                    "shape that it is planned for\n");
  each(request, part, shape, out, NULL);
}

void show_classes_json(attune__json *json, const attune_request *request, int part,
                       const attune_shape *shape) {
  show_json_text(json, "class", attune__class_name((int)attune__class_of(shape)));
  attune__json_key(json, "jit");
  attune__json_begin(json, '[');
  each(request, part, shape, NULL, json);
  attune__json_end(json, ']');
}
