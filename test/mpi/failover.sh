#!/bin/sh
# Ports go down and come up during a job, and rails lose packets silently. The
# job must continue, with correct data.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_exchange

ctl()
{
    "$mrail" soft ctl --session "$session" "$@" >>"$tmp/ctl" 2>&1 ||
        not_ok "mrail soft ctl $*" "$(tail -n 1 "$tmp/ctl")"
}

# Several kinds of port failure. None of them takes down all rails of a node for
# long.
one_port()
{
    ctl --rail 1 down
    sleep 1
    ctl --rail 1 up
}
drop_all()
{
    ctl --rail 2 loss=1000000
    sleep 1.5
    ctl --rail 2 loss=0
}
# A rail loses acknowledgements without a port event. Requests do not complete,
# but datagrams arrive, so probes are still answered.
drop_acks()
{
    ctl --node 1 --rail 2 drop_acks
    sleep 3
    ctl --node 1 --rail 2 clear
}
all_but_one()
{
    for rail in 0 1 2; do
        ctl --rail $rail down
        sleep 0.2
    done
    sleep 0.5
    for rail in 2 0 1; do
        ctl --rail $rail up
    done
}
flap()
{
    for time in 1 2 3 4 5; do
        ctl --rail 3 down
        sleep 0.05
        ctl --rail 3 up
        sleep 0.05
    done
}
all_ports_briefly()
{
    ctl down
    sleep 0.3
    ctl up
}

# Every 200 ms, all rails pause for 20 ms or lose all packets, as under
# congestion.
all_pause()
{
    printf '%s\n' 'at 0ms for 20ms every 200ms times 6 pause' \
        'at 100ms for 20ms every 200ms times 6 blackhole both' >"$tmp/script"
    ctl --script "$tmp/script"
    if grep -q '^ok - ' "$tmp/out"; then
        not_ok "$name" 'the job ended too early'
    fi
}

# is_busy: the rails have carried 40 MiB. On a busy machine, this may take seconds.
is_busy()
{
    "$mrail" soft status --session "$session" |
        awk 'NR > 2 { sum += $(NF - 2) } END { exit sum < 40 }'
}

# run_fault NAME COMMAND: runs COMMAND, which disturbs the rails, during a job.
# The job must continue. It ends one second after COMMAND.
run_fault()
{
    name=$1
    mkdir -p "$tmp/stats"
    rm -f "$tmp/stats"/* "$tmp/over"
    : >"$tmp/out"
    UCX_MRAIL_STATS_FILE=$tmp/stats/%p.json launch 4 --rate 100M -- timeout 90 \
        "$build/mpi_exchange" --until "$tmp/over" --bytes 3000000 \
        >"$tmp/out" 2>&1 &
    job=$!
    await_under_way
    await 60 is_busy || bail_out 'the rails carry no data'
    $2
    sleep 1
    : >"$tmp/over"
    status=0
    wait $job || status=$?
    if [ $status != 0 ] || ! grep -q '^ok - ' "$tmp/out"; then
        not_ok "$name: the job continues, all data is correct" "exit status $status" \
            "$tmp/out"
    else
        ok "$name: the job continues, all data is correct"
    fi
}
expect_lanes_closed()
{
    if grep -q '"lanes_failed": [1-9]' "$tmp/stats"/*.json; then
        ok "$name: lanes were closed, and other lanes took over their work"
    else
        not_ok "$name: lanes were closed" 'the statistics count none'
    fi
}
no_lane_closed()
{
    [ "$(grep -l '"lanes_failed": 0,' "$tmp/stats"/*.json | wc -l)" = 4 ]
}
expect_no_lane_closed()
{
    if no_lane_closed; then
        ok "$name: no lane was closed"
    else
        not_ok "$name: no lane was closed" "the statistics count $(
            grep -oh '"lanes_failed": [0-9]*' "$tmp/stats"/*.json |
                paste -sd ' ')"
    fi
}

run_fault 'one port' one_port
expect_lanes_closed
if grep -qE 'soft1:1: lane [0-9]+ to peer [0-9a-f]+ at [0-9.]+ failed' "$tmp/out"; then
    ok 'the rail, the peer and the cause are named'
else
    not_ok 'the rail, the peer and the cause are named' 'no such line' "$tmp/out"
fi
run_fault 'a rail that loses all packets' drop_all
expect_lanes_closed
run_fault 'a rail that acknowledges no requests' drop_acks
expect_lanes_closed
if grep -q 'soft2:1: lane .*(no completions, unlike other lanes)' \
    "$tmp/out"; then
    ok 'the engine does not wait for the timers of the NIC'
else
    not_ok 'the engine does not wait for the timers of the NIC' 'no such line' \
        "$tmp/out"
fi
run_fault 'all ports but one' all_but_one
expect_lanes_closed
run_fault 'a port that flaps' flap
# All rails fail in the same way, so no rail may be given up in favour of
# another.
run_fault 'all ports briefly' all_ports_briefly
# A busy machine may delay the fault injector, so that the rails stay down much
# longer. The test therefore passes if one of three jobs is undisturbed.
for try in 1 2 3; do
    run_fault 'all rails pause for 20 ms' all_pause
    if no_lane_closed; then
        break
    fi
done
expect_no_lane_closed

# Rails are dead from the start, without a port event. Each process chooses at
# random which rail its address names first, so the test runs several jobs.
printf 'at 0ms node 1 rail %s blackhole both\n' 0 1 3 >"$tmp/script"
for try in 1 2 3 4; do
    launch 2 --script "$tmp/script" -- timeout 90 "$build/mpi_exchange" \
        --seconds 1 --bytes 300000 >"$tmp/out" 2>&1 || :
    if ! grep -q '^ok - ' "$tmp/out"; then
        not_ok 'three of four rails dead from the start' "job $try failed" "$tmp/out"
    fi
done
[ $failed != 0 ] || ok 'three of four rails dead from the start, four jobs'
nothing_left 'failover'
finish
