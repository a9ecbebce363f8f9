#!/bin/sh
# Gives ranks different views of the rails and of the settings. Every rank must
# finish, and every byte must be correct.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_planned
[ -z "${MRAIL_TEST_MPIRUN-}" ] || skip_all 'only through mrail run'
base=$session

small='--mca coll_mrail_relay_threshold 1000 --mca coll_mrail_relay_chunk_size 4096
    --mca coll_mrail_copy_bandwidth 1000000000000'
options=${MRAIL_TEST_RUN-}
full=${MRAIL_TEST_FULL-}
last=20
moves=5
[ -z "$full" ] || last=300 moves="0 3 5 1"

# The parameters of each rank. The second argument of the viewer selects the
# columns. Open MPI reads the capacity of rank 7 as 2^64 - 1.
cat >"$tmp/views" <<'END_VIEWS'
0 100000000     1    4096 16 67108864
1 0             1000 8192 2  1000000
2 1             2    4096 16 67108864
3 50000000      1    4097 1  200000
4 99999999999   0    1    512 67108864
5 1000          1000 65536 16 67108864
6 0             1    4096 3  67108864
7 18446744073709551615 7 4096 16 1
END_VIEWS
cat >"$tmp/viewer" <<'END_VIEWER'
#!/bin/sh
# viewer capacities|all FILE COMMAND...: runs COMMAND with the rank's view.
what=$1
views=$2
shift 2
set_it() { [ "$1" != 0 ] && export "OMPI_MCA_coll_mrail_$2=$1"; return 0; }
while read -r rank capacity above chunk slots memory; do
    [ "$rank" = "$OMPI_COMM_WORLD_RANK" ] || continue
    set_it "$capacity" rail_bandwidth
    [ "$what" = all ] || break
    set_it "$above" relay_threshold
    set_it "$chunk" relay_chunk_size
    set_it "$slots" relay_buffers
    set_it "$memory" relay_memory
done <"$views"
exec "$@"
END_VIEWER
chmod +x "$tmp/viewer"

# rotated N: writes the views rotated by N ranks, and prints the name of the
# file.
rotated()
{
    awk -v by="$1" '{ $1 = ($1 + by) % 8; print }' "$tmp/views" >"$tmp/views.$1"
    echo "$tmp/views.$1"
}

MRAIL_TEST_RUN="$options $small --bind-rails --mca coll_mrail_verbose 2"
launch 8 -- "$tmp/viewer" capacities "$(rotated 0)" "$build/mpi_planned" \
    --seeds 1-2 >"$tmp/out" 2>&1 || true
values=$(sed -n 's/.*: rail carries .* of \([0-9.]*\)$/\1/p' "$tmp/out" |
    sort -u | wc -l)
if [ "$values" -ge 6 ]; then
    ok 'ranks have different views'
else
    not_ok 'ranks have different views' "$values ranks" "$tmp/out"
fi
MRAIL_TEST_RUN="$options $small --bind-rails"
for by in $moves; do
    run "capacities that differ, rotated by $by" 8 "$tmp/viewer" capacities \
        "$(rotated "$by")" "$build/mpi_planned" --seeds 1-$last --relays
done
MRAIL_TEST_RUN="$options --bind-rails"
for by in $moves; do
    run "settings that differ, rotated by $by" 8 "$tmp/viewer" all \
        "$(rotated "$by")" "$build/mpi_planned" --seeds 1-$last
done
MRAIL_TEST_RUN="$options"
run 'settings that differ, multi-rail ranks' 8 "$tmp/viewer" all "$(rotated 0)" \
    "$build/mpi_planned" --seeds 1-$last

# A single-rail rank that loses its rail is silent until the rail returns. The
# faults are timed by packet counts, because a rail that is down at the start
# would never be selected.
cat >"$tmp/script" <<'END_SCRIPT'
at packet 1000 for 150ms every 1500 node 0 rail 1 down
at packet 1500 for 100ms every 2000 rail 2 blackhole rx
at packet 2000 for 200ms every 2000 node 1 rail 3 blackhole tx
at packet 1800 for 30ms every 2500 node 1 down
END_SCRIPT
# On a busy machine, the fault injector may be late, so a rail may stay down
# longer than the script specifies. The peer timeout is long enough that no peer
# is given up.
MRAIL_TEST_RUN="$options $small --bind-rails --rate 100M --script $tmp/script
    --mca coll_mrail_verbose 2 -x UCX_MRAIL_PEER_TIMEOUT=50"
session=$session-faults # the previous session, without rates, may still exist
status=0
launch 8 -- "$build/mpi_planned" --seeds 1-$last --relays >"$tmp/out" 2>&1 ||
    status=$?
results "$tmp/out"
if [ $status != 0 ] || ! grep -q '^ok - ' "$tmp/out"; then
    not_ok 'single-rail ranks whose rails fail and return' "exit status $status" \
        "$tmp/out"
fi
if grep -qE 'lane [0-9]+ to peer [0-9a-f]+ at [0-9.]+ failed' "$tmp/out"; then
    ok 'rails that fail and return: lanes were closed'
else
    not_ok 'rails that fail and return: lanes were closed' 'no such line' "$tmp/out"
fi
# This result is for information only, because few calls begin while a rail is
# down.
echo "# plans for a rail that was down:" \
    "$(grep -cE 'rank [0-7]: rail carries .* of 0\.0$' "$tmp/out" || :)"
session=$base
nothing_left 'views that differ'
finish
