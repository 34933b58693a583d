#!/usr/bin/env bash
# layers.sh - one direction of dependencies: runtime <- gen <- tests. Fails on an upward include, on
# Lua/YAML/NVRTC in the runtime, and on a template that includes anything.
set -u
cd "$(dirname "$0")/.." || exit 1
bad=0
complain() { # reason, pattern, files...
  local reason=$1 pattern=$2 hits
  shift 2
  hits=$(grep -nE "$pattern" "$@" 2>/dev/null) && { echo "layers: $reason"; echo "$hits"; bad=1; }
}
mapfile -t runtime < <(find runtime -path runtime/examples -prune -o \( -name '*.[ch]' -o -name '*.def' \) -print)
mapfile -t gen < <(find gen -name '*.[ch]' -o -name '*.def')
mapfile -t templates < <(find templates -name '*.cu' -o -name '*.cuh')
complain "runtime/ must not see gen/ or tests/" '#include "(\.\./)*(gen|tests|cli)/' "${runtime[@]}"
complain "runtime/ knows no Lua, YAML or NVRTC" '#include [<"](lua|lualib|lauxlib|yaml|nvrtc)' "${runtime[@]}"
complain "gen/ must not see tests/" '#include "(\.\./)*tests/' "${gen[@]}"
complain "nothing needs the CUDA toolkit to build" '#include [<"]cuda' "${runtime[@]}" "${gen[@]}"
complain "generated CUDA is self-contained" '^ *#include' "${templates[@]}"
dup=$(find runtime gen tests -path gen/cli -prune -o \( -name '*.[ch]' \) ! -path '*/golden/*' -printf '%f\n' | sort | uniq -d)
[ -z "$dup" ] || { echo "layers: file names are unique in the tree: $dup"; bad=1; }
exit $bad
