#!/bin/sh
# Unpacks the peers and runs tests/bench/peers.py beside them: peers.sh SITE SECTION|OPTION...
#
# SITE: folder to unpack into, kept for the next run. The archives lie in PEERS (default build/peers): fetch.sh makes
# fa3.tar.xz, fa4.0 and fa4.1 there, libs.sh its lib/. What is not there is a missing peer, which the run names. Results go to
# $OUT, else to tests/bench/results/.
set -eu
site=${1:?usage: peers.sh SITE SECTION...}
shift
cd "$(dirname "$0")/../.."
peers=${PEERS:-build/peers}
mkdir -p "$site"
if [ ! -e "$site/.fa3" ] && [ -e "$peers/fa3.tar.xz" ]; then
  tar xJf "$peers/fa3.tar.xz" -C "$site" && touch "$site/.fa3"
fi
if [ ! -e "$site/.fa4" ] && [ -e "$peers/fa4.0" ] && [ -e "$peers/fa4.1" ]; then
  cat "$peers"/fa4.? | tar xJ -C "$site" && touch "$site/.fa4"
fi
site=$(cd "$site" && pwd)
export PYTHONPATH="$site:$site/nvidia_cutlass_dsl/dsl_packages${PYTHONPATH:+:$PYTHONPATH}"
if [ -d "$peers/lib" ]; then
  lib=$(cd "$peers/lib" && pwd)
  export LD_LIBRARY_PATH="$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi
exec python3 tests/bench/peers.py "$@"
