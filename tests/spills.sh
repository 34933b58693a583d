#!/usr/bin/env bash
# spills.sh BUILD [SPEC...] - compiles every kernel of the specs (default: all of specs/) for every
# arch that attune generates for, and fails when one spills registers, keeps a stack frame or draws a
# warning of the compiler, also where another candidate can take its place: the planner counted wrong. A spec
# whose SRAM budget or family an arch has not is named. Needs NVRTC, no GPU.
# Compiled kernels are kept in BUILD/spills: a second run compiles what changed. Set JOBS for compiles at once (default: as many as cores).
set -eu
cd "$(dirname "$0")/.."
attune="$1/attune" sets="$1/spills"
shift
[ $# -gt 0 ] || set -- specs/*.yaml specs/models/*.yaml
archs=$(sed -n 's/^  X("\(sm_[^"]*\)".*/\1/p' gen/arch.def)
failed=0 kernels=0
for arch in $archs; do
  for spec in "$@"; do
    set_folder="$sets/$arch/$(basename "$spec" .yaml)"
    mkdir -p "$set_folder"
    log="$set_folder.log"
    if "$attune" build "$spec" --arch "$arch" -o "$set_folder" -j "${JOBS:-$(nproc)}" >"$log" 2>&1 &&
      ! grep -q 'next candidates are tried' "$log"; then
      count=$("$attune" list "$set_folder" --count)
      kernels=$((kernels + count))
    elif grep -q "sram: .* is over what $arch offers" "$log"; then
      echo "$arch has no room for $spec: $(grep -o 'sram: .*' "$log" | head -n 1)"
    elif grep -q "error: arch $arch with family" "$log"; then
      echo "$arch has no family that $spec names: $(grep -o 'family [a-z]*: .*' "$log" | head -n 1)"
    else
      failed=$((failed + 1))
      echo "$arch $spec:"
      grep -E 'error|spill|stack|warning' "$log" || tail -n 3 "$log"
    fi
  done
done
echo "$kernels kernels of $# specs for $(echo "$archs" | wc -w) archs are clean; $failed sets are not"
[ "$failed" -eq 0 ]
