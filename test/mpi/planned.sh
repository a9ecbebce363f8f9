#!/bin/sh
# Runs exchanges generated from seeds, with single-rail and with multi-rail
# ranks. Every byte must be correct, and some bytes must go through relays.
#
# EXPECT_COLL=no: coll/mrail may be missing; the exchanges are checked anyway.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_planned mpi_planned_life

last=50
[ -z "${MRAIL_TEST_FULL-}" ] || last=500
# Also allow relays for small messages.
small='--mca coll_mrail_relay_threshold 1000 --mca coll_mrail_relay_chunk_size 4096
    --mca coll_mrail_copy_bandwidth 1000000000000'
single_rail="$small --bind-rails"
relays=--relays limited=--limited
[ "${EXPECT_COLL-yes}" = yes ] || relays='' limited=''
[ -z "${MRAIL_TEST_MPIRUN-}" ] || relays='' limited=''
options=${MRAIL_TEST_RUN-}

test_program=$build/mpi_planned

# The test program must find wrong bytes and name their position. Here it must
# end normally, because mpirun may lose the output of a job that aborts.
topology=2x1
for where in data gap send; do
    status=0
    launch 2 -- "$build/mpi_planned" --seeds 4-8 --break $where \
        >"$tmp/out" 2>"$tmp/err" || status=$?
    cat "$tmp/out" "$tmp/err" >"$tmp/both"
    expect "a wrong byte is found: $where" "$tmp/both" '^ok - a wrong byte'
    if [ $status = 0 ] && grep -q '^rank 0, .*: byte [0-9-]* is 0x' "$tmp/err"
    then
        ok "a wrong byte is located: $where"
    else
        not_ok "a wrong byte is located: $where" "exit status $status" "$tmp/err"
    fi
done

if [ "${EXPECT_COLL-yes}" = yes ] && [ -z "${MRAIL_TEST_MPIRUN-}" ]; then
    run 'datatypes in pieces' 2 "$build/mpi_dt_segments"
fi
run_on 'single-rail ranks, 2 nodes x 4 rails' 2x4 8 "$single_rail" \
    --seeds 1-$last $relays
run_on 'single-rail ranks, 3 nodes x 2 rails, 7 ranks' 3x2 7 "$single_rail" \
    --seeds 1-$last $relays
run_on 'single-rail ranks, 3 nodes x 2 rails, 6 ranks' 3x2 6 "$single_rail" \
    --seeds 1-$last $relays
run_on 'single-rail ranks, more ranks than rails' 2x2 8 "$single_rail" \
    --seeds 1-$last $relays
run_on 'single-rail ranks, default settings' 2x4 8 --bind-rails --seeds 1-$last
# Large chunks are READ.
run_on 'single-rail ranks, large chunks' 2x4 8 \
    "$(echo "$single_rail" | sed s/4096/65536/)" --seeds 1-$last $relays
run_on 'multi-rail ranks' 2x4 8 "$small" --seeds 1-$last
# On fast rails, these exchanges reach the in-flight limit only if it is a few
# microseconds.
run_on 'multi-rail ranks, few messages at a time' 2x4 8 \
    '--mca coll_mrail_inflight_us 4' --seeds 1-$last $limited

# says NAME TOPOLOGY NP RUN-OPTIONS REGEX: with coll_mrail_verbose 1, rank 0
# prints a line about MPI_COMM_WORLD that matches REGEX.
says()
{
    name=$1
    topology=$2
    np=$3
    MRAIL_TEST_RUN="$options --mca coll_mrail_verbose 1 $4"
    launch "$np" -- "$build/mpi_planned_life" sizes 1 >"$tmp/out" 2>&1 ||
        true
    if [ "$(grep -c 'mrail: coll: MPI_COMM_WORLD: ' "$tmp/out")" = 1 ] &&
        grep -q "mrail: coll: MPI_COMM_WORLD: $5" "$tmp/out"; then
        ok "states the reason: $name"
    else
        not_ok "states the reason: $name" "not '$5'" "$tmp/out"
    fi
}

if [ "${EXPECT_COLL-yes}" = yes ] && [ -z "${MRAIL_TEST_MPIRUN-}" ]; then
    several='ranks use several rails each'
    steps='MPI_Alltoallv without a plan, all else left to Open MPI'
    says 'multi-rail ranks' 2x2 4 '' "$steps: $several"
    says 'multi-rail ranks, all at once' 2x2 4 '--mca coll_mrail_inflight_us 0' \
        "left to Open MPI: $several"
    says 'one node' 1x2 4 --bind-rails 'left to Open MPI: all ranks are on one node'
    says 'one rail' 2x1 4 --bind-rails "$steps: there is only one rail"
fi
MRAIL_TEST_RUN=$options
nothing_left 'exchanges'
finish
