#!/usr/bin/env bash
# gpu.sh BUILD - what needs an NVIDIA GPU, from the repository root: every kernel of the default set, of the
# CI matrix and of every family's whole matrix against float64, stream capture, launch time, tuning, the examples. Needs nothing but BUILD/.
# Closes with "N passed, N failed".
set -u
build=$1
passed=0 failed=0
step() { # name, command...
  local name=$1
  shift
  echo "== $name"
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "== $name FAILED"; fi
}
# A set as it was planned: no candidate had to stand in for another.
build_set() { # SPEC NAME
  local log="$build/$2.log" rc=0
  "$build/attune" build "$1" --arch native -o "$build/sets/$2" >"$log" 2>&1 || rc=1
  cat "$log"
  [ $rc -eq 0 ] && ! grep -q 'next candidates are tried' "$log"
}
# A set in as many processes as there are cores: what takes long is the reference.
verify_set() {
  local n
  n=$(nproc)
  seq "$n" | xargs -P "$n" -I{} "$build/attune" verify "$1" --quick --part "{}/$n"
}
export ATTUNE_CACHE_DIR="${ATTUNE_CACHE_DIR:-$build/cache}"

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader || {
  echo "gpu.sh: no NVIDIA GPU here" >&2
  exit 3
}
step "default set" "$build/attune" verify specs/default.yaml --arch native
step "CI matrix" "$build/attune" verify specs/ci.yaml --arch native
step "features in CI" "$build/attune" verify specs/ci_features.yaml --arch native
step "every problem, built" build_set tests/gpu/features.yaml features
step "every problem, few cases" verify_set "$build/sets/features"
step "whole matrix, built" build_set tests/gpu/matrix.yaml matrix
step "whole matrix, few cases" verify_set "$build/sets/matrix"
step "short and middle lengths, built" build_set tests/gpu/lengths.yaml lengths
step "short and middle lengths, few cases" verify_set "$build/sets/lengths"
step "example" "$build/examples/hello"
step "embedded example" "$build/examples/embedded" cuda
step "standalone example" "$build/examples/standalone" cuda
step "stream capture" "$build/tests/gpu/capture"
step "host time of a launch" "$build/tests/gpu/host_time"
rm -rf "$build/tuning-store" && mkdir -m 700 "$build/tuning-store"
step "tuning in a program" "$build/tests/gpu/tuning" "$build/attune" "$build/tuning-store"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
