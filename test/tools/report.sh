#!/bin/sh
# Checks mrail report with telemetry pages of artificial jobs: options, invalid
# input, and jobs that run, end and are killed.
set -u
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need python3
need_built mrail-report exporter_pages

report=$build/mrail-report
pages=$UCX_MRAIL_TELEMETRY_DIR

# refused NAME STATUS PATTERN OPTION...: mrail report must fail with a message,
# and must not write $tmp/refused.
refused()
{
    expect_run "$@"
    if [ -e "$tmp/refused" ]; then
        not_ok "$1: no file is written" "$(ls -l "$tmp/refused")"
        rm -f "$tmp/refused"
    else
        ok "$1: no file is written"
    fi
}

# start JOB RANKS: exports the pages of a job until the pipe $tmp/JOB.in is
# closed. Sets pid. Other processes must not hold that pipe, which has the
# descriptor 7 or 8.
start()
{
    rm -f "$tmp/$1.in"
    mkfifo "$tmp/$1.in"
    "$build/exporter_pages" "$pages" "$1" "$2" 4 2 <"$tmp/$1.in" \
        >"$tmp/$1.out" 2>&1 7>&- 8>&- &
    pid=$!
}

under_way()
{
    await 30 grep -q ready "$tmp/$1.out" ||
        bail_out "exporter_pages: $(cat "$tmp/$1.out")"
}

# same NAME FIGURE...: checks the report $tmp/NAME.html and its JSON.
same()
{
    name=$1
    shift
    run_program "$name: " python3 "$top/test/tools/report_page.py" \
        "$tmp/$name.html" "$tmp/$name.json" "$@"
}

# equal A B: the reports $tmp/A.json and $tmp/B.json must have the same counters,
# bytes, calls, events and forecasts.
equal()
{
    check "$2 has the figures of $1" python3 -c '
import json, sys
def figures(path):
    report = json.load(open(path))
    return {
        "counters": report["counters"], "plans": report["plans"],
        "events": report["events"], "slowest": report["slowest"],
        "bytes": report["totals"]["bytes"],
        "processes": [
            {**{key: value for key, value in process.items()
                if key not in ("host", "rails")},
             "rails": [{key: rail[key] for key in
                        ("rail", "lanes", "is_down", "bytes", "stalled_s",
                         "idle_s")} for rail in process["rails"]]}
            for process in report["processes"]]}
def same(a, b):
    # Ticks are converted to seconds twice, each time with different rounding.
    if isinstance(a, float):
        return abs(a - b) < 1e-4
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b
a, b = [figures(path) for path in sys.argv[1:]]
assert a["processes"] and sum(a["counters"].values()) > 0
for key in a:
    assert same(a[key], b[key]), (key, a[key], b[key])
' "$tmp/$1.json" "$tmp/$2.json"
}

# ---- options ----

refused 'neither -o nor --json' 2 'report: give -o FILE, or --json' "$report"
refused '--force without -o' 2 'report: --force requires -o FILE' \
    "$report" --json --force
refused 'two jobs' 2 "report: unknown argument 'b'" "$report" --json a b
refused 'a time that is too short' 2 'expected a time from 0.1 to 604800' \
    "$report" -o "$tmp/refused" --time 10ms

# ---- no job ----

refused 'no job' 1 '^mrail report: no process of this user has telemetry in ' \
    "$report" -o "$tmp/refused"
refused 'no directory' 1 'cannot read .*/none: No such file or directory$' \
    "$report" -o "$tmp/refused" --dir "$tmp/none"
: >"$pages/mrail-telemetry.$(($(id -u) + 1)).1.0000000000000001"
refused "another user's job" 1 '; 1 page of other users is not read$' \
    "$report" -o "$tmp/refused" job
rm -f "$pages"/mrail-telemetry.*

# ---- a running job ----

start job 32
exec 7>"$tmp/job.in"
under_way job
refused 'a job that does not exist' 1 'no process of job none has telemetry' \
    "$report" -o "$tmp/refused" none
refused 'a directory that does not exist' 1 \
    'cannot write .*/none/page: No such file or directory$' \
    "$report" -o "$tmp/none/page" --time 0.1
echo old >"$tmp/limited.html"
expect_run 'a file that exists' 1 'limited.html exists; --force replaces it$' \
    "$report" -o "$tmp/limited.html"
is 'the existing file is unchanged' old "$(cat "$tmp/limited.html")"
head -c 5000 "$(find "$pages" -name '*[0-9a-f]' | head -n 1)" \
    >"$pages/mrail-telemetry.$(id -u).9.0000000000000009"

"$report" -o "$tmp/limited.html" --force --json --time 2 \
    >"$tmp/limited.json" 2>"$tmp/limited.err" &
reporter=$!
sleep 1
is 'the old page is unchanged during the recording' old "$(cat "$tmp/limited.html")"
status=0
wait $reporter || status=$?
is '--time ends the recording' 0 $status
expect 'a damaged page: a message' "$tmp/limited.err" \
    '^mrail report: .*: not a telemetry page, or truncated$'
expect_count 'one message only' "$tmp/limited.err" . 1
rm -f "$pages"/mrail-telemetry.*.9.*
same limited job=job recording.live=true 'recording.end=time is over' \
    totals.processes=32 totals.running=32 recording.files_refused=1 \
    configuration.rank=null plans=[]
expect 'the page is an HTML document' "$tmp/limited.html" '^<!DOCTYPE html>$'

"$report" -o "$tmp/interrupted.html" --json --interval 0.1 \
    >"$tmp/interrupted.json" 2>&1 &
reporter=$!
await 30 test -e "$tmp/interrupted.html" || true
sleep 1
kill -INT $reporter
status=0
wait $reporter || status=$?
is 'a signal ends the recording' 0 $status
same interrupted 'recording.end=interrupted' totals.running=32

# A stopped process's files do not change, so the reports on the job and on its
# archive have the same figures.
if grep -q '^#define HAVE_LIBARCHIVE 1' "$build/config.h"; then
    need_built mrail-collect
    kill -STOP "$pid"
    "$report" --json --time 0.3 >"$tmp/stopped.json" 2>&1
    # One process wrote the files of all ranks.
    expect_run 'an archive of the job' 0 '1 of 1 hosts, 32 processes,' \
        "$build/mrail-collect" -o "$tmp/archive.tar.gz" --sample 0.1
    "$report" --archive "$tmp/archive.tar.gz" -o "$tmp/archive.html" --json \
        >"$tmp/archive.json" 2>"$tmp/archive.err"
    kill -CONT "$pid"
    same archive job=job recording.live=false recording.end=archive \
        totals.processes=32 totals.running=32 archive.hosts_missing=0 \
        "host=$(uname -n)"
    expect 'archive: a message on stderr' "$tmp/archive.err" \
        '^mrail report: .*archive.tar.gz: 1 of 1 host, collected at '
    equal stopped archive
else
    skip 'an archive of the job' 'configure found no libarchive (libarchive-dev)'
fi

start other 1
exec 8>"$tmp/other.in"
under_way other
refused 'two jobs run' 1 'there are several jobs; name one of:$' \
    "$report" -o "$tmp/refused"
expect 'the message names the jobs' "$tmp/out" '^  other$'
"$report" --json --time 0.1 other >"$tmp/named.json" 2>&1
expect 'the named job is reported' "$tmp/named.json" '"job": "other"'
exec 8>&-

if [ -e /dev/full ]; then
    expect_run 'no space' 1 \
        'cannot write /dev/full: No space left on device; the report is inc' \
        "$report" -o /dev/full --force --time 0.1 job
    # shellcheck disable=SC2016 # expanded by the inner shell
    expect_run 'no space for the JSON' 1 'cannot write to stdout: No space' \
        sh -c '"$0" --json --time 0.1 job >/dev/full' "$report"
fi

# A report that follows a job to its end has all of its bytes: each update adds
# 1000 to the first counter, and the bytes of two lanes to each rail.
timeout 60 "$report" -o "$tmp/whole.html" --json job >"$tmp/whole.json" \
    2>&1 7>&- &
reporter=$!
sleep 1
exec 7>&-
status=0
wait $reporter || status=$?
is 'the end of the job ends the recording' 0 $status
same whole 'recording.end=job ended' totals.running=0 totals.killed=0 \
    processes.0.state=ended
check "the figures are the job's final ones" python3 -c '
import json, sys
for process in json.load(open(sys.argv[1]))["processes"]:
    updates = process["counters"]["am_sent"] // 1000
    assert updates > 20
    assert process["counters"]["am_received"] == updates * 1001
    assert len(process["rails"]) == 4
    for rail in process["rails"]:
        assert rail["bytes"] == updates * 2 * 1000003, rail["bytes"]
    comm, = process["communicators"]
    assert comm["calls"] == {"MPI_Barrier": 1}
' "$tmp/whole.json"

# ---- a killed job ----

start dead 2
exec 7>"$tmp/dead.in"
under_way dead
kill -9 $pid
wait $pid 2>/dev/null
exec 7>&-
"$report" -o "$tmp/dead.html" --json >"$tmp/dead.json" 2>&1
same dead job=dead recording.live=false 'recording.end=job had ended' \
    totals.killed=2 processes.1.state=killed grid.points=0
if grep -q '^#define HAVE_LIBARCHIVE 1' "$build/config.h"; then
    "$build/mrail-collect" -o "$tmp/dead.tar.gz" >"$tmp/dead.out" 2>&1
    "$report" --archive "$tmp/dead.tar.gz" -o "$tmp/unpacked.html" --json \
        >"$tmp/unpacked.json" 2>"$tmp/unpacked.err"
    same unpacked job=dead recording.end=archive totals.killed=2
    equal dead unpacked
fi
finish
