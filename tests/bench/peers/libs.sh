#!/bin/sh
# Copies what attune's shared libraries need beside libc (Lua, libyaml, libmd, zstd) to DIR, for a GPU machine that has no
# packages: libs.sh BUILD DIR
set -eu
build=${1:?usage: libs.sh BUILD DIR}
dir=${2:?usage: libs.sh BUILD DIR}
mkdir -p "$dir"
for name in lua5.4 yaml md zstd; do
  file=$(ldd "$build/libattune_gen.so.0" "$build/libattune.so.0" | sed -n "s,^.*lib${name}[-.][^ ]* => \(/[^ ]*\) .*,\1,p" | sort -u)
  [ -n "$file" ] || { echo "libs.sh: $build/libattune_gen.so.0 needs no lib$name" >&2; exit 1; }
  cp -L "$file" "$dir/"
done
ls -l "$dir"
