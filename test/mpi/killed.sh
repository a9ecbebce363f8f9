#!/bin/sh
# A rank dies. The other ranks must exit within seconds, and leave nothing
# behind.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_exchange

no_orphans()
{
    orphans=$(processes "$token" | paste -sd ' ')
    [ -z "$orphans" ]
}

# after_death NAME BEGUN STATUS TOKEN: checks that the job ended with a failure
# soon after BEGUN, and that no process with TOKEN remains.
after_death()
{
    took=$(seconds_since "$2")
    echo "# $1: exit status $3 after $took s"
    if [ "$3" = 0 ] || [ "$3" = 124 ]; then
        not_ok "$1: the job ends" "exit status $3"
    elif [ "$took" -gt 15 ]; then
        not_ok "$1: the job ends" "only after $took s"
    else
        ok "$1: the job ends within seconds"
    fi
    token=$4
    if await 5 no_orphans; then
        ok "$1: no orphan processes"
    else
        not_ok "$1: no orphan processes" "still there: $orphans"
        # shellcheck disable=SC2086 # one argument per process
        kill -9 $orphans
    fi
    nothing_left "$1"
}

# The token is an argument that the program ignores. It identifies the
# processes of this test.
token=mrail-killed-$$
begun=$(date +%s)
status=0
launch 4 -- timeout 60 "$build/mpi_exchange" --die-at 20 $token \
    >"$tmp/out" 2>&1 || status=$?
after_death 'a killed rank' "$begun" "$status" "$token"

# signal_mpirun NAME SIGNAL: sends the signal to mpirun in the middle of a job.
signal_mpirun()
{
    token=mrail-$2-$$
    : >"$tmp/out"
    (
        become="exec" # the signal must reach the launcher itself, not a shell
        launch 4 -- "$build/mpi_exchange" --seconds 60 "$token" \
            >"$tmp/out" 2>&1
    ) &
    job=$!
    await_under_way
    begun=$(date +%s)
    kill -"$2" $job
    status=0
    wait $job || status=$?
    after_death "$1" "$begun" "$status" "$token"
}

signal_mpirun 'a job that receives SIGTERM' TERM
if [ -n "${MRAIL_TEST_MPIRUN-}" ]; then
    skip 'a killed mpirun' "Open MPI leaves its own shared memory behind"
    finish
fi
# A killed mpirun leaves Open MPI's session directory behind, so this script
# places it in its own directory.
export TMPDIR="$tmp"
signal_mpirun 'a killed mpirun' KILL
finish
