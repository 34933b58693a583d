/* yaml.c - libyaml's events -> the tree of yaml.h, with a diagnostic for all that is refused.
 *
 * Input: the bytes of a file. Output: nodes, and diagnostics at their line and column. libyaml
 * takes quadratic time on deep nesting, so reading stops at the first event beyond the allowed
 * depth: its look-ahead is at most 1024 characters. Reading files stands in spec_file.c, meaning in
 * spec*.c. */
#include "yaml.h"

#include <stdlib.h>
#include <yaml.h>

/* An open list or map. */
typedef struct level {
  attune__node *node;
  attune__node *key; /* of a map: read, and waiting for its value */
} level;

typedef struct builder {
  attune__yaml *yaml;
  attune_diags *diags;
  level level[ATTUNE_YAML_MAX_DEPTH];
  int depth, documents, no_memory, stop;
} builder;

/* ---- bytes ---- */

size_t attune__yaml_bom(const char *bytes, size_t size) {
  return size >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3) ? 3 : 0;
}

/* Beside the controls, the Unicode line ends are refused: libyaml would count lines that an editor
 * does not. */
const char *attune__yaml_character_fault(const char *s, size_t length) {
  unsigned char first = (unsigned char)s[0], second = length > 1 ? (unsigned char)s[1] : 0;
  if (length == 0) return "not UTF-8";
  if (first == 0) return "a NUL byte";
  if (first < 0x20 && !strchr("\t\n\r", first)) return "a control character";
  if (first == 0x7f || (first == 0xc2 && second < 0xa0)) return "a control character";
  if (first == 0xe2 && second == 0x80 && ((unsigned char)s[2] & 0xfe) == 0xa8)
    return "a Unicode line separator";
  if (first == 0xef && second == 0xbb && (unsigned char)s[2] == 0xbf)
    return "a byte order mark within the text";
  if (first == 0xef && second == 0xbf && (unsigned char)s[2] >= 0xbe) return "not a character";
  return NULL;
}

/* Reports the first byte that no spec may hold; 1 when all are fine. */
static int check_bytes(size_t most, const char *bytes, size_t size, attune_diags *diags) {
  int line = 1, column = 1;
  for (size_t at = 0; at < size; column++) {
    size_t length = attune__utf8_bytes(bytes + at, size - at);
    const char *fault = attune__yaml_character_fault(bytes + at, length);
    if (at >= most) {
      attune__diag_add(diags, line, column, "split the spec into several files",
                       "the file is over %zu KiB", most / 1024);
      return 0;
    }
    if (fault) {
      attune__diag_add(diags, line, column, "save the file as plain UTF-8 text", "%s (byte 0x%02x)",
                       fault, (unsigned)(unsigned char)bytes[at]);
      return 0;
    }
    int crlf = bytes[at] == '\r' && at + 1 < size && bytes[at + 1] == '\n';
    if (bytes[at] == '\n' || (bytes[at] == '\r' && !crlf)) {
      line++;
      column = 0;
    }
    at += length;
  }
  return 1;
}

/* ---- nodes ---- */

static attune__node *node_make(builder *b, attune__yaml_kind kind, const yaml_mark_t *mark,
                               const char *text, size_t size) {
  attune__node *node = calloc(1, sizeof *node + size + 1);
  if (!node) {
    b->no_memory = b->stop = 1;
    return NULL;
  }
  node->kind = kind;
  node->line = (int)mark->line + 1;
  node->column = (int)mark->column + 1;
  if (size) memcpy(node->text, text, size);
  node->made_before = b->yaml->newest;
  b->yaml->newest = node;
  return node;
}

void attune__yaml_free(attune__yaml *yaml) {
  for (attune__node *node = yaml->newest; node;) {
    attune__node *before = node->made_before;
    free(node);
    node = before;
  }
  *yaml = (attune__yaml){0};
}

static void append(attune__node *parent, attune__node *item) {
  if (parent->last)
    parent->last->next = item;
  else
    parent->first = item;
  parent->last = item;
}

/* Comparing with the first 64 keys is enough: no map of a spec knows that many, so among more there
 * is an unknown or a double one before, and the spec is refused. */
static void check_key(builder *b, const attune__node *map, attune__node *key) {
  int compared = 0;
  if (key->kind != ATTUNE_YAML_SCALAR) {
    attune__diag_add(b->diags, key->line, key->column, "write  name: value",
                     "a key must be a word, not a list or map");
    b->stop = 1;
    return;
  }
  if (key->refused) return;
  if (key->plain && !strcmp(key->text, "<<")) {
    attune__diag_add(b->diags, key->line, key->column, "write the keys out",
                     "merge keys are not part of a spec");
    key->refused = 1;
  }
  for (const attune__node *item = map->first; item && compared < 64; item = item->next, compared++)
    if (!strcmp(item->key->text, key->text)) {
      attune__diag_add(b->diags, key->line, key->column,
                       "keep one of them; several values make a list: [a, b]",
                       "duplicate key '%.40s': it stands first at line %d, column %d", key->text,
                       item->key->line, item->key->column);
      key->refused = 1;
      return;
    }
}

/* Hangs a node where the open list or map wants it. */
static void place(builder *b, attune__node *node) {
  if (b->depth == 0) {
    b->yaml->root = node;
    return;
  }
  level *top = &b->level[b->depth - 1];
  if (top->node->kind == ATTUNE_YAML_LIST) {
    append(top->node, node);
  } else if (!top->key) {
    check_key(b, top->node, node);
    top->key = node;
  } else {
    node->key = top->key;
    top->key = NULL;
    append(top->node, node);
  }
}

/* ---- events ---- */

static void refuse(builder *b, const yaml_mark_t *mark, const char *what, const char *help) {
  attune__diag_add(b->diags, (int)mark->line + 1, (int)mark->column + 1, help, "%s", what);
}

static void check_properties(builder *b, const yaml_mark_t *mark, const yaml_char_t *anchor,
                             const yaml_char_t *tag) {
  if (anchor)
    refuse(b, mark, "anchors are not part of a spec", "write the value out where it is needed");
  if (tag) refuse(b, mark, "tags are not part of a spec", "leave the !tag out");
}

static void on_open(builder *b, attune__yaml_kind kind, const yaml_mark_t *mark) {
  if (b->depth == ATTUNE_YAML_MAX_DEPTH) {
    refuse(b, mark, "nesting is deeper than 32", "a spec needs 4 levels at most");
    b->stop = 1;
    return;
  }
  attune__node *node = node_make(b, kind, mark, NULL, 0);
  if (!node) return;
  place(b, node);
  b->level[b->depth++] = (level){.node = node};
}

static void on_scalar(builder *b, const yaml_event_t *event) {
  check_properties(b, &event->start_mark, event->data.scalar.anchor, event->data.scalar.tag);
  attune__node *node = node_make(b, ATTUNE_YAML_SCALAR, &event->start_mark,
                                 (const char *)event->data.scalar.value, event->data.scalar.length);
  if (!node) return;
  node->plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
  if (strlen(node->text) != event->data.scalar.length)
    refuse(b, &event->start_mark, "a NUL character in a text", "leave the \\0 out");
  place(b, node);
}

/* An alias takes the place of a value, so that the rest can be read on. */
static void on_alias(builder *b, const yaml_event_t *event) {
  refuse(b, &event->start_mark, "aliases are not part of a spec",
         "write the value out where it is needed");
  attune__node *node = node_make(b, ATTUNE_YAML_SCALAR, &event->start_mark, NULL, 0);
  if (!node) return;
  node->refused = 1;
  place(b, node);
}

static void on_document(builder *b, const yaml_event_t *event) {
  int directives = event->data.document_start.version_directive ||
                   event->data.document_start.tag_directives.start !=
                       event->data.document_start.tag_directives.end;
  if (b->documents++) {
    refuse(b, &event->start_mark, "a second document in the file", "a spec is one file each");
    b->stop = 1;
  } else if (directives) {
    refuse(b, &event->start_mark, "directives are not part of a spec", "leave the % line out");
  }
}

static void on_event(builder *b, const yaml_event_t *event) {
  const yaml_mark_t *mark = &event->start_mark;
  switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
      on_document(b, event);
      break;
    case YAML_ALIAS_EVENT:
      on_alias(b, event);
      break;
    case YAML_SCALAR_EVENT:
      on_scalar(b, event);
      break;
    case YAML_SEQUENCE_START_EVENT:
      check_properties(b, mark, event->data.sequence_start.anchor, event->data.sequence_start.tag);
      on_open(b, ATTUNE_YAML_LIST, mark);
      break;
    case YAML_MAPPING_START_EVENT:
      check_properties(b, mark, event->data.mapping_start.anchor, event->data.mapping_start.tag);
      on_open(b, ATTUNE_YAML_MAP, mark);
      break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
      if (b->depth > 0) b->depth--;
      break;
    default:
      break;
  }
}

/* libyaml counts characters; the byte where one begins. */
static size_t byte_of(const char *bytes, size_t size, size_t character) {
  size_t at = 0;
  for (; character && at < size; character--) at += attune__utf8_bytes(bytes + at, size - at);
  return at;
}

/* libyaml's own words, at the place where the fault begins: what was left open when the file ends
 * is reported where it was opened. */
static void on_fault(builder *b, const yaml_parser_t *parser, const char *bytes, size_t size) {
  if (parser->error == YAML_MEMORY_ERROR) {
    b->no_memory = 1;
    return;
  }
  const yaml_mark_t *mark = &parser->problem_mark;
  size_t at = byte_of(bytes, size, mark->index);
  int tab = at < size && bytes[at] == '\t';
  if (parser->context && at >= size) mark = &parser->context_mark;
  attune__text message = {0};
  attune__text_printf(&message, "not YAML: %s", parser->problem ? parser->problem : "unreadable");
  if (parser->context && parser->context_mark.line != mark->line)
    attune__text_printf(&message, " (%s that begins at line %zu)", parser->context,
                        parser->context_mark.line + 1);
  refuse(b, mark, message.data ? message.data : "not YAML",
         tab ? "indent with spaces; YAML allows no tabs there"
             : "write  key: value  lines, lists as [a, b] and maps as {key: value}");
  attune__text_free(&message);
}

static void read_events(builder *b, yaml_parser_t *parser, const char *bytes, size_t size) {
  for (int ended = 0; !ended && !b->stop;) {
    yaml_event_t event;
    if (!yaml_parser_parse(parser, &event)) {
      on_fault(b, parser, bytes, size);
      return;
    }
    on_event(b, &event);
    ended = event.type == YAML_STREAM_END_EVENT;
    yaml_event_delete(&event);
  }
  b->yaml->complete = !b->stop;
}

attune_status attune__yaml_parse(const char *bytes, size_t size, attune__yaml *out,
                                 attune_diags *diags) {
  return attune__yaml_parse_up_to(ATTUNE_YAML_MAX_BYTES, bytes, size, out, diags);
}

attune_status attune__yaml_parse_up_to(size_t most, const char *bytes, size_t size,
                                       attune__yaml *out, attune_diags *diags) {
  *out = (attune__yaml){0};
  size_t bom = attune__yaml_bom(bytes, size);
  bytes += bom;
  size -= bom;
  if (!check_bytes(most, bytes, size, diags)) return ATTUNE_OK;
  yaml_parser_t parser;
  if (!yaml_parser_initialize(&parser)) return attune_fail(ATTUNE_NO_MEMORY, "no memory for YAML");
  builder b = {.yaml = out, .diags = diags};
  yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&parser, (const unsigned char *)bytes, size);
  read_events(&b, &parser, bytes, size);
  yaml_parser_delete(&parser);
  if (!b.no_memory) return ATTUNE_OK;
  attune__yaml_free(out);
  return attune_fail(ATTUNE_NO_MEMORY, "no memory for the spec's %zu bytes", size);
}
