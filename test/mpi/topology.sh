#!/bin/sh
# Multi-rail ranks that reach different rails, and topology files. Every byte must
# be correct. If a file contradicts the rails of a rank, exactly one message
# must be printed, and no rank may use plans.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_planned mpi_planned_life
if [ -n "${MRAIL_TEST_MPIRUN-}" ] || [ "${EXPECT_COLL-yes}" != yes ]; then
    skip_all 'only through mrail run, and with coll/mrail'
fi
options=${MRAIL_TEST_RUN-}
last=20
[ -z "${MRAIL_TEST_FULL-}" ] || last=300

# Allow relays for small messages. The announced rates are so low that forecasts
# predict gains, although the rails themselves are fast.
small='--mca coll_mrail_relay_threshold 1000 --mca coll_mrail_relay_chunk_size 4096
    --mca coll_mrail_copy_bandwidth 1000000000000 --mca coll_mrail_rail_bandwidth 1000000'

cat >"$tmp/some" <<'END_SOME'
#!/bin/sh
# some DEVICES... -- COMMAND...: runs COMMAND with the devices of its rank. The
# word "all" leaves the devices as they are.
rank=$OMPI_COMM_WORLD_RANK
while [ "$1" != -- ]; do
    if [ "$rank" = 0 ] && [ "$1" != all ]; then
        export UCX_MRAIL_DEVICES="$1"
    fi
    rank=$((rank - 1))
    shift
done
shift
exec "$@"
END_SOME
chmod +x "$tmp/some"

# exchanges NAME TOPOLOGY NP RUN-OPTIONS ARGUMENT...
exchanges()
{
    name=$1
    topology=$2
    np=$3
    MRAIL_TEST_RUN="$options $small $4"
    shift 4
    run "$name" "$np" "$@"
}

exchanges 'different rails' 2x4 8 '' \
    "$tmp/some" all soft0 soft1,soft2 all soft3 all soft0,soft3 soft1 -- \
    "$build/mpi_planned" --seeds 1-$last --relays
chunks_of_4k=$small
small=$(echo "$small" | sed s/4096/65536/) # READs
exchanges 'different rails, large chunks' 2x4 8 '' \
    "$tmp/some" all soft0 soft1,soft2 all soft3 all soft0,soft3 soft1 -- \
    "$build/mpi_planned" --seeds 1-$last --relays
small=$chunks_of_4k
exchanges 'one multi-rail rank among single-rail ranks' 2x2 4 '' \
    "$tmp/some" all soft1 soft0 soft1 -- \
    "$build/mpi_planned" --seeds 1-$last --relays
exchanges 'different rails, one rank on each of three nodes' 3x3 3 '' \
    "$tmp/some" all soft0,soft1 soft1,soft2 -- \
    "$build/mpi_planned" --seeds 1-$last

# ---- topology files ----

rates='--rate 100M'
cat >"$tmp/groups" <<'END_GROUPS'
nodes 4
rails 2
rail * * 100MB
ranks * 2 multi-rail
leaf_group 2-3 1
uplink * 0 80MB
uplink * 1 20MB
END_GROUPS
session=$session-rates
exchanges 'two leaf groups' 4x2 8 "$rates --mca coll_mrail_topology $tmp/groups" \
    "$build/mpi_planned" --seeds 1-5

# explained FILE: runs 70 calls with this topology file, and explains each call
# with an agreement round.
explained()
{
    MRAIL_TEST_RUN="$options $rates --mca coll_mrail_topology $1
        --mca coll_mrail_relay_threshold 1000"
    launch 8 -- "$libexec/mrail-bench" alltoallv --sizes 256k --hotspot 0.9 \
        --iterations 60 --warmup 10 --explain >"$tmp/out" 2>&1 || true
    expect 'the data is correct' "$tmp/out" ' ok$'
}

topology=4x2
explained "$tmp/groups"
expect 'uplinks unknown to the lanes: planned' "$tmp/out" \
    'MPI_COMM_WORLD: planned: [0-9.]* ms, without a plan [0-9.]* ms'
expect 'uplinks unknown to the lanes: bytes of an uplink' "$tmp/out" \
    'leaf group 1, rail 0, up: [0-9.]* MB with the plan, [0-9.]* MB without,'
export OMPI_MCA_coll_mrail_plan_budget=1
explained "$tmp/groups"
expect 'a plan that saves more time than it costs' "$tmp/out" \
    'MPI_COMM_WORLD: planned: [0-9.]* ms, without a plan [0-9.]* ms'
export OMPI_MCA_coll_mrail_plan_budget=0
# If no plan gains, agreement rounds become rare.
sed 's/[82]0MB/1GB/' "$tmp/groups" >"$tmp/wide"
explained "$tmp/wide"
rounds=$(grep -c 'a plan would save less than it costs' "$tmp/out")
if [ "$rounds" -ge 1 ] && [ "$rounds" -le 20 ]; then
    ok 'uplinks without effect: few calls hold a round'
else
    not_ok 'uplinks without effect: few calls hold a round' "$rounds of 70" \
        "$tmp/out"
fi

# says NAME PATTERN: the job succeeds, none of its calls has a plan, and exactly
# one line states the reason. $files is an option with the file.
says()
{
    MRAIL_TEST_RUN="$options $rates $files"
    status=0
    # shellcheck disable=SC2086 # words of a wrapper, or none
    launch 8 -- ${with-} "$build/mpi_planned_life" sizes 1 >"$tmp/out" 2>&1 ||
        status=$?
    if [ $status = 0 ] && [ "$(grep -c 'no plans: ' "$tmp/out")" = 1 ] &&
        grep -q "MPI_COMM_WORLD: no plans: $2" "$tmp/out"; then
        ok "a bad topology file: $1"
    else
        not_ok "a bad topology file: $1" "status $status, not '$2'" "$tmp/out"
    fi
}

# edited NAME SED-SCRIPT PATTERN: runs `says` with an edited file of the two
# leaf groups.
edited()
{
    sed "$2" "$tmp/groups" >"$tmp/file"
    files="--mca coll_mrail_topology $tmp/file"
    says "$1" "$3"
}

files="--mca coll_mrail_topology $tmp/none"
says 'missing' "rank 0: .*/none: No such file or directory"
edited '17 rails' 's/rails 2/rails 17/' 'rank 0: .*/file:2: .*17'
edited 'a rail that the process lacks' 's/multi-rail/single-rail/' \
    '.*/file:4: rank 0 reaches 1 rails, but its process has 2'
edited 'other rates' 's/^ranks/rail 3 1 200MB\nranks/' \
    '.*/file:4: rail 1 of node 3 carries 200.0 MB/s, but the port of rank 6 has'
edited 'too few ranks' 's/ranks \* 2/ranks 0-2 2/' '.*/file:4: the last rank of the file is '
edited 'another order of ranks' 's/^ranks.*/ranks * 1 multi-rail\n&/;s/\* 2 m/* 1 m/' \
    '.*/file:4: rank 1 is on node 1, .*\|.*/file:5: rank 4 is on node 0, like rank 0'
edited 'a leaf group without uplinks' 's/uplink \*/uplink 0/' \
    '.*/file:5: leaf group 1 .rank 4. has no uplink for rail 0'
edited 'a leaf group whose uplinks are dead' 's/uplink \* 1.*/uplink 1 * dead\nuplink 0 1 20MB/' \
    '.*/file:[78]: '
cat >"$tmp/other" <<END_OTHER
#!/bin/sh
# Rank 5 has another file.
if [ "\$OMPI_COMM_WORLD_RANK" = 5 ]; then
    export OMPI_MCA_coll_mrail_topology="$tmp/other-groups"
fi
exec "\$@"
END_OTHER
chmod +x "$tmp/other"
with=$tmp/other
files="-x OMPI_MCA_coll_mrail_topology=$tmp/groups"
sed 's/80MB/81MB/' "$tmp/groups" >"$tmp/other-groups"
says 'rank 5 has another file' 'rank 5 has a different topology file from rank 0'
rm "$tmp/other-groups"
says 'rank 5 has no file' 'rank 5: .*/other-groups: No such file or directory'
# In one leaf group, rail 0 of rank 5 is soft1.
with="$tmp/some all all all all all soft1 all all --"
sed 's/\(^ranks.*\)/\1\nreach 5 1 none/' "$tmp/groups" >"$tmp/file"
files="--mca coll_mrail_topology $tmp/file"
says 'a rank in another leaf group' \
    '.*/file:6: rail 0 of rank 5 is in leaf group 1, like the same rail of rank 4, but'
with=
MRAIL_TEST_RUN=$options
nothing_left 'topologies'
finish
