/* diag.c - version, status names and texts, and the thread's error message.
 *
 * Input: a status and a printf format. Output: the text that attune_error() returns. Formatting is
 * left to vsnprintf: callers never pass a double, whose point would follow the locale. */
#include "attune.h"

#include <stdarg.h>
#include <stdio.h>

enum { MESSAGE_BYTES = 4096 };

static _Thread_local char message[MESSAGE_BYTES];

const char *attune_version(void) {
  return ATTUNE_VERSION_TEXT;
}

const char *attune_status_name(attune_status status) {
  switch (status) {
#define X(name, code, text)                                                                        \
  case ATTUNE_##name:                                                                              \
    return "ATTUNE_" #name;
    ATTUNE_STATUSES(X)
#undef X
  }
  return "ATTUNE_?";
}

const char *attune_status_text(attune_status status) {
  switch (status) {
#define X(name, code, text)                                                                        \
  case ATTUNE_##name:                                                                              \
    return text;
    ATTUNE_STATUSES(X)
#undef X
  }
  return "unknown status";
}

const char *attune_error(void) {
  return message;
}

attune_status attune_fail(attune_status status, const char *format, ...) {
  /* Written aside first: an argument may be attune_error() itself, wrapped in more context. */
  char text[MESSAGE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (length < 0) text[0] = 0;
  if (length >= MESSAGE_BYTES) memcpy(text + sizeof text - 4, "...", 4);
  memcpy(message, text, strlen(text) + 1);
  return status;
}
