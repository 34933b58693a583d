#!/usr/bin/env bash
# sass.sh [BUILD] [FILE] - reads the machine code of the tiles that are shipped for an H200 (rows of bf16, d 64 to 256,
# full and causal, from some hundred keys on) and says where the softmax of each loop stands against the wait for P V:
# ptxas moves exponentials across it, which costs up to 15 % and no test of numbers can see. Compared with
# tests/golden/sass.txt when the compiler is the one that made it; with FILE the lines are written there instead.
# Exit 1: they differ; 3: there is no nvdisasm.
set -eu
cd "$(dirname "$0")/.."
build="${1:-build}"
out="${2:-}"
set_folder="$build/sets/sass"
golden=tests/golden/sass.txt

# A toolkit's, or that of NVIDIA's wheel, where .ci/deps.sh puts it.
disassembler() {
  local f
  for f in "${ATTUNE_NVDISASM:-}" "$(command -v nvdisasm || true)" /usr/local/cuda/bin/nvdisasm build/nvdisasm/nvidia/*/bin/nvdisasm; do
    if [ -n "$f" ] && [ -f "$f" ]; then
      echo "$f"
      return
    fi
  done
  echo "sass: no nvdisasm: .ci/deps.sh --nvdisasm fetches it, or set ATTUNE_NVDISASM" >&2
  exit 3
}

nvdisasm=$(disassembler)
[ -x "$nvdisasm" ] || chmod +x "$nvdisasm"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A kernel's data sheet has the spec that it alone is made from.
build_one() { # PROGRAM NAME SET LOG
  "$1" emit "$2" | sed -n 's,^// spec *,,p' >"$4.yaml"
  "$1" build "$4.yaml" -o "$3" >"$4" 2>&1 || {
    cat "$4"
    return 1
  }
}
export -f build_one
names=$(sed -n 's/.*variant: \(attn_fwd_sm90a_bf16_d[0-9x]*\(_causal\)\?\), class: \(medium\|long\)_many, tile: \([a-z0-9_]*\),.*/\1__\4/p' \
  specs/tuned/nvidia-h200.yaml | grep -E '_d(64|128|192x128|256)_' | sort -u)
[ -n "$names" ]
echo "$names" | xargs -P 2 -I{} bash -c 'build_one "$@"' - "$build/attune" {} "$set_folder/{}" "$work/{}.log"

# An entry has its cubin raw, behind the head: from the ELF's magic number on.
for name in $names; do
  entry=$set_folder/$name/$name.entry
  at=$(LC_ALL=C grep -abo $'\x7fELF' "$entry" | awk -F: 'NR == 1 {print $1}')
  tail -c "+$((at + 1))" "$entry" >"$work/cubin"
  "$nvdisasm" -c "$work/cubin" | awk -v name="$name" -f tests/sass.awk >>"$work/lines"
done
{
  echo "# Written by tests/sass.sh from the code of $("$build/attune" doctor | sed -n 's/^compiler *\(nvrtc [0-9.]*\).*/\1/p')"
  cat "$work/lines"
} >"$work/now"

if [ -n "$out" ]; then
  cp "$work/now" "$out"
  exit
fi
cat "$work/now"
if [ "$(head -1 "$golden")" != "$(head -1 "$work/now")" ]; then
  echo "sass: $golden is of another compiler; what changed:"
  diff "$golden" "$work/now" || true
elif ! diff -u "$golden" "$work/now"; then
  echo "sass: the order of the machine code changed; make golden writes $golden again"
  exit 1
fi
