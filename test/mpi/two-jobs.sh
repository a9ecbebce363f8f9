#!/bin/sh
# Two jobs at once: on rails of their own, and on the same rails (the same
# addresses).
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
need_ground mpi_exchange

# judge NAME PROCESS OUTPUT
judge()
{
    status=0
    wait "$2" || status=$?
    if [ $status = 0 ] && grep -q '^ok - ' "$3"; then
        good "$1"
    else
        head -n 20 "$3"
        bad "$1" "exit status $status"
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
    judge "$1, job 1" $first "$tmp/out1"
    judge "$1, job 2" $second "$tmp/out2"
}

both 'two jobs on rails of their own' "$session-a" "$session-b"
both 'two jobs on the same rails' "$session" "$session"
nothing_left 'two jobs'
exit $failed
