#!/bin/sh
# A rank waits for a message from a peer that computes outside MPI. The peer
# stays alive but becomes unreachable. The rank's own ports are up, it has no
# work in flight, and mpirun detects nothing. The job must end with a message
# that names the peer, the rail and the cause. If the rails return in time, the
# job must continue.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_wait
base=$session

# start SECONDS: starts a job in which rank 1 computes for this many seconds.
# Each job has its own session, because a session outlives its processes for a
# moment.
start()
{
    : >"$tmp/out"
    session=$base-$1
    launch 2 -x UCX_MRAIL_PEER_TIMEOUT=3 -x UCX_MRAIL_KEEPALIVE_INTERVAL=2 -- "$build/mpi_wait" --seconds "$1" \
        >"$tmp/out" 2>&1 &
    job=$!
    await_under_way
}
ctl()
{
    "$mrail" soft ctl --session "$session" "$@" >"$tmp/ctl" 2>&1 ||
        not_ok "mrail soft ctl $*" "$(tail -n 1 "$tmp/ctl")"
}

start 60
other=$(sed -n 's/^# rank 1 is process \([0-9]*\);.*/\1/p' "$tmp/out")
ctl --node 1 down
began=$(date +%s)
sleep 1
if kill -0 "$other" 2>/dev/null; then
    ok 'the peer is alive'
else
    not_ok 'the peer is alive' "process '$other' has exited"
fi
status=0
wait $job || status=$?
took=$(($(date +%s) - began))
if [ $status != 0 ] && [ $took -lt 20 ]; then
    ok 'a receive from an unreachable peer: the job aborts'
else
    not_ok 'a receive from an unreachable peer: the job aborts' \
        "exit status $status after $took s"
fi
# -a, because prterun of Open MPI 5.0 writes bytes that are not text.
said=$(grep -a 'mrail: rank 0 on .* permanently lost a peer' "$tmp/out" || true)
# The message must name the rail that has the lane, and state that the other
# rails have none.
for part in 'peer [0-9a-f]+ at [0-9.]+: ' 'soft0:1 \([a-z ]+\)' \
    'soft3:1 \([a-z ]+\)' \
    'soft[0-3]:1 \((no completions|requests failed)\)' 'the job aborts$'; do
    if echo "$said" | grep -qE "$part"; then
        ok "rank 0 states the reason: $part"
    else
        not_ok "rank 0 states the reason: $part" "the message is '$said'" "$tmp/out"
    fi
done

start 5
ctl --node 1 down
sleep 1
ctl --node 1 up
status=0
wait $job || status=$?
if [ $status = 0 ] && grep -q '^ok - the message from rank 1 is correct' "$tmp/out"; then
    ok 'a peer that is unreachable for a second: the job continues'
else
    not_ok 'a peer that is unreachable for a second: the job continues' \
        "exit status $status" "$tmp/out"
fi
session=$base # covers all sessions
nothing_left 'an unreachable peer'
finish
