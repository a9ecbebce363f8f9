#!/bin/sh
# Delays the handling of each asynchronous event by 20 ms. Peers leave in the
# meantime, so their lanes end before their events are handled. A single run
# seldom has such an event, so several runs are made.
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
results "$tmp/out" # results of the last run, which is the failed one if any
is 'every run succeeds' 16 $i
finish
