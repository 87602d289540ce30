#!/usr/bin/env bash
# Runs a command with the sanitizers' runtime loaded first: sanitized.sh address,undefined COMMAND...
set -euo pipefail

names=$1
shift
cc=${CC:-cc}
preload=()
[[ $names == *address* ]] && preload+=("$($cc -print-file-name=libasan.so)")
[[ $names == *thread* ]] && preload+=("$($cc -print-file-name=libtsan.so)")
[[ $names == *undefined* ]] && preload+=("$($cc -print-file-name=libubsan.so)")
# Without it an exception thrown inside DuckDB would not find its handler.
preload+=("$($cc -print-file-name=libstdc++.so)")

# Python and DuckDB keep memory until they exit, so leaks are looked for by tests, not here.
export ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-}
export UBSAN_OPTIONS=print_stacktrace=1:${UBSAN_OPTIONS:-}
export TSAN_OPTIONS=report_signal_unsafe=0:${TSAN_OPTIONS:-}
LD_PRELOAD=$(IFS=:; echo "${preload[*]}") exec "$@"
