#!/bin/sh
# Checks RDMA READs of collectives: quotas per rail, READs concurrent with
# messages, READs that a device rejects, and memory that cannot be registered.
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

# The device reports the invalid key, and the lane that carried the READ fails
# over.
MRAIL_TEST_RUN=$options
topology=2x2
status=0
launch 2 -- "$build/mpi_direct" refused >"$tmp/out" 2>"$tmp/err" || status=$?
results "$tmp/out"
is 'a rejected READ: exit status' 0 $status

# The only rail fails permanently while a rank does nothing but READ.
topology=2x1
launch 2 -x UCX_MRAIL_PEER_TIMEOUT=1 -- "$build/mpi_direct" lost \
    >"$tmp/out" 2>&1 &
job=$!
await_under_way
printf 'at 0ms node 0 rail 0 down\n' >"$tmp/script"
"$mrail" soft ctl --session "$session" --script "$tmp/script" >"$tmp/ctl" 2>&1 ||
    true # the session may end before the script does
status=0
wait $job || status=$?
if [ $status != 0 ] && ! grep -q '^not ok' "$tmp/out" &&
    grep -q 'mrail: rank 0 on .* permanently lost a peer .*soft0:1' "$tmp/out"
then
    ok 'a READ from a lost peer: the message names the peer and the rail'
else
    not_ok 'a READ from a lost peer: the message names the peer and the rail' \
        "exit status $status" "$tmp/out"
fi

topology=2x4
# Equal demands between partners need no relay.
MRAIL_TEST_RUN="$options --bind-rails --mca coll_mrail_relay_threshold 1000"
run 'planned READs' 8 "$build/mpi_direct" planned
nothing_left 'READs of collectives'
finish
