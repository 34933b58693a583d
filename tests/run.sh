#!/usr/bin/env bash
# run.sh PROGRAM... - runs test programs from the repository root and closes with one line,
# "N passed, N failed". A program that dies without Check's summary counts as one failure.
set -u
passed=0 failed=0
for program in "$@"; do
  start=$(date +%s)
  output=$("$program" 2>&1)
  status=$?
  summary=$(grep -E '^[0-9]+%: Checks: [0-9]+, Failures: [0-9]+, Errors: [0-9]+' <<<"$output" | tail -n 1)
  if [[ $summary =~ Checks:\ ([0-9]+),\ Failures:\ ([0-9]+),\ Errors:\ ([0-9]+) ]]; then
    checks=${BASH_REMATCH[1]} bad=$((BASH_REMATCH[2] + BASH_REMATCH[3]))
    [ "$bad" -eq 0 ] && [ "$status" -ne 0 ] && bad=1 && checks=$((checks + 1))
  else
    checks=1 bad=1
  fi
  printf '%-24s %4d checks %3d failed %4d s\n' "${program##*/}" "$checks" "$bad" $(($(date +%s) - start))
  [ "$bad" -eq 0 ] || printf '%s\n' "$output" | tail -n 60
  passed=$((passed + checks - bad)) failed=$((failed + bad))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
