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
# DuckDB and Python are not instrumented: their mutexes count, what they do with memory in between
# does not, since the atomics that order it cannot be seen. Our own code is looked at throughout.
TSAN_OPTIONS=suppressions=$(dirname "$0")/tsan.supp:${TSAN_OPTIONS:-}
# A fork takes all locks of DuckDB's allocator, more than the detector of deadlocks can hold.
export TSAN_OPTIONS=report_signal_unsafe=0:ignore_noninstrumented_modules=1:detect_deadlocks=0:$TSAN_OPTIONS
# ThreadSanitizer of GCC below 14 ends at once where the kernel spreads addresses widely.
fixed=()
[[ $names == *thread* ]] && fixed=(setarch --addr-no-randomize)
exec "${fixed[@]}" env LD_PRELOAD="$(IFS=:; echo "${preload[*]}")" "$@"
