#!/bin/sh
# Completions of a rail become errors under a stream of PUTs, GETs and messages:
# each kind that another lane can make good, at one end and at both.
set -u
soft=$PWD/mrail-soft
[ -x "$soft" ] || { echo "mrail-soft is not built"; exit 77; }
export MRAIL_TEST_SOFT="$soft" MRAIL_TEST_ERROR_DEVICE=soft1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export MRAIL_TEST_ERROR_LOG="$tmp/errors"
failed=0
# The event of a QP in error may be there before its completion is looked at.
last='last WQE reached'

# errors STATUS AFTER TIMES WORDS [both]: WORDS are ibv_wc_status_str()'s
errors()
{
    export MRAIL_TEST_ERROR_STATUS="$1" MRAIL_TEST_ERROR_AFTER="$2" \
        MRAIL_TEST_ERROR_TIMES="$3"
    words=$4 times=$3
    what="$words${5:+, at both ends}, $3 times after $2"
    shift 4
    : >"$tmp/errors"
    # shellcheck disable=SC2016
    "$soft" --session "test-errors-$$" --nodes 2 --rails 4 --node 0 -- \
        sh -c 'LD_PRELOAD="$0:$LD_PRELOAD" exec "$@"' \
        "$PWD/.libs/libtest-errors.so" "$PWD/rail_errors" "$@" \
        >"$tmp/out" 2>"$tmp/err" || failed=1
    sed -E "s/^((not )?ok) - /\\1 - $what: /" "$tmp/out"
    if [ "$(grep -c "^soft1 qp .*: $words\$" "$tmp/errors")" -ge "$times" ] &&
        grep -qE "soft1:1: lane [0-9]+ to peer [0-9a-f]+ fails \\(($words|$last)\\)" \
            "$tmp/err"; then
        echo "ok - $what: the log names the rail and the cause"
    else
        head -n 5 "$tmp/err"
        echo "not ok - $what: the log names the rail and the cause: it does not"
        failed=1
    fi
}

errors 12 40 3 'transport retry counter exceeded'
errors 13 7 1 'RNR retry counter exceeded'
errors 2 90 1 'local QP operation error'
errors 5 31 1 'Work Request Flushed Error'
errors 12 60 2 'transport retry counter exceeded' both
exit $failed
