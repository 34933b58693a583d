#!/usr/bin/env bash
# exports.sh LIBRARY VERSION OBJECT... [-- OBJECT...] - the linker's version script of a shared
# library: it exports the functions that abi.txt lists for it, and nothing else to programs.
# OBJECTs are its own, after -- those of the libraries built on it: what they call of its inside is
# exported under a node named by the exact version, so that libraries of two versions refuse to
# load together instead of disagreeing.
set -eu
export LC_ALL=C
library=$1 version=$2
shift 2
own=() above=()
while [ $# -gt 0 ] && [ "$1" != -- ]; do own+=("$1") && shift; done
[ $# -gt 0 ] && shift && above=("$@")

echo "ATTUNE_${version%%.*} {"
echo "global:"
awk -v library="$library" '
  $1 == "library" { inside = $2 == library; next }
  /^[^ ]/ { inside = 0 }
  inside { sub(/\(.*/, ""); sub(/.*[ *]/, ""); print "  " $0 ";" }' "$(dirname "$0")/abi.txt"
echo "local: *;"
echo "};"
[ ${#above[@]} -gt 0 ] || exit 0
inside=$(comm -12 <(nm -g --defined-only "${own[@]}" | awk '$NF ~ /^attune__/ { print $NF }' | sort -u) \
  <(nm -u "${above[@]}" | awk '$NF ~ /^attune__/ { print $NF }' | sort -u))
[ -n "$inside" ] || exit 0
echo "ATTUNE_INSIDE_$version {"
echo "global:"
# shellcheck disable=SC2086 # a list of names
printf '  %s;\n' $inside
echo "};"
