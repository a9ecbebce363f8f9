#!/bin/sh
# Checks planned exchanges of single-rail ranks: small calls followed by large
# ones, threads, short-lived communicators, leaks and mismatched counts. Also
# checks exchanges of multi-rail ranks: the in-flight limit, and rails that fail
# during a call.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_planned mpi_planned_life mpi_stream

small='--mca coll_mrail_relay_threshold 1000 --mca coll_mrail_relay_chunk_size 4096
    --mca coll_mrail_copy_bandwidth 1000000000000'
options=${MRAIL_TEST_RUN-}
full=${MRAIL_TEST_FULL-}
rounds=10 calls=2000 comms=100 seeds=1-60
[ -z "$full" ] || rounds=100 calls=10000 comms=500 seeds=1-300

# tolerant NAME NP COMMAND...: like run, but lanes may fail and recover. This
# happens if a script disturbs the rails, or if ranks touch so much new memory
# that a rail is silent for too long.
tolerant()
{
    name=$1
    np=$2
    shift 2
    status=0
    launch "$np" -- "$@" >"$tmp/out" 2>&1 || status=$?
    results "$tmp/out"
    if [ $status != 0 ] || ! grep -q '^ok - ' "$tmp/out"; then
        not_ok "$name" "exit status $status" "$tmp/out"
    fi
}

life()
{
    run "$1" 8 "$build/mpi_planned_life" "$1" "$2"
}

MRAIL_TEST_RUN="$options $small --bind-rails"
life sizes 8
if [ "${EXPECT_COLL-yes}" = yes ] && [ -z "${MRAIL_TEST_MPIRUN-}" ]; then
    life backed_off 200
    life functions 20
    life direct 5
fi
life threads $rounds
life freed $rounds
life calls $calls
life comms $comms
life mismatch 20
# Multi-rail ranks have an in-flight limit. Fast rails reach the limit only if
# it is as low as a few microseconds.
MRAIL_TEST_RUN="$options --mca coll_mrail_inflight_us 4"
life mismatch 20
life threads $rounds
# A growing credit window allocates memory at any time, which would look like a
# leak. The number of credits is therefore fixed.
MRAIL_TEST_RUN="$options --mca coll_mrail_inflight_us 4 -x UCX_MRAIL_AM_CREDITS=128"
life calls $calls
life comms $comms
MRAIL_TEST_RUN="$options --mca coll_mrail_inflight_us 4"
if [ "${EXPECT_COLL-yes}" = yes ] && [ -z "${MRAIL_TEST_MPIRUN-}" ]; then
    life limited $((10 * rounds))
fi
topology=2x2
if [ -n "$full" ]; then
    MRAIL_TEST_RUN="$options --bind-rails"
    # All ranks touch gigabytes of memory at the same time. A peer may therefore
    # be silent for a long time.
    export UCX_MRAIL_PEER_TIMEOUT=60
    tolerant 'beyond 2 GiB' 4 "$build/mpi_planned_life" large
    unset UCX_MRAIL_PEER_TIMEOUT
fi
topology=2x4

# The faults are so short that the ranks of the two nodes detect them at
# different times, and some ranks never detect them.
cat >"$tmp/script" <<'END_SCRIPT'
at 100ms for 150ms every 700ms node 0 rail 1 down
at 300ms for 100ms every 900ms rail 2 down
at 350ms for 200ms every 1100ms node 1 rail 3 blackhole both
END_SCRIPT
if [ -n "${MRAIL_TEST_MPIRUN-}" ]; then
    skip 'rails that fail' 'not through mrail run'
else
    MRAIL_TEST_RUN="$options $small --rate 100M --script $tmp/script"
    tolerant 'rails that fail' 8 "$build/mpi_planned" --seeds $seeds --failing
    if grep -qE 'lane [0-9]+ to peer [0-9a-f]+ at [0-9.]+ failed' "$tmp/out"; then
        ok 'rails that fail: lanes were closed'
    else
        not_ok 'rails that fail: lanes were closed' 'no such line'
    fi
fi
# A stream from another job loads a rail on the node of rank 5, so the plan
# should use only the remaining bandwidth. The bandwidth of a rail is measured
# only by READs. On rails as slow as these, UCX 1.18 would send large messages
# as eager fragments instead.
session=$session-life
foreign=
"$mrail" soft --session "$session" --nodes 2 --rails 4 --rate 20M -- sleep 100 \
    >"$tmp/hold" 2>&1 </dev/null &
holder=$!
await 10 "$mrail" soft status --session "$session" >"$tmp/status" 2>&1 ||
    bail_out "session $session did not start"
"$mrail" run -np 2 --soft 2x4 --session "$session" --rate 20M \
    -x UCX_MRAIL_DEVICES=soft1 -- "$build/mpi_stream" "$tmp/points" 12 1048576 \
    >"$tmp/foreign" 2>&1 </dev/null &
foreign=$!
sleep 1
status=0
"$mrail" bench alltoallv -np 8 --soft 2x4 --session "$session" --rate 20M \
    --bind-rails --hotspot 0.7 --sizes 4m --warmup 2 --iterations 10 --json \
    --mca coll_mrail_verbose 2 >"$tmp/out" 2>&1 </dev/null || status=$?
wait $foreign || status=1
kill $holder 2>/dev/null || true
wait $holder 2>/dev/null || true
# "... rank 5: rail carries 25.0 MB/s out, 12.4 in, of 25.0"
if [ $status = 0 ] && grep -q '"data_ok": true' "$tmp/out" &&
    sed -n 's|.*rank 5: rail carries [0-9.]* MB/s out, \([0-9.]*\) in, of \([0-9.]*\)$|\1 \2|p' \
        "$tmp/out" | awk '$1 < 0.75 * $2 { low = 1 } END { exit !low }' &&
    ! grep '"relayed": 0,' "$tmp/out"; then
    ok 'a rail that carries other traffic is planned fewer bytes'
else
    excerpt "$tmp/foreign"
    not_ok 'a rail that carries other traffic is planned fewer bytes' \
        "exit status $status" "$tmp/out"
fi
nothing_left 'exchanges'
finish
