#!/bin/sh
# On one rank, one allocation of coll/mrail fails: private memory, the node's
# shared memory, or the memory of a plan. Either all ranks must take the direct
# path, or MPI must report the error and the job must end. Ranks must not hang,
# and every byte must be correct.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_scarce
if [ -n "${MRAIL_TEST_MPIRUN-}" ] || [ "${EXPECT_COLL-yes}" != yes ]; then
    skip_all 'only through mrail run, and with coll/mrail'
fi
base=$session

shim=$(realpath "$build/.libs/libtest-scarce.so")
relays='--bind-rails --mca coll_mrail_relay_threshold 1000 --mca coll_mrail_relay_chunk_size 4096
    --mca coll_mrail_copy_bandwidth 1000000000000'
options=${MRAIL_TEST_RUN-}
number=0
calls=alltoallv

# job FIRST: fails one allocation after another, beginning with number FIRST,
# until a job ends or no allocations remain.
job()
{
    number=$((number + 1))
    session=$base-$number # a session outlives its processes for a moment
    # shellcheck disable=SC2016 # expanded in the environment of the rank
    launch "$np" -- sh -c 'LD_PRELOAD=$0:${LD_PRELOAD-} exec "$@"' "$shim" \
        "$build/mpi_scarce" "$rank" "$1" "$calls" >"$tmp/out" 2>&1 || true
    sed -n 's/^# request \([0-9]*\): \([0-9]*\) calls planned/\1 \2/p' "$tmp/out" \
        >>"$tmp/requests"
}

# planned N: prints the number of failed allocations with which N calls were
# planned.
planned()
{
    grep -c " $1\$" "$tmp/requests" || true
}

# all_requests NAME TOPOLOGY NP RANK RUN-OPTIONS ERRORS: at most ERRORS
# resources may end the job with an error, namely those that a call or a
# communicator needs to start.
all_requests()
{
    name=$1
    topology=$2
    np=$3
    rank=$4
    MRAIL_TEST_RUN="$options $5"
    # The only acceptable error is this one, on this rank.
    error="^# request [0-9]+: rank $rank: MPI_ERR_NO_MEM"
    error="$error|rank $rank ran out of memory while setting up a communicator;"
    : >"$tmp/requests"
    request=1
    ended=0
    job $request
    until grep -q '^ok - every byte' "$tmp/out"; do
        if ! grep -qE "$error" "$tmp/out" ||
            grep -E '^# request [0-9]+: rank' "$tmp/out" | grep -qvE "$error"; then
            not_ok "$name: all ranks continue, or that rank reports the error" \
                "request $request or later" "$tmp/out"
            return
        fi
        ended=$((ended + 1))
        last=$(tail -n 1 "$tmp/requests")
        last=${last%% *}
        [ "${last:-0}" -ge $request ] || last=$((request - 1))
        request=$((last + 2)) # skip the resource that ended the job
        job $request
    done
    echo "# $name: $(($(wc -l <"$tmp/requests") - 1)) requests do not matter, $ended end" \
        "the job; of 5 calls planned: none for $(planned 0) requests," \
        "3 for $(planned 3), 4 for $(planned 4), 5 for $(planned 5)"
    if [ $ended -le "$6" ]; then
        ok "$name: all ranks continue, except for $6 resources"
    else
        not_ok "$name: all ranks continue, except for $6 resources" "$ended"
    fi
}

# at_least NAME WANTED GOT
at_least()
{
    if [ "$3" -ge "$2" ]; then
        ok "$1"
    else
        not_ok "$1" "$3, not $2"
    fi
}

# Each resource that ends a job needs a separate job, which takes seconds, so
# some cases run only with contrib/check --full.
ranks=3 multi_rail='2x4 8'
if [ -n "${MRAIL_TEST_FULL-}" ]; then
    ranks='0 3' multi_rail='2x4 8:1x4 4:4x1 4'
fi
for at in $ranks; do
    # One table is allocated once per process. It shifts the numbers of a call's
    # requests, so one more job ends than there are such requests.
    all_requests "single-rail ranks, rank $at" 2x4 8 $at "$relays" 16
    at_least "single-rail ranks, rank $at: no plan on that communicator" 15 "$(planned 0)"
    at_least "single-rail ranks, rank $at: no plan in that call" 20 "$(planned 4)"
done
# Persistent, neighbourhood and gathering exchanges: some fifty jobs.
if [ -n "${MRAIL_TEST_FULL-}" ]; then
    calls=other
    all_requests 'other exchanges, rank 3' 2x4 8 3 "$relays" 50
    at_least 'other exchanges, rank 3: no plan on that communicator' 15 "$(planned 0)"
    calls=alltoallv
fi
IFS=:
for where in $multi_rail; do
    unset IFS
    # shellcheck disable=SC2086 # word splitting is intended
    all_requests "multi-rail ranks, $where" $where 1 '' 8
    at_least "multi-rail ranks, $where: nothing is planned" 1 "$(planned 0)"
done
unset IFS
# Plans gain because of uplinks, which the lanes do not know about.
cat >"$tmp/groups" <<'END_GROUPS'
nodes 4
rails 2
rail * * 100MB
ranks * 2 multi-rail
leaf_group 2-3 1
uplink * 0 800kB
uplink * 1 200kB
END_GROUPS
all_requests 'two leaf groups' 4x2 8 3 "--rate 100M --mca coll_mrail_relay_threshold 1000
    --mca coll_mrail_rail_bandwidth 1000000
    --mca coll_mrail_topology $tmp/groups" 20
at_least 'two leaf groups: no plan on that communicator' 10 "$(planned 0)"
at_least 'two leaf groups: no plan in that call' 20 "$(planned 4)"
session=$base # covers all sessions
nothing_left 'scarce resources'
finish
