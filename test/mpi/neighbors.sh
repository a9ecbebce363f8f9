#!/bin/sh
# Runs neighbourhood collectives generated from seeds. Every byte must be
# correct. With single-rail ranks, some bytes must go through relays; with
# multi-rail ranks on balanced rails, Open MPI must perform all calls.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_neighbors

last=40
[ -z "${MRAIL_TEST_FULL-}" ] || last=400
relays=--relays left=--left
if [ "${EXPECT_COLL-yes}" != yes ] || [ -n "${MRAIL_TEST_MPIRUN-}" ]; then
    relays='' left=''
fi

test_program=$build/mpi_neighbors

# Also allow relays for small messages.
small='--bind-rails --mca coll_mrail_relay_threshold 1000
    --mca coll_mrail_relay_chunk_size 4096
    --mca coll_mrail_copy_bandwidth 1000000000000'
run_on 'single-rail ranks, 2 nodes x 4 rails' 2x4 8 "$small" \
    --seeds 1-$last $relays
run_on 'single-rail ranks, 3 nodes x 2 rails, 7 ranks' 3x2 7 "$small" \
    --seeds 1-$last $relays
run_on 'single-rail ranks, default settings' 2x4 8 --bind-rails --seeds 1-$last
run_on 'multi-rail ranks' 2x4 8 '' --seeds 1-$last $left
nothing_left 'neighbourhood collectives'
finish
