#!/bin/sh
# One rank is refused what coll/mrail needs, one thing at a time: memory of its own, the
# node's shared memory, what a plan is made in.  All ranks go by the direct path then,
# or MPI says so and the job ends; nobody hangs, no byte is wrong.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
need_ground mpi_scarce
if [ -n "${MRAIL_TEST_MPIRUN-}" ] || [ "${EXPECT_COLL-yes}" != yes ]; then
    echo 'only through mrail run, and with coll/mrail'
    exit 77
fi

shim=$(realpath "$build/.libs/libtest-scarce.so")
MRAIL_TEST_RUN="${MRAIL_TEST_RUN-} --bind-rails --mca coll_mrail_relay_above 1000
    --mca coll_mrail_chunk 4096 --mca coll_mrail_copy_rate 1000000000000"

# A call that cannot be begun at all, for want of a few bytes; there is nothing to agree
# on yet.
error='^# thing [0-9]*: MPI_ERR|no memory for a communicator at rank'

# job RANK FIRST: things from that one on, until a job ends or there are no more.
job()
{
    number=$((number + 1))
    session=mpitest-$$-$number # one lives a moment longer than its processes
    # shellcheck disable=SC2016 # it is the rank's environment
    launch 8 -- sh -c 'LD_PRELOAD=$0:${LD_PRELOAD-} exec "$@"' "$shim" \
        "$build/mpi_scarce" "$1" "$2" >"$tmp/out" 2>&1 || true
    grep -E '^# thing [0-9]+: [0-9] calls' "$tmp/out" >>"$tmp/things" || true
}

# planned N: of how many things N calls went by a plan.
planned()
{
    grep -c ": $1 calls" "$tmp/things" || true
}

number=0
for rank in 0 3; do
    : >"$tmp/things"
    thing=1
    ended=0
    job $rank $thing
    until grep -q '^ok - every byte' "$tmp/out"; do
        if ! grep -qE "$error" "$tmp/out"; then
            head -n 20 "$tmp/out"
            bad "rank $rank: it goes on, or MPI says why not" "thing $thing or later"
            break
        fi
        ended=$((ended + 1))
        last=$(sed -n 's/^# thing \([0-9]*\): [0-9] calls.*/\1/p' "$tmp/out" |
            tail -n 1)
        thing=$((${last:-$((thing - 1))} + 2)) # behind the one that ended it
        job $rank $thing
    done
    echo "# rank $rank: $ended jobs ended by an error; of 4 calls planned: none for" \
        "$(planned 0) things, 3 for $(planned 3), all for $(planned 4)"
    if [ "$(planned 0)" -ge 40 ] && [ "$(planned 3)" -ge 20 ]; then
        good "rank $rank: without a thing all go by the direct path"
    else
        bad "rank $rank: without a thing all go by the direct path" 'too few things'
    fi
    if [ $ended -le 15 ]; then
        good "rank $rank: few things end a job"
    else
        bad "rank $rank: few things end a job" "$ended"
    fi
done
session=mpitest-$$ # all of them
nothing_left 'scarce things'
exit $failed
