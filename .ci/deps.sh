#!/usr/bin/env bash
# deps.sh [--check] - what building and testing attune needs on Debian: says what is missing, installs
# it with apt-get (sudo when not root), fetches NVRTC with pip when no CUDA toolkit has it.
# --check only answers: exit 0 when everything is there. --nvdisasm fetches the disassembler that
# tests/sass.sh reads machine code with, when there is none.
set -u
cd "$(dirname "$0")/.." || exit 1

NVRTC_WHEEL=nvidia-cuda-nvrtc==13.0.88 # the version the README's figures were made with
NVDISASM_WHEEL=nvidia-cuda-nvdisasm==13.2.51

missing_packages() {
  command -v cc >/dev/null || echo gcc
  command -v g++ >/dev/null || echo g++
  command -v ar >/dev/null || echo binutils
  command -v cmake >/dev/null || echo cmake
  command -v groff >/dev/null || echo groff-base
  command -v python3 >/dev/null || echo python3
  command -v cargo >/dev/null || echo cargo
  [ -e /usr/include/stdio.h ] || echo libc6-dev
  if command -v pkg-config >/dev/null; then
    pkg-config --exists lua5.4 || echo liblua5.4-dev
    pkg-config --exists yaml-0.1 || echo libyaml-dev
    pkg-config --exists check || echo check
    pkg-config --exists libmd || echo libmd-dev
    pkg-config --exists libzstd || echo libzstd-dev
  else
    echo pkg-config liblua5.4-dev libyaml-dev check libmd-dev libzstd-dev
  fi
}

# The same places, in the same order, as gen/nvrtc.c looks.
have_nvrtc() {
  [ -n "${ATTUNE_NVRTC:-}" ] && [ -e "$ATTUNE_NVRTC" ] && return 0
  { ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | grep -qE 'libnvrtc\.so\.1[23]' && return 0
  local f
  for f in /usr/local/cuda/lib64/libnvrtc.so.1[23] build/nvrtc/nvidia/*/lib/libnvrtc.so.1[23]; do
    [ -e "$f" ] && return 0
  done
  return 1
}

root() { if [ "$(id -u)" -eq 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else return 1; fi; }

install_packages() { # names...
  echo "deps: installing with apt-get: $*"
  if command -v apt-get >/dev/null && root true; then
    root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" ||
      { root apt-get update && root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; } ||
      return 1
  else
    echo "deps: cannot install here (no apt-get, or neither root nor sudo). As root, run:" >&2
    echo "  apt-get update && apt-get install -y --no-install-recommends $*" >&2
    return 1
  fi
}

fetch_wheel() { # wheel folder
  python3 -m pip --version >/dev/null 2>&1 || install_packages python3-pip || return 1
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps \
    --only-binary=:all: --target "$2" "$1"
}

have_nvdisasm() {
  local f
  for f in "${ATTUNE_NVDISASM:-}" "$(command -v nvdisasm)" /usr/local/cuda/bin/nvdisasm build/nvdisasm/nvidia/*/bin/nvdisasm; do
    [ -n "$f" ] && [ -f "$f" ] && return 0
  done
  return 1
}

fetch_nvrtc() {
  echo "deps: no NVRTC found; fetching NVIDIA's wheel $NVRTC_WHEEL into build/nvrtc"
  fetch_wheel "$NVRTC_WHEEL" build/nvrtc && return 0
  echo "deps: NVRTC could not be fetched. Install a CUDA toolkit (12 or 13), or on a machine with a network:" >&2
  echo "  python3 -m pip download --no-deps $NVRTC_WHEEL" >&2
  echo "and unpack the wheel into build/nvrtc, or set ATTUNE_NVRTC to a libnvrtc.so.13." >&2
  return 1
}

if [ "${1:-}" = --nvdisasm ]; then
  have_nvdisasm || fetch_wheel "$NVDISASM_WHEEL" build/nvdisasm
  exit
fi
packages=$(missing_packages)
if [ "${1:-}" = --check ]; then
  [ -z "$packages" ] && have_nvrtc
  exit
fi
# shellcheck disable=SC2086 # a list of names
[ -z "$packages" ] || install_packages $packages || exit 1
have_nvrtc || fetch_nvrtc || exit 1
