#!/bin/sh
# The only rail of a single-rail rank fails: during the agreement round, while
# bytes are relayed, or on a rank that only relays. If the rail recovers, the
# job must continue, with correct data. Otherwise the job must end soon, name
# the peer, the rails and the cause, and leave nothing behind.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_planned_end

dead_s=2 # UCX_MRAIL_PEER_TIMEOUT
soon_s=$((dead_s + 8)) # time to start and end a job on a busy machine
# At this rate, an exchange takes at least five seconds. The rail therefore
# fails before the exchange ends, even on a busy machine.
options="--rate 8M --bind-rails -x UCX_MRAIL_PEER_TIMEOUT=$dead_s
    -x UCX_MRAIL_KEEPALIVE_INTERVAL=1"
number=0
base=$session

# start NAME: starts a job, and returns when it is in the middle of an
# exchange.
start()
{
    : >"$tmp/out"
    number=$((number + 1))
    session=$base-$number # a session outlives its processes for a moment
    token=planned-end-$$-$number
    # shellcheck disable=SC2086 # word splitting is intended
    launch 8 $options -- "$build/mpi_planned_end" "$1" $token \
        >"$tmp/out" 2>&1 &
    job=$!
    await_under_way
    began=$(date +%s)
}

# played LINE...: runs these lines as a fault script.
played()
{
    printf '%s\n' "$@" >"$tmp/script"
    "$mrail" soft ctl --session "$session" --script "$tmp/script" \
        >"$tmp/ctl" 2>&1 || true # the session may end before the script does
    grep -q "^.*${1##* }" "$tmp/ctl" ||
        not_ok "$name: the rail fails" "$(tail -n 1 "$tmp/ctl")"
}

no_orphans()
{
    left=$(processes "$token" | paste -sd ' ')
    [ -z "$left" ]
}

# ends NAME TITLE CAUSE LINE: runs LINE in the middle of test TITLE. The job
# must end, and its message must state CAUSE.
ends()
{
    name=$1
    start "$2"
    played "$4"
    status=0
    wait $job || status=$?
    took=$(seconds_since "$began")
    if [ $status != 0 ] && [ "$took" -le $soon_s ] &&
        ! grep -q 'hangs\|every byte of the exchange arrived' "$tmp/out" &&
        grep -q '^ok - the first exchange used relays' "$tmp/out"; then
        ok "$name: the job ends"
    else
        not_ok "$name: the job ends" "exit status $status after $took s" "$tmp/out"
    fi
    if grep -qE "mrail: rank [0-7] on .* permanently lost a peer .*peer [0-9a-f]+ at [0-9.]+: soft[0-3]:1 \\($3\\); the job aborts\$" \
        "$tmp/out"; then
        ok "$name: the message names the peer, the rail and the cause"
    else
        not_ok "$name: the message names the peer, the rail and the cause" 'no such line' \
            "$tmp/out"
    fi
    await 3 no_orphans || not_ok "$name: no process is left" "$left"
    nothing_left "$name" # files left behind would be removed by the next job
}

# goes_on NAME TITLE LINE: runs LINE in the middle of test TITLE. The job must
# succeed.
goes_on()
{
    name=$1
    start "$2"
    played "$3"
    status=0
    wait $job || status=$?
    if [ $status = 0 ] &&
        grep -q ': over: ' "$tmp/ctl" && # the script ended during the job
        grep -q '^ok - every byte of the exchange arrived' "$tmp/out"; then
        ok "$name: the job continues, every byte is correct"
    else
        not_ok "$name: the job continues, every byte is correct" "exit status $status" \
            "$tmp/out"
    fi
}

ends 'a port goes down during the agreement round' agree '.*' \
    'at 0ms node 1 rail 2 down'
ends 'a port goes down while bytes are relayed' exchange '.*' \
    'at 0ms node 0 rail 1 down'
ends 'a port goes down on a rank that only relays' relay '.*' \
    'at 0ms node 0 rail 2 down'
ends 'a rank that only relays can no longer send' relay '.*' \
    'at 0ms node 1 rail 3 blackhole tx'
goes_on 'a rank that only relays receives nothing for a second' relay \
    'at 0ms for 1s node 0 rail 2 blackhole rx'
goes_on 'a port is down for a second during the agreement round' agree \
    'at 0ms for 1s node 1 rail 2 down'
finish
