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

# What went with the link, as fabric.sh had it.
host2_back()
{
    ip link set r2 up
    for other in 1 3 4; do
        ip route replace "$(address_of $other)/32" via 10.10.1.1 dev r2 \
            metric 102
    done
    ip neigh replace 10.10.1.1 dev r2 lladdr 02:00:00:00:02:02
    ip neigh replace 10.10.1.3 dev r2 lladdr 02:00:00:00:01:02
    ip -n leaf1 route replace 10.10.1.3/32 dev h2
    ip -n leaf1 neigh replace 10.10.1.3 dev h2 lladdr 02:00:00:00:01:02
}
host2_back

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
host2_back
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

# A rail fails under a job: as long as a failed lane fails the peer, the job
# ends, soon and with a sentence.
note 'a job with a rail down'
(busy && ip link set r2 down) &
began=$(cut -d . -f 1 /proc/uptime)
status=0
export RANK_ERR=1
job rail-down 60 2 -x RANK_ERR -x UCX_MRAIL_TIMEOUT=14 \
    -x UCX_MRAIL_RETRY_CNT=3 -- "$stage/bin/mrail" bench p2p --sizes 1m --iterations 1000 --warmup 1 \
    --window 4 || status=$?
echo "exit status $status" >>"$log/rail-down.out"
took=$(($(cut -d . -f 1 /proc/uptime) - began))
host2_back
verdict 'a rail fails under a job: it ends within 40 s' \
    "exit status $status after $took s" \
    [ $status != 0 -a $status != 124 -a $took -lt 40 ]
cat "$log/rail-down.out" "$log/rail-down.err" "$log/rail-down.stats"/*.err \
    >"$log/rail-down.said"
verdict 'it says which lane failed, and why' "$(last "$log/rail-down.said")" \
    grep -qE 'lane [0-9]+ to peer [0-9a-f]+ on rxe[0-9]:1 failed: ' \
    "$log/rail-down.said"
verdict 'and that the job ends' "$(last "$log/rail-down.said")" \
    grep -qE 'lost a peer for good .*the job ends|MPI_ERRORS_ARE_FATAL' \
    "$log/rail-down.said"
exit $failed
