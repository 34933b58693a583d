#!/bin/sh
# golden.sh [PROGRAM] - writes tests/golden/*.cu again, each from the kernel that its file is named
# after, and in specs/README.md the table of what combines with what. Then read `git diff`: it is
# what a change of the templates does to kernels, and one of the rules to what a spec may ask for.
set -eu
attune="${1:-build/attune}"
for file in tests/golden/*.cu; do
  "$attune" emit "$(basename "$file" .cu)" -o "$file"
done

# What stands between the two marks of a file is what the program says now.
table="$(mktemp)"
trap 'rm -f "$table" "$table.new"' EXIT
"$attune" list --combinations >"$table"
for file in README.md specs/README.md; do
  grep -q '^<!-- combinations -->$' "$file" || continue
  awk -v table="$table" '
    /^<!-- end of combinations -->$/ { inside = 0 }
    !inside { print }
    /^<!-- combinations -->$/ { inside = 1; while ((getline line < table) > 0) print line; close(table) }
  ' "$file" >"$table.new"
  cat "$table.new" >"$file"
done
