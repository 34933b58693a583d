/* show_classes.h - what `attune explain` says of the JIT: the tile that it takes for each class of
 * shapes where no row was measured. */
#ifndef ATTUNE_CLI_SHOW_CLASSES_H
#define ATTUNE_CLI_SHOW_CLASSES_H

#include "../expand.h"

/* A line for each class, for part `part`; that of the shape is marked, and takes as many keys. */
void show_classes(attune__text *out, const attune_request *request, int part,
                  const attune_shape *shape);
/* "class": the shape's; "jit": the lines as a list. */
void show_classes_json(attune__json *json, const attune_request *request, int part,
                       const attune_shape *shape);

#endif
