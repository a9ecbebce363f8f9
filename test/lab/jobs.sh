#!/bin/sh
# Runs MPI jobs in a lab, on software rails at the addresses of the hosts.
# Checks that the jobs use the right uplinks, that two jobs can run at the same
# time, and that a job survives a link failure.
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
spread_fabric
export mrail tmp UCX_MRAIL_LANES_PER_RAIL=2

# Ranks must be in the namespaces of their hosts.
in_lab spread.fabric ecmp mpirun -np 4 sh -c \
    'echo "at $(hostname) $(ip -o -4 addr show dev rail0 | grep -o "10[0-9.]*/")"' \
    >"$tmp/out" 2>&1
is 'mpirun places one rank on each host' \
    'at h1 10.0.0.2/ at h2 10.0.0.3/ at h3 10.0.1.2/ at h4 10.0.1.3/' \
    "$(grep '^at ' "$tmp/out" | sort | tr '\n' ' ' | sed 's/ $//')"

# Runs one exchange and prints the counters, then runs two jobs at the same
# time, and then a job during which a link fails.
cat >"$tmp/jobs" <<'END'
bench()
{
    "$mrail" bench alltoallv --soft lab -np 4 --json --warmup 2 "$@"
}
bench --sizes 4m --iterations 10 >"$tmp/one" 2>"$tmp/one.err" || echo 'one fails'
"$mrail" lab status >"$tmp/status"
bench --sizes 1m --iterations 10 >"$tmp/two" 2>"$tmp/two.err" &
bench --sizes 1m --iterations 10 >"$tmp/three" 2>"$tmp/three.err" ||
    echo 'three fails'
wait $! || echo 'two fails'
bench --sizes 4m --iterations 20 >"$tmp/four" 2>"$tmp/four.err" &
sleep 2.5
"$mrail" lab ctl l1:0 down
sleep 0.5
"$mrail" lab ctl l1:0 up
wait $! || echo 'four fails'
END
for routing in rules rules-drop; do
    in_lab spread.fabric $routing sh "$tmp/jobs" >"$tmp/out" 2>&1
    is "$routing: all jobs succeed" '' "$(cat "$tmp/out")"
    for job in one two three four; do
        expect "$routing: the data of job $job is correct" "$tmp/$job" \
            '"data_ok": true'
    done
    # Each of the two ranks attached to l1 sends 2/3 of its 12 x 4 MiB to the
    # other leaf.
    sent=$(for spine in 1 2 3 4; do
        bytes_of "l1-s$spine.0" up "$tmp/status"
    done | awk '{ n += $1 } END { print n }')
    if [ "${sent:-0}" -gt 67000000 ] && [ "$sent" -lt 70000000 ]; then
        ok "$routing: the uplinks carry the bytes between leaves and little else"
    else
        not_ok "$routing: the uplinks carry the bytes between leaves and little else" \
            "$sent bytes" "$tmp/status"
    fi
    # The two hosts of a leaf have two lanes each, so each uplink carries one
    # lane of each host. The second lanes connect during the first exchanges,
    # which takes longer on a busy machine.
    for leaf in l1 l2; do
        loads=$(for spine in 1 2 3 4; do
            bytes_of "$leaf-s$spine.0" up "$tmp/status"
        done | sort -n | awk 'NR == 1 { least = $1 } { most = $1 }
            END { printf "%.0f\n", 100 * (most - least) / least }')
        if [ "${loads:-100}" -le 25 ]; then
            ok "$routing: the uplinks of $leaf carry equal loads"
        else
            not_ok "$routing: the uplinks of $leaf carry equal loads" \
                "highest to lowest load: $loads %" "$tmp/status"
        fi
    done
done

# Small messages use one lane to each peer. If a rule drops the packets of that
# lane's uplink permanently, the lane must come up again on another uplink.
cat >"$tmp/down" <<'END'
for uplink in 0 1 2 3; do
    "$mrail" bench alltoallv --soft lab -np 4 --json --sizes 4m,64 \
        --hotspot 1 --iterations 20 >"$tmp/down$uplink" 2>"$tmp/down$uplink.err" &
    sleep 2
    "$mrail" lab ctl "l1:$uplink" down
    wait $! || echo "uplink $uplink: exit status $?"
    "$mrail" lab ctl "l1:$uplink" up
done
END
in_lab spread.fabric rules-drop sh "$tmp/down" >"$tmp/out" 2>&1
is 'a job survives the loss of any uplink' '' \
    "$(cat "$tmp/out" "$tmp"/down?.err |
        grep -v 'failed (.*other lanes\|is up again\|plm:rsh: Warning: setpgid')"
for uplink in 0 1 2 3; do
    is "uplink $uplink is lost: the data is correct" 2 \
        "$(grep -c '"data_ok": true' "$tmp/down$uplink")"
done

# When the uplink recovers, the only lane of a pair of hosts returns to it. With
# one lane per rail, the hosts of l1 use its last two uplinks.
cat >"$tmp/repair" <<'END'
export UCX_MRAIL_LANES_PER_RAIL=1
"$mrail" bench alltoallv --soft lab -np 4 --json --sizes 4m --iterations 250 \
    >"$tmp/repaired" 2>"$tmp/repaired.err" &
sleep 3
"$mrail" lab status >"$tmp/before"
"$mrail" lab ctl l1:2 down
sleep 4
"$mrail" lab ctl l1:2 up
"$mrail" lab status >"$tmp/up"
sleep 6
"$mrail" lab status >"$tmp/back"
sleep 2
"$mrail" lab status >"$tmp/after"
wait $! || echo "exit status $?"
END
in_lab spread.fabric rules-drop sh "$tmp/repair" >"$tmp/out" 2>&1
is 'an uplink fails and recovers: the job succeeds' '' "$(cat "$tmp/out")"
expect 'an uplink fails and recovers: the data is correct' "$tmp/repaired" \
    '"data_ok": true'
# share OLD NEW: the percentage of l1's bytes that its third uplink carried
share()
{
    for file in "$1" "$2"; do
        for spine in 1 2 3 4; do
            bytes_of "l1-s$spine.0" up "$tmp/$file"
        done | paste -sd ' '
    done | awk 'NR == 1 { split($0, old) }
        NR == 2 { for (i = 1; i <= NF; ++i) sum += $i - old[i]
            printf "%.0f\n", ((sum > 0) ? 100 * ($3 - old[3]) / sum : -1) }'
}
: >"$tmp/start"
for spine in 1 2 3 4; do
    echo "l1-s$spine.0 0 0 0 0 0 0 0 0" >>"$tmp/start"
done
had=$(share start before)
has=$(share back after)
if [ "$had" -ge 10 ] && [ "$has" -ge $((had / 2)) ]; then
    ok 'an uplink recovers: its lanes return to it'
else
    not_ok 'an uplink recovers: its lanes return to it' \
        "the uplink carried $had %, then $(share up back) %, and finally $has %"
fi
finish
