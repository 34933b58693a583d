#!/bin/sh
# short.sh BUILD [DIR] - on an H200: tiles of short sequences side by side, a shape at a time, by `attune bench`; then, with DIR,
# the set of short.yaml is built there for `peers.py --set DIR short`. Output: bench's tables.
set -eu
attune="$1/attune"
bf16=attn_fwd_sm90a_bf16
cd "$(dirname "$0")/../.."

# SHAPE NAME...: one interleaved run
tiles() {
  shape=$1
  shift
  echo "== $shape"
  "$attune" bench "$@" --shape "$shape" --rounds 7
}
general=wgmma_m192n128s2w16q1o2t1c1g1
tiles b=64,h=12,s=197 ${bf16}_d64__short_m200n200s3w16c1 ${bf16}_d64__short_m200n200s3w16t1c1 ${bf16}_d64__short_m200n200s3w16o1t1c1 \
  ${bf16}_d64__short_m200n200s2w12c1 ${bf16}_d64__$general
tiles b=128,h=12,s=77 ${bf16}_d64__short_m80n80s7w24c1 ${bf16}_d64__short_m80n80s7w24t1c1 ${bf16}_d64__short_m80n80s7w20c1 ${bf16}_d64__$general
tiles b=256,h=12,s=128 ${bf16}_d32__short_m128n128s8w20c1 ${bf16}_d32__short_m128n128s8w20t1c1 ${bf16}_d32__short_m128n128s6w16c1 ${bf16}_d32__$general
# More keys than family short takes: keys a step that leave little of the last one empty
tiles b=32,h=16,s=577 ${bf16}_d64__wgmma_m192n128s2w16q1o2t1c1g1 ${bf16}_d64__wgmma_m192n112s2w16q1o2t1c1g1 \
  ${bf16}_d64__wgmma_m128n208s2w12q1o2t1c1g1 ${bf16}_d64__middle_m64n128k16s5w16t1c1 ${bf16}_d64__middle_m64n128k32s5w16t1c1 \
  ${bf16}_d64__middle_m64n112k16s6w16t1c1
tiles b=32,h=16,s=729 ${bf16}_d72__wgmma_m192n112s2w16q1o2t1c1g1 ${bf16}_d72__wgmma_m128n192s2w12q1o2t1c1g1 \
  ${bf16}_d72__middle_m64n128k32s3w16t1c1 ${bf16}_d72__middle_m64n112k16s3w16t1c1 ${bf16}_d72__middle_m64n96k32s4w16t1c1
tiles b=8,h=16,s=1500 ${bf16}_d80__wgmma_m192n112s2w16q1o2t1c1g1 ${bf16}_d80__wgmma_m128n192s2w12q1o2t1c1g1 \
  ${bf16}_d80__middle_m64n96k32s4w16t1c1 ${bf16}_d80__middle_m64n112k64s3w16t1c1
if [ $# -gt 1 ]; then "$attune" build tests/bench/short.yaml -o "$2" -j 16; fi
