#!/bin/sh
# embed.sh FILE... - writes a C file that holds the templates' bytes; FILEs are templates/... paths.
# Output: attune__embedded[] (path below templates/, bytes) and attune__embedded_count, sorted by path.
set -eu
echo '#include "gen/template.h"'
echo 'extern const attune_template_file attune__embedded[];'
echo 'extern const int attune__embedded_count;'
n=0
for f in "$@"; do
  size=$(wc -c <"$f")
  printf '__asm__(".section .rodata\\n.balign 16\\nattune__t%d: .incbin \\"%s\\"\\n.byte 0\\n.previous\\n");\n' "$n" "$f"
  printf 'extern const char attune__t%d[];\n' "$n"
  table="${table:-}  {\"${f#templates/}\", attune__t$n, $size},
"
  n=$((n + 1))
done
printf 'const attune_template_file attune__embedded[] = {\n%s};\n' "${table:-  \{0, 0, 0\},
}"
printf 'const int attune__embedded_count = %d;\n' "$n"
