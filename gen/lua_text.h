/* lua_text.h - values as the text of a Lua table: `name = value, `. What templates see is written
 * so. */
#ifndef ATTUNE_LUA_TEXT_H
#define ATTUNE_LUA_TEXT_H

#include "text.h"

void attune__lua_string(attune__text *out, const char *name, const char *value);
void attune__lua_int(attune__text *out, const char *name, int64_t value);
void attune__lua_bool(attune__text *out, const char *name, int value);
/* The string alone, quoted. */
void attune__lua_quoted(attune__text *out, const char *string);

#endif
