#!/bin/sh
# Checks the reports of jobs: one with a port that fails, followed to its end; one
# whose ranks are killed; and one with planned exchanges. Their figures must
# match the job's own counters.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_exchange
need python3

# start NP SECONDS [OPTION...]: starts a job, whose ranks write their counters to
# $tmp/stats. The program has the options in $program, if that is set.
start()
{
    ranks=$1 seconds=$2
    shift 2
    rm -rf "$tmp/stats"
    mkdir "$tmp/stats"
    : >"$tmp/out"
    UCX_MRAIL_STATS_FILE=$tmp/stats/%p launch "$ranks" --session "$session-job" \
        --rate 100M "$@" -- timeout 120 "$build/mpi_exchange" \
        --seconds "$seconds" --bytes 3000000 ${program-} >"$tmp/out" \
        2>"$tmp/err" &
    job=$!
    await_under_way
}

# ended NAME: the job must succeed, with correct data.
ended()
{
    status=0
    wait "$job" || status=$?
    if [ $status = 0 ] && grep -q '^ok - ' "$tmp/out"; then
        ok "$1: all data is correct"
    else
        not_ok "$1: all data is correct" "exit status $status" "$tmp/err"
    fi
}

# checked NAME OPTION...: checks the report $tmp/NAME.html and its JSON.
checked()
{
    name=$1
    shift
    run_program "$name: " python3 "$top/test/mpi/report_check.py" \
        "$tmp/$name.html" "$tmp/$name.json" --ranks "$ranks" "$@"
}

# ---- a job with a port that fails ----

start 2 8
"$mrail" report -o "$tmp/whole.html" --json \
    >"$tmp/whole.json" 2>"$tmp/report.err" &
reporter=$!
sleep 2
"$mrail" soft ctl --session "$session-job" --rail 1 down >"$tmp/ctl" 2>&1 ||
    not_ok 'mrail soft ctl' "$(tail -n 1 "$tmp/ctl")"
sleep 2
"$mrail" soft ctl --session "$session-job" --rail 1 up >"$tmp/ctl" 2>&1 ||
    not_ok 'mrail soft ctl' "$(tail -n 1 "$tmp/ctl")"
ended 'the job'
status=0
wait $reporter || status=$?
is 'mrail report exits with the job' 0 $status
is 'nothing on stderr' '' "$(cat "$tmp/report.err")"
checked whole --stats "$tmp/stats" --fault soft1:1

# ---- a killed job ----

start 2 60
sleep 1
pids=$(cd "$UCX_MRAIL_TELEMETRY_DIR" && echo mrail-telemetry.*.calls |
    tr ' ' '\n' | sed 's/mrail-telemetry\.[0-9]*\.\([0-9]*\)\..*/\1/')
# shellcheck disable=SC2086 # word splitting is intended
kill -9 $pids
wait "$job" 2>/dev/null || true
"$mrail" report -o "$tmp/killed.html" --json >"$tmp/killed.json" \
    2>"$tmp/report.err" || not_ok 'a killed job' "$(cat "$tmp/report.err")"
checked killed --killed
"$mrail" top --clean >"$tmp/clean"

# ---- planned exchanges ----

# Each rank has one rail, so exchanges between nodes are planned. The loads must
# be those that coll/mrail prints. A trace of the job has the same forecasts.
UCX_MRAIL_TELEMETRY_RECORDS=65536
export UCX_MRAIL_TELEMETRY_RECORDS
start 4 6 --bind-rails --mca coll_mrail_verbose 3
"$mrail" trace -o "$tmp/trace" --past >"$tmp/trace.out" 2>&1 &
tracer=$!
"$mrail" report -o "$tmp/planned.html" --json >"$tmp/planned.json" \
    2>"$tmp/report.err" || not_ok 'planned exchanges' "$(cat "$tmp/report.err")"
ended 'planned exchanges'
checked planned --log "$tmp/err"
status=0
wait $tracer || status=$?
is 'planned: mrail trace exits with the job' 0 $status
run_program 'planned: trace: ' python3 "$top/test/mpi/trace_check.py" \
    "$tmp/trace" --plans "$tmp/planned.json"

# Each round frees its communicator. The report must contain the last ones.
program=--dup
start 4 6 --bind-rails
"$mrail" report --json >"$tmp/freed.json" 2>"$tmp/report.err" ||
    not_ok 'freed communicators' "$(cat "$tmp/report.err")"
ended 'freed communicators'
check 'freed communicators: the report has the last forecasts' \
    python3 -c '
import json, sys
report = json.load(open(sys.argv[1]))
assert report["plans_left_out"] == 0, report["plans_left_out"]
plans = report["plans"]
rounds = sorted(int(plan["communicator"].split()[1]) for plan in plans)
assert len(set(rounds)) == 8 and rounds[0] > 3, rounds
assert all(plan["forecasts"] == 1 for plan in plans), plans
' "$tmp/freed.json"
nothing_left 'reports'
finish
