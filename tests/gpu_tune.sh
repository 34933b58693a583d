#!/bin/bash
# gpu_tune.sh [BUILD] [OUT] - the bars of the autotuner on a GPU: `attune tune specs/default.yaml` ends within its
# budget and 5 s, is faster than planned on average, and a second run in a fresh process, which times every row beside
# the planner's choice again, changes fewer than 5 % of the rows.
# OUT (default BUILD/tune) gets rows.yaml, both tables as JSON, and what was said. BUDGET in the environment: 120 s.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${1:-build}
out=${2:-$build/tune}
budget=${BUDGET:-120}
mkdir -p "$out"
export ATTUNE_CACHE_DIR="${ATTUNE_CACHE_DIR:-$build/cache}"
failed=0

# The first value of a key: those of the whole run stand before the cells.
value() { grep -o "\"$2\": [-0-9.e+]*" "$1" | head -1 | cut -d' ' -f2; }

check() { # WORDS CONDITION
  if awk "BEGIN { exit !($2) }"; then echo "pass  $1"; else
    echo "FAIL  $1"
    failed=1
  fi
}

run() { # NAME: OUT/NAME.json, and the wall time in seconds
  local began ended
  began=$(date +%s%N)
  "$build/attune" tune specs/default.yaml --arch native --budget "$budget" -o "$out/rows.yaml" --json \
    >"$out/$1.json" 2>"$out/$1.log" || echo "attune tune: exit $?" >>"$out/$1.log"
  ended=$(date +%s%N)
  tail -3 "$out/$1.log"
  wall=$(((ended - began) / 1000000))
  [ -s "$out/$1.json" ] || exit 1
}

rm -f "$out/rows.yaml"
run first
first=$out/first.json
echo "first run: $wall ms; $(value "$first" rows) rows, $(value "$first" provisional) provisional," \
  "$(value "$first" not_timed) not timed; $(value "$first" compiled) compiled, $(value "$first" checked) checked," \
  "$(value "$first" timed) timed; gain $(value "$first" mean_gain_percent) %"
check "ends within the budget and 5 s" "$wall <= ($budget + 5) * 1000"
check "no wrong result, fault or hang" \
  "$(value "$first" wrong) + $(value "$first" faults) + $(value "$first" hangs) == 0"
check "every cell has a time" "$(value "$first" not_timed) == 0"
check "faster than planned, geometric mean" "$(value "$first" mean_gain_percent) > 0"
worst=$(grep -o '"gain_percent": [-0-9.e+]*' "$first" | awk '{ if ($2 > m) m = $2 } END { print m + 0 }')
check "the planner is within 10 % on average" "$(value "$first" mean_gain_percent) <= 10"
check "and within 25 % at worst ($worst %)" "$worst <= 25"

run second
second=$out/second.json
echo "second run: $wall ms; $(value "$second" rows) rows, $(value "$second" changed) changed; gain" \
  "$(value "$second" mean_gain_percent) %"
check "changes fewer than 5 % of the rows" "$(value "$second" changed) < 0.05 * $(value "$second" rows)"
# A row that is slower than the planner's choice outside the noise lost its place to it.
check "no row is slower than planned outside the noise" "$(grep -o '"gain_high": -[0-9.e+]*' "$second" | wc -l) == 0"
exit $failed
