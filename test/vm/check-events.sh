#!/bin/sh
# Checks failures: a queue pair in the error state, a host whose link is down,
# and a spine that is down. A verbs program must receive the events, and an MPI
# job on the transport must continue.
set -u
# shellcheck source=test/vm/lib.sh
. "${top:?}/test/vm/lib.sh"
# shellcheck source=test/vm/mpi-lib.sh
. "${top:?}/test/vm/mpi-lib.sh"

# The program must report that the port goes down and comes up.
"$build/vm_events" port rxe2 >"$log/port" 2>&1 &
watcher=$!
await 5 grep -q ready "$log/port"
ip link set r2 down
result 'link down: a port error event' "events: $(paste -sd ';' "$log/port")" \
    await 5 grep -qi 'port error' "$log/port"
ip link set r2 up
result 'link up: a port active event' "events: $(paste -sd ';' "$log/port")" \
    await 5 grep -qi 'port active' "$log/port"
end $watcher

# host_back HOST: restores the routes and neighbours that a host on leaf 1 lost
# with its link, as fabric.sh set them.
host_back()
{
    own=$(address_of "$1")
    {
        echo "link set r$1 up"
        for other in 1 2 3 4; do
            [ "$other" = "$1" ] || echo "route replace" \
                "$(address_of $other)/32 via 10.10.1.1 dev r$1" \
                "metric $((100 + $1))"
        done
        echo "neigh replace 10.10.1.1 dev r$1 lladdr 02:00:00:00:02:0$1"
        echo "neigh replace $own dev r$1 lladdr 02:00:00:00:01:0$1"
    } | ip -batch -
    {
        echo "link set h$1 up"
        echo "route replace $own/32 dev h$1"
        echo "neigh replace $own dev h$1 lladdr 02:00:00:00:01:0$1"
    } | ip -n leaf1 -batch -
}
host_back 2

# both MODE PORT: runs both ends of vm_events MODE, on hosts 4 and 2.
both()
{
    timeout 60 "$build/vm_events" "$1" rxe4 listen "$2" >"$log/$1.listen" \
        2>&1 &
    listener=$!
    status=0
    timeout 60 "$build/vm_events" "$1" rxe2 127.0.0.1 "$2" \
        >"$log/$1.connect" 2>&1 || status=$?
}

both qp 7002
wait $listener || status=$?
result 'a queue pair in error at one end: errors at both, within bounds' \
    "$(last "$log/qp.connect"); $(last "$log/qp.listen")" [ $status = 0 ]

(await 20 grep -q sending "$log/path.connect" && sleep 0.5 &&
    ip -n leaf1 link set h2 down) &
both path 7003
end $listener
host_back 2
result 'a host is cut off: its requests complete with an error' \
    "$(last "$log/path.connect")" [ $status = 0 ]

# A job is in the middle when hosts 1 and 2 have sent 1 MB and must still send
# at least as much.
middle=1000000
# Sets $sent to the bytes that hosts 1 and 2 have sent.
sum_sent()
{
    read -r sent </sys/class/net/r1/statistics/tx_bytes
    read -r more </sys/class/net/r2/statistics/tx_bytes
    sent=$((sent + more))
}
# shellcheck disable=SC2317 # called by await
has_sent()
{
    sum_sent
    [ "$sent" -gt $((sent_before + middle)) ]
}
# fault NAME COMMAND...: runs the command in the middle of the next transfer.
# $log/NAME.sent shows that it ran.
fault()
(
    name=$1
    shift
    sum_sent
    sent_before=$sent
    await 40 has_sent && "$@" && sum_sent && echo $sent >"$log/$name.sent"
)
# was_middle NAME: checks, after the end of the job, that the fault occurred in
# the middle of it.
was_middle()
{
    sum_sent
    at=$(cat "$log/$1.sent" 2>/dev/null)
    result "$1: in the middle of the job" \
        "at ${at:-no} bytes of hosts 1 and 2, in the end $sent" \
        [ $((sent - ${at:-sent})) -gt $middle ]
}

# A spine fails during a job. The other spines must take over its ports, and all
# data must be correct.
fault spine-down "$vm/fabric.sh" spine 1 down &
checked_job spine-down 90 2 -x UCX_MRAIL_LANES_PER_RAIL=2 -- \
    "$build/mpi_exchange" --until "$log/spine-down.sent" --bytes 1000000
was_middle spine-down
"$vm/fabric.sh" spine 1 up

# A shim fails a queue pair three times during a job. Each rail has only one
# lane, so from the second time on, the QP belongs to a restored lane.
status=0
job requests-fail 60 2 -x ERRORS="$build/.libs/libtest-errors.so" \
    -x MRAIL_TEST_ERROR_LOG="$log/errors" -x MRAIL_TEST_ERROR_TIMES=3 \
    -x MRAIL_TEST_ERROR_STATUS=12,2,13 -x MRAIL_TEST_ERROR_AFTER=15 \
    -x UCX_MRAIL_LANES_PER_RAIL=1 -- \
    "$build/mpi_exchange" --seconds 3 --bytes 600000 || status=$?
result 'requests fail during a job: all data is correct' \
    "exit status $status: $(last "$log/requests-fail.out")" \
    [ $status = 0 -a "$(grep -c '^ok - ' "$log/requests-fail.out")" = 1 ]
for cause in 'transport retry counter exceeded' 'local QP operation error' \
    'RNR retry counter exceeded'; do
    result "by a $cause" "$(paste -sd ';' "$log/errors")" \
        grep -qE "^rxe3 qp 0x[0-9a-f]+: $cause\$" "$log/errors"
done
# The event of a QP in error may arrive before its completion is polled.
result 'the rail and the cause are named' \
    "$(last "$log/requests-fail.out")" grep -qE \
    'rxe3:1: lane .* failed \((transport retry counter exceeded|last WQE reached)' \
    "$log/requests-fail.out"
result 'its lane is restored' "$(last "$log/requests-fail.out")" \
    [ "$(grep -c 'rxe3:1: a lane to peer .* is up again' "$log/requests-fail.out")" -ge 2 ]
result 'each error closed a lane' \
    "$(grep -o '"lanes_failed": [0-9]*' "$log/requests-fail.stats/1.json")" \
    grep -qE '"lanes_failed": ([3-9]|[1-9][0-9])' \
    "$log/requests-fail.stats/1.json"

# A rail fails during a job. The other rail must take over its work.
fault rail-down ip link set r2 down &
status=0
job rail-down 90 2 -- "$build/mpi_exchange" --until "$log/rail-down.sent" \
    --bytes 1000000 || status=$?
was_middle rail-down
host_back 2
result 'a rail fails during a job: all data is correct' \
    "exit status $status: $(last "$log/rail-down.out")" \
    [ $status = 0 -a "$(grep -c '^ok - ' "$log/rail-down.out")" = 1 ]
result 'its lanes were closed, and their work was replayed' \
    "$(last "$log/rail-down.out")" \
    grep -q '"lanes_failed": [1-9]' "$log/rail-down.stats"/*.json

# Both rails of a process fail. The job must abort soon, with a message.
# shellcheck disable=SC2317 # called by fault
both_down()
{
    ip link set r2 down && ip link set r1 down
}
fault rails-down both_down &
export RANK_ERR=1
began=$(cut -d . -f 1 /proc/uptime)
status=0
job rails-down 60 2 -x RANK_ERR -x UCX_MRAIL_PEER_TIMEOUT=2 -- \
    "$stage/bin/mrail" bench p2p --sizes 1m --iterations 1000 --warmup 1 \
    --window 4 || status=$?
echo "exit status $status" >>"$log/rails-down.out"
took=$(($(cut -d . -f 1 /proc/uptime) - began))
host_back 1
host_back 2
result 'all rails fail during a job: the job aborts within 40 s' \
    "exit status $status after $took s" \
    [ $status != 0 -a $status != 124 -a $took -lt 40 ]
cat "$log/rails-down.out" "$log/rails-down.err" \
    "$log/rails-down.stats"/*.err >"$log/rails-down.said"
result 'a message reports that the peer cannot be reached' \
    "$(last "$log/rails-down.said")" \
    grep -qE 'peer [0-9a-f]+ (does not answer|cannot be reached) on any' \
    "$log/rails-down.said"
result 'a message names the rails to the peer and reports that the job aborts' \
    "$(last "$log/rails-down.said")" \
    grep -qE \
    'permanently lost a peer.*: rxe[0-9]:1 \([a-z ]+\), rxe[0-9]:1 \([a-z ]+\).*the job aborts' \
    "$log/rails-down.said"
finish
