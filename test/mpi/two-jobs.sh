#!/bin/sh
# Two jobs must be able to run at the same time, first on different rails, and
# then on the same rails with the same addresses.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_exchange

# check_job NAME PROCESS OUTPUT: checks that the job of PROCESS succeeded.
check_job()
{
    status=0
    wait "$2" || status=$?
    if [ $status = 0 ] && grep -q '^ok - ' "$3"; then
        ok "$1"
    else
        not_ok "$1" "exit status $status" "$3"
    fi
}

# both NAME SESSION SESSION
both()
{
    launch 4 --session "$2" -- "$build/mpi_exchange" --seconds 3 \
        >"$tmp/out1" 2>&1 &
    first=$!
    launch 4 --session "$3" -- "$build/mpi_exchange" --seconds 3 \
        >"$tmp/out2" 2>&1 &
    second=$!
    check_job "$1, job 1" $first "$tmp/out1"
    check_job "$1, job 2" $second "$tmp/out2"
}

both 'two jobs on different rails' "$session-a" "$session-b"
both 'two jobs on the same rails' "$session" "$session"
nothing_left 'two jobs'
finish
