#!/bin/sh
# Turns completions of a rail into errors during a stream of PUTs, GETs and
# messages. Covers each error from which the engine can recover on another lane,
# at one end and at both ends.
set -u
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need_built mrail-soft rail_errors
export MRAIL_TEST_SOFT="$soft" MRAIL_TEST_ERROR_DEVICE=soft1
export MRAIL_TEST_ERROR_LOG="$tmp/errors"
# If the event for a QP in the error state arrives before the QP's completion is
# read, the engine reports the event.
last='last WQE reached'

# errors STATUS AFTER TIMES WORDS [both]: runs rail_errors with these settings
# of the shim. WORDS is the text of ibv_wc_status_str().
errors()
{
    export MRAIL_TEST_ERROR_STATUS="$1" MRAIL_TEST_ERROR_AFTER="$2" \
        MRAIL_TEST_ERROR_TIMES="$3"
    words=$4 times=$3
    what="$words${5:+, at both ends}, $3 times after $2"
    shift 4
    : >"$tmp/errors"
    run_program "$what: " on_rails 2 4 0 sh -c "$before_device" \
        "$build/.libs/libtest-errors.so" "$build/rail_errors" "$@"
    if [ "$(grep -c "^soft1 qp .*: $words\$" "$tmp/errors")" -ge "$times" ] &&
        grep -qE "soft1:1: lane [0-9]+ to peer [0-9a-f]+ at [0-9.]+ failed \\(($words|$last)\\)" \
            "$tmp/out"; then
        ok "$what: the log names the rail and the cause"
    else
        not_ok "$what: the log names the rail and the cause" 'no such line' \
            "$tmp/out"
    fi
}

errors 12 40 3 'transport retry counter exceeded'
errors 13 7 1 'RNR retry counter exceeded'
errors 2 90 1 'local QP operation error'
errors 5 31 1 'Work Request Flushed Error'
errors 12 60 2 'transport retry counter exceeded' both
finish
