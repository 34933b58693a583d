#!/usr/bin/env bash
# abi.sh - prints the binary interface that the public headers promise: per shared library the
# functions it exports, then every public enum and struct with values, sizes and offsets in bytes,
# as the compiler lays them out. runtime/abi.txt is this text as agreed: the export lists are made
# from it and the tests compare it, so that a change of the interface is an edit of that file.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."

functions() { # library, header: a declaration a line, by name
  echo "library $1"
  sed 's|/\*.*\*/||; /\/\*/,/\*\//d; /^#/d' "$2" | tr '\n' ' ' | tr ';' '\n' |
    sed -n 's/.*ATTUNE_API //p' |
    sed 's/__attribute__.*//; s/  */ /g; s/ $//; s/^/  /' | sort -t'(' -k1,1
}

# DWARF, as readelf prints it, to lines. Two passes: types are referred to before they are seen.
layouts() {
  awk '
    function value(line) {
      sub(/^[^:]*: */, "", line); sub(/^\(.*\): /, "", line); sub(/[ \t]*\t\(.*$/, "", line)
      return line
    }
    function decimal(text,   i, n) { # readelf prints what does not fit 16 bits in hexadecimal
      if (text !~ /^0x/) return text
      for (i = 3; i <= length(text); i++) n = n * 16 + index("0123456789abcdef", substr(text, i, 1)) - 1
      return n
    }
    function spelled(id,   inner) { # the C type behind an id
      if (id == "") return "void"
      inner = name[id]
      if (tag[id] == "pointer_type") return spelled(type[id]) " *"
      if (tag[id] == "const_type") return "const " spelled(type[id])
      if (tag[id] == "array_type") return spelled(type[id]) "[" count[id] "]"
      if (tag[id] == "subroutine_type") return "function"
      return inner
    }
    / DW_TAG_/ || /\(DW_TAG_/ {
      id = $1; depth = id; sub(/^<[0-9a-f]+></, "", id); sub(/>.*/, "", id)
      sub(/^</, "", depth); sub(/>.*/, "", depth)
      tag[id] = $0; sub(/.*DW_TAG_/, "", tag[id]); sub(/\).*/, "", tag[id])
      if (depth == 1) { top = id; order[++total] = id } else { child[top, ++children[top]] = id }
      next
    }
    /DW_AT_name/ { name[id] = value($0) }
    /DW_AT_byte_size/ { size[id] = decimal(value($0)) }
    /DW_AT_data_member_location/ { at[id] = decimal(value($0)) }
    /DW_AT_const_value/ { number[id] = decimal(value($0)) }
    /DW_AT_upper_bound/ { count[top] = value($0) + 1 }
    /DW_AT_type/ { t = value($0); sub(/^<0x/, "", t); sub(/>.*/, "", t); type[id] = t }
    END {
      for (i = 1; i <= total; i++) {
        id = order[i]
        kind = tag[id] == "structure_type" ? "struct" : tag[id] == "enumeration_type" ? "enum" : ""
        public = name[id] ~ /^attune_/ || name[child[id, 1]] ~ /^ATTUNE_/
        if (!kind || size[id] == "" || !public) continue
        print kind, name[id] == "" ? "(no name)" : name[id], size[id]
        for (c = 1; c <= children[id]; c++) {
          m = child[id, c]
          if (kind == "enum") print "  " number[m] " " name[m]
          else print "  " at[m] " " name[m] ": " spelled(type[m])
        }
      }
    }'
}

# shellcheck disable=SC2016 # a name, not a command
echo '# The binary interface as agreed; see abi.sh, which made it (`make abi`).'
functions libattune runtime/attune.h
functions libattune_cpu runtime/attune_cpu.h
functions libattune_gen gen/jit.h
object=$(mktemp)
trap 'rm -f "$object"' EXIT
gcc -x c -std=c11 -gdwarf-4 -fno-eliminate-unused-debug-types -Iruntime -I. -c -o "$object" - <<'C'
#include "attune_cpu.h"
#include "gen/jit.h"
C
readelf --debug-dump=info "$object" | layouts
