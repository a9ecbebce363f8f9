#!/bin/sh
# The switches have no port rules, so ECMP places several lanes on one uplink.
# Lanes must move to other source ports until all uplinks carry equal loads.
set -u
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/../mpi/lib.sh"
# shellcheck source=test/lab/lib.sh
. "$top/test/lab/lib.sh"
require_env
[ -x "$libexec/mrail-bench" ] ||
    skip_all 'configure found no Open MPI to build with'
lab=$libexec/mrail-lab
need_lab
cat >"$tmp/two.fabric" <<'END'
host h[1-2]
leaf l[1-2]
spine s[1-4]
link h1 l1 100MB
link h2 l2 100MB
link l[1-2] s[1-4] 25MB
END

# Once a second, prints the load of the busiest uplink of l1 as a percentage of
# the mean, until it has been at most 105 for three seconds. The value is 0
# while the job starts.
cat >"$tmp/job" <<'JOB'
export UCX_MRAIL_LANES_PER_RAIL=8
"$mrail" bench p2p --soft lab -np 2 --sizes 4m --iterations 1000 \
    >"$tmp/bench" 2>&1 &
equal_s=0 second=0
while [ "$equal_s" -lt 3 ] && [ "$second" -lt 40 ]; do
    "$mrail" lab status >"$tmp/before"
    sleep 1
    second=$((second + 1))
    "$mrail" lab status >"$tmp/after"
    load=$(cat "$tmp/before" "$tmp/after" | awk '/^l1-/ {
            if ($1 in first) {
                n = $5 - first[$1]
                sum += n
                most = n > most ? n : most
            } else {
                first[$1] = $5
            }
        }
        END { printf "%.0f\n", (sum > 20e6) ? 400 * most / sum : 0 }')
    echo "$load"
    equal_s=$((equal_s + 1))
    { [ "$load" -gt 0 ] && [ "$load" -le 105 ]; } || equal_s=0
done
kill $!
JOB
export mrail tmp
in_lab two.fabric ecmp sh "$tmp/job" >"$tmp/out" 2>&1
if [ "$(tail -n 3 "$tmp/out" | awk '$1 > 0 && $1 <= 105' | wc -l)" -eq 3 ]; then
    ok 'eight lanes fill four uplinks equally after some moves'
else
    not_ok 'eight lanes fill four uplinks equally after some moves' \
        "$(tr '\n' ' ' <"$tmp/out")" "$tmp/bench"
fi
finish
