#!/bin/sh
# Checks mrail top, mrail trace and mrail info --events with two jobs: while
# both run, when a port fails, and after one job has been killed. The other job
# leaves nothing behind.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_exchange

# of_ours FILE: prints the number of processes in FILE that run the test's
# program.
of_ours()
{
    tr '{' '\n' <"$1" | grep -c '"program": "mpi_exchange"' || true
}
start()
{
    launch 2 --session "$session-$1" --rate 100M -- \
        timeout 80 "$build/mpi_exchange" --seconds "$2" --bytes 3000000 \
        >"$tmp/out$1" 2>&1 &
}

pages=$UCX_MRAIL_TELEMETRY_DIR
start a 32
first=$!
start b 32
second=$!
await_under_way "$tmp/outa"
await_under_way "$tmp/outb"
"$mrail" top --json --count 1 >"$tmp/top" 2>"$tmp/err" || true
is 'two jobs: four processes' 4 "$(of_ours "$tmp/top")"
tr '{' '\n' <"$tmp/top" | sed -n \
    's/.*"job": "\([^"]*\)", "rank": \([0-9]*\), "pid": \([0-9]*\), "program": "mpi_exchange", "alive": \([a-z]*\).*/\1 \2 \3 \4/p' \
    >"$tmp/processes"
jobs=$(cut -d ' ' -f 1 "$tmp/processes" | sort -u)
is 'the two jobs have different names' 2 "$(echo "$jobs" | wc -l)"
is 'all processes of both jobs are running' 4 "$(grep -c ' true$' "$tmp/processes" || true)"
rates=$(tr '{' '\n' <"$tmp/top" |
    sed -n 's/.*"device": "soft.*"bytes_per_s": \([0-9]*\).*/\1/p')
if [ "$(echo "$rates" | awk '$1 > 1000000' | wc -l)" -ge 8 ]; then
    ok 'rails carry the bytes of the jobs'
else
    not_ok 'rails carry the bytes of the jobs' "bytes/s: $(echo "$rates" | tr '\n' ' ')"
fi
name=$(echo "$jobs" | head -n 1)
"$mrail" top --job "$name" --json >"$tmp/one" 2>&1 || true
is '--job selects one of the jobs' 2 "$(of_ours "$tmp/one")"
"$mrail" top >"$tmp/table" 2>&1 || true
is 'the table has a line for each rail of each process' 16 \
    "$(grep -cE ' soft[0-3]:1 +[0-9]+ ' "$tmp/table" || true)"
"$mrail" top --lanes --interval 0.1 --job "$name" >"$tmp/lanes" 2>&1 || true
is '--lanes: lanes on each rail of each rank' 8 \
    "$(awk '$1 == "rank" && $7 >= 49152 && $8 ~ /^[0-9]+$/ { print $2, $6 }' "$tmp/lanes" |
        sort -u | wc -l)"
expect 'JSON: each lane has its source port and moves' "$tmp/top" \
    '"sport": [0-9]+, "moves": [0-9]+, "state": "'
"$mrail" top --rank 1 --rail soft2 --sort rate >"$tmp/table" 2>&1 || true
is 'filters: one rail of one rank of each job' 2 \
    "$(grep -cE '^rank 1 .* soft2:1 ' "$tmp/table" || true)"
is 'filters: nothing else' 2 "$(grep -c ' soft[0-9]:1 ' "$tmp/table" || true)"
"$mrail" top --rail soft3 --json >"$tmp/one" 2>&1 || true
is 'filters: JSON' 0 "$(grep -c 'soft[012]' "$tmp/one" || true)"
expect 'filters: JSON has the rail' "$tmp/one" '"soft3'
status=0
"$mrail" top --rank 999 >"$tmp/none" 2>&1 || status=$?
is 'filters: no matching rail causes exit status 1' 1 $status
expect 'filters: a message reports that no rail matches' "$tmp/none" \
    '^mrail top: no rail of [0-9]+ processes matches'

# Trace chunks and messages as they complete.
"$mrail" trace "$name" >"$tmp/trace" 2>&1 || true
is 'trace: chunks on each rail of each rank of the job' 8 \
    "$(grep -oE '^(rank [0-9]+)? +soft[0-3]:1 .* (get|put) ' "$tmp/trace" |
        awk '/^rank/ { rank = $2; rail = $3 } !/^rank/ { rail = $1 }
            { print rank, rail }' | sort -u | wc -l)"
"$mrail" trace --json "$name" >"$tmp/trace" 2>&1 || true
is 'trace: --json shows both ranks' 2 "$(of_ours "$tmp/trace")"
is 'trace: no record is invalid' 0 \
    "$(grep -c '"invalid": [1-9]' "$tmp/trace" || true)"
"$mrail" trace --raw --json --rank 1 --past "$name" >"$tmp/trace" 2>&1 || true
is 'trace: --raw prints only the records of rank 1' "$(wc -l <"$tmp/trace")" \
    "$(grep -cE '^[{]"job": "[^"]*", "rank": 1, .*"time_ns": [0-9]+[}]$' \
        "$tmp/trace" || true)"
if [ "$(wc -l <"$tmp/trace")" -gt 20 ]; then
    ok 'trace: there are records'
else
    not_ok 'trace: there are records' "$(tail -n 2 "$tmp/trace")"
fi
status=0
"$mrail" trace no-such-job >"$tmp/none" 2>&1 || status=$?
is 'trace: an unknown job causes exit status 1' 1 $status
expect 'trace: a message reports that no process keeps records' "$tmp/none" \
    '^mrail trace: no process or job no-such-job keeps records in '
if command -v python3 >/dev/null; then
    run_program '' python3 "$top/test/mpi/top_screen.py" "$mrail"
else
    skip 'a terminal' 'python3 is not installed'
fi

"$mrail" soft ctl --session "$session-a" --rail 1 down >"$tmp/ctl" 2>&1 ||
    not_ok 'mrail soft ctl' "$(tail -n 1 "$tmp/ctl")"
sleep 1
"$mrail" info --events >"$tmp/events" 2>&1
if grep -q 'soft1: port error' "$tmp/events" &&
    grep -qE 'soft1:1: lane [0-9]+ to peer [0-9a-f]+ closing' "$tmp/events" &&
    grep -qE 'path [0-9]+ to peer [0-9a-f]+: .* -> retired' "$tmp/events"; then
    ok 'a port goes down: port, path and lane are listed'
else
    not_ok 'a port goes down: port, path and lane are listed' \
        "$(tail -n 3 "$tmp/events")"
fi
is 'events: --job selects the events of one job' "$(grep -c 'port error' "$tmp/events")" \
    "$("$mrail" info --events --dir="$pages" \
        --job "$(grep 'port error' "$tmp/events" | head -n 1 |
            cut -d ' ' -f 4)" | grep -c 'port error')"
is 'events: an unknown job has none' 0 \
    "$({ "$mrail" info --events --job none 2>/dev/null || echo failed; } | wc -l)"
is 'events: only one job reports the port error' 1 \
    "$(grep 'port error' "$tmp/events" | cut -d ' ' -f 4 | sort -u | wc -l)"

# Kill the ranks of one job.
job=$(grep 'port error' "$tmp/events" | head -n 1 | cut -d ' ' -f 4)
pids=$(awk -v job="$job" '$1 == job { print $3 }' "$tmp/processes")
# shellcheck disable=SC2086 # word splitting is intended
kill -9 $pids
wait $first 2>/dev/null || true
"$mrail" top --job "$job" --json >"$tmp/killed" 2>&1 || true
is 'killed: the processes are shown as ended' 2 \
    "$(tr '{' '\n' <"$tmp/killed" | grep -c '"alive": false' || true)"
"$mrail" info --events >"$tmp/events" 2>&1
if grep "$job" "$tmp/events" | grep -q 'soft1: port error'; then
    ok 'killed: its events can still be read'
else
    not_ok 'killed: its events can still be read' "$(tail -n 1 "$tmp/events")"
fi

pid=$(echo "$pids" | head -n 1)
"$mrail" trace --raw "$pid" >"$tmp/trace" 2>&1 || true
if [ "$(grep -cE ' soft[0-3]:1 +lane .* us( |$)' "$tmp/trace" || true)" -gt 20 ]
then
    ok 'killed: its last records can still be read'
else
    not_ok 'killed: its last records can still be read' \
        "$(tail -n 2 "$tmp/trace")"
fi

status=0
wait $second || status=$?
if [ $status = 0 ] && grep -q '^ok - ' "$tmp/outb"; then
    ok 'the other job continues, all data is correct'
else
    not_ok 'the other job continues, all data is correct' "exit status $status" \
        "$tmp/outb"
fi
"$mrail" info --events >"$tmp/events" 2>&1
"$mrail" info --events --json >"$tmp/events.json" 2>&1
is 'events: JSON and text have the same number' "$(wc -l <"$tmp/events")" \
    "$(grep -c '"text":' "$tmp/events.json")"
is 'only the two files of each killed process are left' 4 \
    "$(find "$pages" -name "mrail-telemetry.$(id -u).*" | wc -l)"
mkdir "$tmp/empty"
is '--dir takes precedence over the variable' '0 removed' \
    "$("$mrail" top --clean --dir="$tmp/empty")"
"$mrail" top --clean >"$tmp/clean"
is 'the files of killed processes can be removed' '4 removed' "$(cat "$tmp/clean")"
status=0
"$mrail" top >"$tmp/none" 2>&1 || status=$?
if [ $status = 1 ] && grep -q 'no process of this user' "$tmp/none"; then
    ok 'no process to show: a message and exit status 1'
else
    not_ok 'no process to show: a message and exit status 1' \
        "status $status, $(cat "$tmp/none")"
fi

# A file that is not a telemetry page must be reported, and the pages must
# still be shown.
page=$pages/mrail-telemetry.$(id -u).0.$$
echo 'not a page' >"$page"
"$mrail" info --events >"$tmp/none" 2>&1 || true
if grep -q "$page: not a telemetry page, or truncated" "$tmp/none"
then
    ok 'a file that is not a page: a message names it'
else
    not_ok 'a file that is not a page: a message names it' "$(cat "$tmp/none")"
fi
rm -f "$page"
nothing_left 'telemetry'
finish
