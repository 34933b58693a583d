/* yaml.h - YAML text as a small tree of nodes with their places, from libyaml's events.
 *
 * Only the part of YAML that a spec needs: maps with words as keys, lists, scalars. Everything that
 * makes YAML surprising is refused by name: anchors, aliases, tags, merge keys, directives, several
 * documents, duplicate keys. What a scalar means is left to the caller; no text is ever taken for a
 * boolean, a null or a number here. */
#ifndef ATTUNE_YAML_H
#define ATTUNE_YAML_H

#include "spec.h"

enum {
  ATTUNE_YAML_MAX_BYTES = 64 * 1024,
  ATTUNE_YAML_MAX_DEPTH = 32 /* lists and maps within each other */
};

typedef enum attune__yaml_kind {
  ATTUNE_YAML_SCALAR = 1,
  ATTUNE_YAML_LIST,
  ATTUNE_YAML_MAP
} attune__yaml_kind;

typedef struct attune__node {
  attune__yaml_kind kind;
  int line, column;                  /* from 1; columns in characters */
  int plain;                         /* a scalar without quotes */
  int refused;                       /* reported already: an alias, a merge or double key */
  const struct attune__node *key;    /* of an item of a map: its key, a scalar */
  struct attune__node *first, *last; /* items of a list or map, linked by next */
  struct attune__node *next;
  struct attune__node *made_before; /* all nodes of the document, for freeing */
  char text[];                      /* of a scalar; NUL-terminated, "" of others */
} attune__node;

typedef struct attune__yaml {
  attune__node *root;   /* NULL for an empty document */
  attune__node *newest; /* chain of made_before */
  int complete;         /* 1: all of the text was read */
} attune__yaml;

/* Text -> tree. Faults go to `diags`; the tree then holds what could be read, see `complete`.
 * ATTUNE_NO_MEMORY is the only failure. The bytes are checked first: size, UTF-8, control
 * characters. */
attune_status attune__yaml_parse(const char *bytes, size_t size, attune__yaml *out,
                                 attune_diags *diags);
/* The same for files of another size at most. */
attune_status attune__yaml_parse_up_to(size_t most, const char *bytes, size_t size,
                                       attune__yaml *out, attune_diags *diags);
void attune__yaml_free(attune__yaml *yaml);

/* Why no spec may hold the character of `length` bytes (attune__utf8_bytes) at s; NULL: it may. */
const char *attune__yaml_character_fault(const char *s, size_t length);

/* Bytes of a byte order mark at the start; positions and printed lines do not count it. */
size_t attune__yaml_bom(const char *bytes, size_t size);

#endif
