#!/bin/sh
# Stops the ranks of a job, one after another, for longer than the peer timeout,
# and then lets them continue. This happens in practice if a batch system
# suspends a job, or if a virtual machine is paused. After a stop, a rank must
# not count the time for which it was itself stopped as silence of its peers.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_exchange

token=mrail-suspended-$$
: >"$tmp/out"
launch 4 -x UCX_MRAIL_PEER_TIMEOUT=3 --rate 100M -- \
    "$build/mpi_exchange" --seconds 12 --bytes 3000000 "$token" \
    >"$tmp/out" 2>&1 &
job=$!
await_under_way
ranks=
for process in $(processes "$token"); do
    if grep -qx mpi_exchange "/proc/$process/comm"; then
        ranks="$ranks $process"
    fi
done
# shellcheck disable=SC2086 # one argument per process
set -- $ranks
if [ $# = 4 ]; then
    ok 'four ranks are under way'
else
    not_ok 'four ranks are under way' "$# processes"
fi
# each SIGNAL: signals one rank after another. The other ranks work for a while,
# during which the stopped ranks do not answer.
each()
{
    for rank in $ranks; do
        kill -"$1" "$rank" || not_ok "rank $rank gets SIG$1" "the rank has exited"
        sleep 0.2
    done
}
trap 'each CONT; tap_cleanup' EXIT # makes sure that no rank stays stopped
each STOP
sleep 7
each CONT
trap tap_cleanup EXIT
status=0
wait $job || status=$?
if [ $status = 0 ] && grep -q '^ok - all ranks exchange data' "$tmp/out"; then
    ok 'a job that was stopped for seven seconds continues'
else
    not_ok 'a job that was stopped for seven seconds continues' "exit status $status" \
        "$tmp/out"
fi
nothing_left 'a job that was stopped'
finish
