#!/bin/sh
# Several nonblocking exchanges in flight, in programs without blocking
# exchanges. Where plans gain nothing, Open MPI must perform them. Where
# coll/mrail performs them, those without a plan must overlap.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_nonblocking
if [ -n "${MRAIL_TEST_MPIRUN-}" ] || [ "${EXPECT_COLL-yes}" != yes ]; then
    skip_all 'only through mrail run, and with coll/mrail'
fi
options=${MRAIL_TEST_RUN-}

test_program=$build/mpi_nonblocking

run_on 'multi-rail ranks' 2x4 8 '' left
run_on 'one node' 1x2 4 --bind-rails left
run_on 'single-rail ranks' 2x4 8 --bind-rails served
run_on 'single-rail ranks, some calls planned' 2x4 8 \
    '--bind-rails --mca coll_mrail_relay_threshold 10000' served
run_on 'single-rail ranks, blocking calls in between' 2x4 8 \
    '--bind-rails --mca coll_mrail_relay_threshold 10000' data
run_on 'multi-rail ranks, blocking calls in between' 2x4 8 '' data
run_on 'threads of single-rail ranks' 2x4 8 \
    '--bind-rails --mca coll_mrail_relay_threshold 10000' threads
if "$build/mpi_nonblocking" has-persistent; then
    run_on 'single-rail ranks, persistent' 2x4 8 \
        '--bind-rails --mca coll_mrail_relay_threshold 50' unordered
    run_on 'single-rail ranks, small persistent calls in order' 2x4 8 \
        --bind-rails ordered
    run_on 'single-rail ranks, some large persistent calls in order' 2x4 8 \
        '--bind-rails --mca coll_mrail_relay_threshold 10000' ordered 10000
    run_on 'single-rail ranks, large persistent calls in order' 2x4 8 \
        '--bind-rails --mca coll_mrail_relay_threshold 50' ordered 50
else
    skip 'persistent exchanges' 'this MPI has none'
fi
run_on 'multi-rail ranks' 2x4 8 '--rate 20M' overlap
run_on 'single-rail ranks' 2x4 8 \
    '--rate 20M --bind-rails --mca coll_mrail_relay_threshold 100000000' overlap

topology=2x4
MRAIL_TEST_RUN="$options --bind-rails --mca coll_mrail_relay_threshold 1000"
# shellcheck disable=SC2016 # expanded in the environment of the rank
run 'slow plans' 8 sh -c 'LD_PRELOAD=$0:${LD_PRELOAD-} exec "$@"' \
    "$(realpath "$build/.libs/libtest-slow-plan.so")" \
    "$build/mpi_nonblocking" planning

# Half of the ranks do not load coll/mrail.
topology=2x4
cat >"$tmp/half" <<END_HALF
#!/bin/sh
if [ "\$OMPI_COMM_WORLD_RANK" -ge 4 ]; then
    export OMPI_MCA_coll=^mrail
fi
exec "\$@"
END_HALF
chmod +x "$tmp/half"
MRAIL_TEST_RUN="$options --bind-rails"
status=0
launch 8 -- "$tmp/half" "$build/mpi_nonblocking" data >"$tmp/out" 2>&1 ||
    status=$?
expect 'some ranks lack coll/mrail' "$tmp/out" \
    '^ok - exchanges in flight: every byte is correct'
MRAIL_TEST_RUN=$options
nothing_left 'nonblocking exchanges'
finish
