#!/bin/sh
# Checks RDMA READs of collectives: quotas for each rail, READs beside messages,
# READs that a device refuses, and memory that cannot be registered.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_direct
if [ -n "${MRAIL_TEST_MPIRUN-}" ] || [ "${EXPECT_COLL-yes}" != yes ]; then
    skip_all 'only through mrail run, and with coll/mrail'
fi
options=${MRAIL_TEST_RUN-}

for topology in 2x4 2x2 2x1; do
    run "READs on $topology rails" 4 "$build/mpi_direct"
done
topology=2x3
MRAIL_TEST_RUN="$options --rate 200M,100M,50M"
run 'READs on unequal rails' 2 "$build/mpi_direct"

# The device reports the key, and the lane that carried the READ fails over.
MRAIL_TEST_RUN=$options
topology=2x2
status=0
launch 2 -- "$build/mpi_direct" refused >"$tmp/out" 2>"$tmp/err" || status=$?
results "$tmp/out"
is 'a READ that is refused: exit status' 0 $status

topology=2x4
# Equal demands between partners need no relay.
MRAIL_TEST_RUN="$options --bind-rails --mca coll_mrail_relay_threshold 1000"
run 'planned READs' 8 "$build/mpi_direct" planned
nothing_left 'READs of collectives'
finish
