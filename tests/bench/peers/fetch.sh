#!/bin/sh
# Fetches the peers that PyPI carries, pinned, and lays them out for a GPU machine without network: DIR/fa3.tar.xz, DIR/fa4.0 and
# DIR/fa4.1 (each small enough to be carried in one go; 80 MB in all). tests/bench/peers.sh unpacks them there.
set -eu
dir=${1:?usage: fetch.sh DIR}
mkdir -p "$dir/w3" "$dir/w4"
cd "$dir"
get() {
  out=$1
  shift
  python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_24_x86_64 \
    --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 -d "$out" "$@"
}
get w3 fa3-fwd==0.0.3
get w4 flash-attn-4==4.0.0b36 nvidia-cutlass-dsl==4.8.1 nvidia-cutlass-dsl-libs-base==4.8.1 nvidia-cutlass-dsl-libs-core==4.8.1 \
  nvidia-cutlass-dsl-libs-cu13==4.8.1 quack-kernels==0.6.5 apache-tvm-ffi==0.1.15.post2 torch-c-dlpack-ext==0.1.5
for n in 3 4; do
  mkdir -p "s$n"
  for wheel in "w$n"/*.whl; do unzip -qo "$wheel" -d "s$n"; done
  rm -rf "s$n/nvidia_cutlass_dsl/cu13/lib/stubs"
done
tar -C s3 -c . | xz -T0 -6 > fa3.tar.xz
tar -C s4 -c . | xz -T0 -6 | split -b 40m -d -a 1 - fa4.
rm -rf w3 w4 s3 s4
ls -l
