#!/bin/sh
# Trouble: a queue pair in error, a host's link down, a spine down; what a
# program on verbs sees of it, and what an MPI job on the transport does.
set -u
# shellcheck source=test/vm/lib.sh
. "${top:?}/test/vm/lib.sh"
# shellcheck source=test/vm/mpi-lib.sh
. "${top:?}/test/vm/mpi-lib.sh"

# The port is seen to go and to come back.
"$build/vm_events" port rxe2 >"$log/port" 2>&1 &
watcher=$!
await 5 grep -q ready "$log/port"
ip link set r2 down
verdict 'link down: a port error event' "seen: $(paste -sd ';' "$log/port")" \
    await 5 grep -qi 'port error' "$log/port"
ip link set r2 up
verdict 'link up: a port active event' "seen: $(paste -sd ';' "$log/port")" \
    await 5 grep -qi 'port active' "$log/port"
end $watcher

# host_back HOST: what went with the link of a host of leaf 1, as fabric.sh had it.
host_back()
{
    own=$(address_of "$1")
    ip link set "r$1" up
    for other in 1 2 3 4; do
        [ "$other" = "$1" ] || ip route replace "$(address_of $other)/32" \
            via 10.10.1.1 dev "r$1" metric $((100 + $1))
    done
    ip neigh replace 10.10.1.1 dev "r$1" lladdr "02:00:00:00:02:0$1"
    ip neigh replace "$own" dev "r$1" lladdr "02:00:00:00:01:0$1"
    ip -n leaf1 route replace "$own/32" dev "h$1"
    ip -n leaf1 neigh replace "$own" dev "h$1" lladdr "02:00:00:00:01:0$1"
}
host_back 2

# both MODE PORT: both ends of vm_events MODE, on hosts 4 and 2.
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
verdict 'a queue pair in error at one end: errors at both, within bounds' \
    "$(last "$log/qp.connect"); $(last "$log/qp.listen")" [ $status = 0 ]

(await 20 grep -q sending "$log/path.connect" && sleep 0.5 &&
    ip -n leaf1 link set h2 down) &
both path 7003
end $listener
ip -n leaf1 link set h2 up
host_back 2
verdict 'a host cut off: its requests end with an error' \
    "$(last "$log/path.connect")" [ $status = 0 ]

# A spine fails under a job: its ports take the others, all data is right.
# busy: until host 2 has sent 4 MB more than when this was called first.
sent()
{
    cat /sys/class/net/r2/statistics/tx_bytes
}
# shellcheck disable=SC2317 # by await
has_sent()
{
    [ "$(sent)" -gt $((sent_before + 4000000)) ]
}
busy()
{
    sent_before=$(sent)
    await 40 has_sent
}
note 'a job with a spine down'
(busy && "$vm/fabric.sh" spine 1 down) &
checked_job spine-down 90 2 -x UCX_MRAIL_LANES_PER_RAIL=2 -- \
    "$stage/bin/mrail" bench p2p --sizes 1m --iterations 15 --warmup 1 \
    --window 4
"$vm/fabric.sh" spine 1 up

# A rail fails under a job: the other one takes over what it had.
note 'a job with a rail down'
(busy && ip link set r2 down) &
status=0
export RANK_ERR=1
job rail-down 90 2 -x RANK_ERR -- "$stage/bin/mrail" bench p2p --sizes 1m \
    --iterations 8 --warmup 1 --window 4 || status=$?
host_back 2
verdict 'a rail fails under a job: all data is right' \
    "exit status $status: $(last "$log/rail-down.err")" [ $status = 0 ]
verdict 'its lanes were closed, and what they had sent again' \
    "$(last "$log/rail-down.err")" \
    grep -q '"lanes_failed": [1-9]' "$log/rail-down.stats"/*.json

# Both rails of a process fail: the job ends, soon and with a sentence.
note 'a job with all rails down'
(busy && ip link set r2 down && ip link set r1 down) &
began=$(cut -d . -f 1 /proc/uptime)
status=0
job rails-down 60 2 -x RANK_ERR -x UCX_MRAIL_DEAD_TIMEOUT=3 -- \
    "$stage/bin/mrail" bench p2p --sizes 1m --iterations 1000 --warmup 1 \
    --window 4 || status=$?
echo "exit status $status" >>"$log/rails-down.out"
took=$(($(cut -d . -f 1 /proc/uptime) - began))
host_back 1
host_back 2
verdict 'all rails fail under a job: it ends within 40 s' \
    "exit status $status after $took s" \
    [ $status != 0 -a $status != 124 -a $took -lt 40 ]
cat "$log/rails-down.out" "$log/rails-down.err" \
    "$log/rails-down.stats"/*.err >"$log/rails-down.said"
verdict 'it says that the peer cannot be reached' \
    "$(last "$log/rails-down.said")" \
    grep -qE 'peer [0-9a-f]+ (does not answer|cannot be reached) on any' \
    "$log/rails-down.said"
verdict 'and that the job ends' "$(last "$log/rails-down.said")" \
    grep -qE 'lost a peer for good .*the job ends|MPI_ERRORS_ARE_FATAL' \
    "$log/rails-down.said"
exit $failed
