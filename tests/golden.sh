#!/bin/sh
# golden.sh [PROGRAM] - writes tests/golden/*.cu again, each from the kernel that its file is named
# after. Then read `git diff tests/golden`: it is what a change of the templates does to kernels.
set -eu
attune="${1:-build/attune}"
for file in tests/golden/*.cu; do
  "$attune" emit "$(basename "$file" .cu)" -o "$file"
done
