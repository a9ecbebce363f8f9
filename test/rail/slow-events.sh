#!/bin/sh
# Delays the handling of each asynchronous event by 20 ms. Peers leave in the
# meantime, so their lanes are closed before their events are handled. This
# seldom happens in a single run, so the test runs several times.
set -u
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need_built mrail-soft rail_goodbye
export MRAIL_TEST_SOFT="$soft" MRAIL_TEST_EVENT_MS=20
i=0
while [ $i -lt 16 ] && on_rails 2 4 0 sh -c "$before_device" \
    "$build/.libs/libtest-events.so" "$build/rail_goodbye" >"$tmp/out" 2>&1; do
    i=$((i + 1))
done
results "$tmp/out" # the results of the last run, or of the run that failed
is 'every run succeeds' 16 $i
finish
