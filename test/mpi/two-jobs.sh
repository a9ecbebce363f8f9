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

# both NAME [option...]: two jobs with these options.
both()
{
    name=$1
    shift
    launch 4 "$@" -- "$build/mpi_exchange" --seconds 3 >"$tmp/out1" 2>&1 &
    first=$!
    launch 4 "$@" -- "$build/mpi_exchange" --seconds 3 >"$tmp/out2" 2>&1 &
    second=$!
    judge "$name, job 1" $first "$tmp/out1"
    judge "$name, job 2" $second "$tmp/out2"
}

before=$(shm_files)
both 'two jobs on rails of their own'
both 'two jobs on the same rails' --session "two-jobs-$$"
sleep 1
if [ "$(shm_files)" = "$before" ]; then
    good 'no shared memory is left of two jobs'
else
    bad 'no shared memory is left of two jobs' \
        "$(shm_files | paste -sd ' ') is there"
fi
exit $failed
