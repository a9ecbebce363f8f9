#!/bin/sh
# Compares the bytes that plans send through each uplink with a lab's counters.
# Rails have unequal uplinks, so a plan gives them unequal parts. An option sets
# the rail rate, because measured rates are too low on a loaded machine.
set -u
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/../mpi/lib.sh"
# shellcheck source=test/lab/lib.sh
. "$top/test/lab/lib.sh"
require_env
[ -x "$libexec/mrail-bench" ] ||
    skip_all 'configure found no Open MPI to build with'
[ "${EXPECT_COLL-yes}" = yes ] || skip_all 'only with coll/mrail'
lab=$libexec/mrail-lab
need_lab
export mrail tmp

cat >"$tmp/job" <<'END'
"$mrail" bench alltoallv --soft lab -np 4 --sizes 4m --hotspot 0.9 --warmup 4 \
    --iterations 10 --explain --mca coll_mrail_topology "$tmp/groups.topo" \
    --mca coll_mrail_relay_threshold 100000 \
    --mca coll_mrail_rail_bandwidth 50000000
END

# agrees LINES: each of LINES uplinks must carry its planned bytes in both
# directions, within 2 %.
agrees()
{
    awk -v lines="$1" '
        function near(planned, counted) {
            return counted > 0.98 * planned && counted < 1.02 * planned
        }
        /^# l[0-9]-s/ { ++n; good += near($4, $7) && near($11, $14) }
        END { exit !(n == lines && good == lines) }' "$tmp/out"
}

# With one lane, a NIC uses one uplink of each leaf. Where one uplink is slow, the
# lanes share a rail's bytes in proportion to their uplinks. On a loaded
# machine, a rail may lag so far behind that a READ ignores its quotas.
for case in '2 lanes' '1 lane' '4 lanes, a slow uplink'; do
    lanes=${case%% *} slow=20
    case $case in *slow*) slow=12 ;; esac
    groups_fabric "$slow"
    for _ in 1 2 3 4; do
        UCX_MRAIL_LANES_PER_RAIL=$lanes in_lab groups.fabric rules \
            sh "$tmp/job" >"$tmp/out" 2>&1
        agrees 8 && break
    done
    expect "$case: the data is correct" "$tmp/out" ' ok$'
    expect "$case: planned" "$tmp/out" 'MPI_COMM_WORLD: planned: '
    if agrees 8; then
        ok "$case: each uplink carries its planned bytes within 2 %"
    else
        not_ok "$case: each uplink carries its planned bytes within 2 %" \
            "$(grep -c '^# l[0-9]-s' "$tmp/out") uplinks" "$tmp/out"
    fi
done
finish
