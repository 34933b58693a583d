/* lua_text.c - values as the text of a Lua table. Which values is the callers' business. */
#include "lua_text.h"

void attune__lua_quoted(attune__text *out, const char *string) {
  attune__text_puts(out, "\"");
  for (; *string; string++) {
    unsigned char c = (unsigned char)*string;
    if (c < ' ' || c == '"' || c == '\\' || c > '~')
      attune__text_printf(out, "\\%03d", c);
    else
      attune__text_add(out, string, 1);
  }
  attune__text_puts(out, "\"");
}

void attune__lua_string(attune__text *out, const char *name, const char *value) {
  attune__text_printf(out, "%s = ", name);
  attune__lua_quoted(out, value);
  attune__text_puts(out, ", ");
}

void attune__lua_int(attune__text *out, const char *name, int64_t value) {
  attune__text_printf(out, "%s = %lld, ", name, (long long)value);
}

void attune__lua_bool(attune__text *out, const char *name, int value) {
  attune__text_printf(out, "%s = %s, ", name, value ? "true" : "false");
}
