#!/usr/bin/env bash
# sass.sh [BUILD] [FILE] - reads the machine code of the kernels in tests/sass.yaml and says where the softmax of each
# loop stands against the wait for P V: ptxas moves exponentials across it, which costs up to 15 % and no test of
# numbers can see. Compared with tests/golden/sass.txt when the compiler is the one that made it; with FILE the lines
# are written there instead. Exit 1: they differ; 3: there is no nvdisasm.
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

"$build/attune" build tests/sass.yaml -o "$set_folder" >"$work/log" || {
  cat "$work/log"
  exit 1
}

# An entry has its cubin raw, behind the head: from the ELF's magic number on.
for name in $("$build/attune" list "$set_folder" | awk '{print $1}'); do
  at=$(LC_ALL=C grep -abo $'\x7fELF' "$set_folder/$name.entry" | awk -F: 'NR == 1 {print $1}')
  tail -c "+$((at + 1))" "$set_folder/$name.entry" >"$work/cubin"
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
