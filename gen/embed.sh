#!/bin/sh
# embed.sh FILE... - writes a C file that holds the templates' bytes; FILEs are templates/... paths.
# Output: attune__embedded[] (path below templates/, bytes) and attune__embedded_count, sorted by path.
# ATTUNE_EMBED in the environment: another name for attune__embedded.
set -eu
name=${ATTUNE_EMBED:-attune__embedded}
echo '#include "gen/template.h"'
echo "extern const attune_template_file ${name}[];"
echo "extern const int ${name}_count;"
n=0
for f in "$@"; do
  size=$(wc -c <"$f")
  printf '__asm__(".section .rodata\\n.balign 16\\n%s_%d: .incbin \\"%s\\"\\n.byte 0\\n.previous\\n");\n' "$name" "$n" "$f"
  printf 'extern const char %s_%d[];\n' "$name" "$n"
  table="${table:-}  {\"${f#templates/}\", ${name}_$n, $size},
"
  n=$((n + 1))
done
none='  {0, 0, 0},
'
printf 'const attune_template_file %s[] = {\n%s};\n' "$name" "${table:-$none}"
printf 'const int %s_count = %d;\n' "$name" "$n"
