#!/usr/bin/env bash
# gpu_sanitize.sh BUILD [LOGS] - memcheck and racecheck of compute-sanitizer over kernels that between them include every part of
# the templates, on a GPU of compute capability 9.0. LOGS (default BUILD/sanitize) gets what each run said. Closes with
# "N passed, N failed".
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:?usage: gpu_sanitize.sh BUILD [LOGS]}
logs=${2:-$build/sanitize}
command -v compute-sanitizer >/dev/null || {
  echo "gpu_sanitize.sh: there is no compute-sanitizer: it comes with the CUDA Toolkit" >&2
  exit 3
}
export ATTUNE_CACHE_DIR="${ATTUNE_CACHE_DIR:-$build/cache}"
mkdir -p "$logs"
kernels=(
  attn_fwd_sm90a_bf16_d128_causal
  attn_fwd_sm90a_bf16_d256
  attn_fwd_sm90a_bf16_d64__wgmma_m128n64s2w12
  attn_fwd_sm90a_bf16_d128_causal__wgmma_m128n64s2w12q1o1t2z1g1
  attn_fwd_sm90a_bf16_d64_window_softcap_alibi_sink_varlen__wgmma_m128n64s2w12
  attn_fwd_sm90a_bf16_d64_causal_g4_varlen
  attn_fwd_sm90a_bf16_d64__short_m200n200s3w12c1
  attn_fwd_sm90a_bf16_d72__middle_m64n128k32s3w16t1c1
  attn_fwd_sm90a_bf16_d64_window__middle_m64n64k32s5w16q1o2
  attn_fwd_sm90a_bf16_d64_causal_g4_softcap_alibi_bias_sink_bitmask_varlen__mma_m64n64s2
  attn_fwd_sm90a_fp16_ofp32_d40_window_bias__mma_m64n32s2
  attn_standard_sm90a_bf16_d64_causal
  attn_fwd_sm90a_fp32_d40_causal_alibi_bitmask_varlen
  attn_fwd_sm90a_fp16_d64_softcap_sink_elem__fma_m64n64w8kv1
)
export build logs

# One tool on one kernel: both must find nothing.
check() { # TOOL KERNEL
  local log=$logs/$1-$2.log
  if compute-sanitizer --tool "$1" --error-exitcode 9 "$build/attune" verify "$2" --quick >"$log" 2>&1 &&
    grep -qE 'SUMMARY: 0 (errors|hazards)' "$log"; then
    echo "pass  $1 $2"
  else
    echo "FAIL  $1 $2: $(tail -1 "$log")"
  fi
}

export -f check

# Four beside each other: a kernel under a tool leaves most of a GPU idle.
for kernel in "${kernels[@]}"; do printf '%s\n' "memcheck $kernel" "racecheck $kernel"; done |
  xargs -P 4 -L 1 bash -c 'check "$@"' check | tee "$logs/summary"
passed=$(grep -c '^pass' "$logs/summary") failed=$(grep -c '^FAIL' "$logs/summary")
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
