#!/bin/sh
# Peers go while each asynchronous event lies for 20 ms before it is looked at:
# their lanes end meanwhile.  It takes a few times to have an event just then.
set -u
soft=$PWD/mrail-soft
[ -x "$soft" ] || { echo "mrail-soft is not built"; exit 77; }
export MRAIL_TEST_SOFT="$soft" MRAIL_TEST_EVENT_MS=20
status=0
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
    # shellcheck disable=SC2016
    "$soft" --session "test-slow-events-$$" --nodes 2 --rails 4 --node 0 -- \
        sh -c 'LD_PRELOAD="$0:$LD_PRELOAD" exec "$1"' \
        "$PWD/.libs/libtest-events.so" "$PWD/rail_goodbye" \
        >"test-slow-events.$$" 2>&1 || { status=1; break; }
done
cat "test-slow-events.$$"
rm -f "test-slow-events.$$"
echo "# the last of $i times"
exit $status
