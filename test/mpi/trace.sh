#!/bin/sh
# Checks mrail trace -o: traces of a running job, of a finished job, and of
# damaged files. Python decodes the traces and compares them with the job's
# counters.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_exchange
command -v python3 >/dev/null || skip_all 'python3 is not installed'

# checked NAME OPTION...: checks the trace $tmp/NAME.
checked()
{
    name=$1
    shift
    run_program "$name: " python3 "$top/test/mpi/trace_check.py" \
        "$tmp/$name" "$@"
}

# refused NAME STATUS PATTERN OPTION...: mrail trace must fail with STATUS and a
# matching message, and must not write $tmp/refused.
refused()
{
    name=$1 expected=$2 pattern=$3
    shift 3
    rm -f "$tmp/refused"
    status=0
    "$mrail" trace "$@" >"$tmp/none" 2>&1 || status=$?
    is "$name: exit status" "$expected" $status
    expect "$name: a message" "$tmp/none" "$pattern"
    if [ -e "$tmp/refused" ]; then
        not_ok "$name: no file is written" "$(ls -l "$tmp/refused")"
    else
        ok "$name: no file is written"
    fi
}

# start SECONDS: starts a job whose ranks write their counters to $tmp/stats.
start()
{
    rm -rf "$tmp/stats"
    mkdir "$tmp/stats"
    : >"$tmp/out"
    UCX_MRAIL_STATS_FILE=$tmp/stats/%p launch 2 --session "$session-job" \
        --rate 100M -- \
        timeout 120 "$build/mpi_exchange" --seconds "$1" --bytes 3000000 \
        >"$tmp/out" 2>"$tmp/err" &
    job=$!
    await_under_way
}

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

# ---- no job ----

refused 'no job' 1 '^mrail trace: no process of this user keeps records' \
    -o "$tmp/refused"
refused 'no file' 1 'refused.page: the file cannot be opened' \
    -o "$tmp/refused" "$tmp/refused.page"
refused '--duration without -o' 2 '^mrail trace: --duration requires -o FILE$' \
    --duration 1
refused '-o with --raw' 2 'cannot be combined with --raw' \
    -o "$tmp/refused" --raw

# ---- a running job ----

# No record is lost, so the bytes in the trace must equal those of the counters.
UCX_MRAIL_TELEMETRY_RECORDS=1048576
export UCX_MRAIL_TELEMETRY_RECORDS
start 12
"$mrail" trace -o "$tmp/whole" --past >"$tmp/trace" 2>"$tmp/trace.err" &
tracer=$!
"$mrail" trace -o "$tmp/short" --duration 1 --rank 1 >"$tmp/trace.short" 2>&1 ||
    not_ok 'a limited trace of one rank' "$(cat "$tmp/trace.short")"
expect 'short: the trace has one process' "$tmp/trace.short" \
    'records of 1 process, .* MiB; open it at https://ui.perfetto.dev$'
refused 'a job that does not exist' 1 'no process or job none keeps records' \
    -o "$tmp/refused" none
refused 'a file that exists' 1 "$tmp/short exists; --force replaces it$" \
    -o "$tmp/short"
refused 'a directory that does not exist' 1 \
    'cannot write .*/nowhere/trace: No such file or directory$' \
    -o "$tmp/nowhere/trace"
"$mrail" trace -o "$tmp/interrupted" >"$tmp/trace.interrupted" 2>&1 &
interrupted=$!
await 20 test -s "$tmp/interrupted" || true
sleep 1
kill -INT $interrupted
status=0
wait $interrupted || status=$?
is 'interrupted: the trace is finished' 0 $status
"$mrail" trace -o "$tmp/short" --force --limit 100k >"$tmp/trace.limit" 2>&1 ||
    not_ok '--limit' "$(cat "$tmp/trace.limit")"
expect '--limit: a message' "$tmp/trace.limit" \
    'the trace ends after .* s, because it has reached --limit$'
"$mrail" soft ctl --session "$session-job" --rail 1 down >"$tmp/ctl" 2>&1 ||
    not_ok 'mrail soft ctl' "$(tail -n 1 "$tmp/ctl")"
ended 'the job'
status=0
wait $tracer || status=$?
is 'whole: mrail trace exits with the job' 0 $status
is 'whole: nothing on stderr' '' "$(cat "$tmp/trace.err")"
checked whole --stats "$tmp/stats" --event 'soft1: port error'
checked interrupted
checked short

# ---- lost records ----

UCX_MRAIL_TELEMETRY_RECORDS=64
start 8
"$mrail" trace -o "$tmp/lost" >"$tmp/trace" 2>"$tmp/trace.err" &
tracer=$!
await 20 test -s "$tmp/lost" || true
# The reader does not read while it is stopped.
kill -STOP $tracer
sleep 1
kill -CONT $tracer
wait $tracer || true
ended 'the job of the lost records'
expect 'lost: a message' "$tmp/trace.err" \
    '^rank [01]: [0-9]+ records were overwritten before they were read; set UCX_'
checked lost --lost

# ---- a killed job ----

UCX_MRAIL_TELEMETRY_RECORDS=4096
start 60
sleep 1
pages=$UCX_MRAIL_TELEMETRY_DIR
for page in "$pages"/mrail-telemetry.*[0-9a-f]; do
    echo "$page"
done | grep -v calls >"$tmp/pages"
pids=$(sed 's/.*mrail-telemetry\.[0-9]*\.\([0-9]*\)\..*/\1/' "$tmp/pages")
"$mrail" trace -o "$tmp/alive" >"$tmp/trace" 2>&1 &
tracer=$!
await 20 test -s "$tmp/alive" || true
# shellcheck disable=SC2086 # word splitting is intended
kill -9 $pids
wait "$job" 2>/dev/null || true
status=0
wait $tracer || status=$?
is 'killed during the trace: mrail trace exits' 0 $status
"$mrail" trace -o "$tmp/killed" >"$tmp/trace" 2>&1 ||
    not_ok 'a killed job' "$(cat "$tmp/trace")"
expect 'killed: both processes' "$tmp/trace" ' records of 2 processes, '
checked killed
# shellcheck disable=SC2046 # word splitting is intended
"$mrail" trace -o "$tmp/named" $(cat "$tmp/pages") >"$tmp/trace" 2>&1 ||
    not_ok 'named pages' "$(cat "$tmp/trace")"
expect 'named pages: both processes' "$tmp/trace" ' records of 2 processes, '
checked named
cp "$(head -n 1 "$tmp/pages")" "$tmp/page"

# ---- records on request ----

"$mrail" top --clean >"$tmp/clean"
UCX_MRAIL_TELEMETRY_RECORDING=n
export UCX_MRAIL_TELEMETRY_RECORDING
start 60
"$mrail" trace -o "$tmp/request" --duration 3 >"$tmp/trace" 2>&1 ||
    not_ok 'records on request' "$(cat "$tmp/trace")"
checked request
# When the trace ends, the processes stop writing records.
sleep 3
"$mrail" trace -o "$tmp/after" --past --duration 0.1 >"$tmp/trace" 2>&1 || true
pids=$(cd "$pages" && echo mrail-telemetry.*.calls |
    tr ' ' '\n' | sed 's/mrail-telemetry\.[0-9]*\.\([0-9]*\)\..*/\1/')
# shellcheck disable=SC2086 # word splitting is intended
kill -9 $pids
wait "$job" 2>/dev/null || true
run_program 'after: ' python3 "$top/test/mpi/trace_check.py" --pause 1 \
    "$tmp/after"
unset UCX_MRAIL_TELEMETRY_RECORDING

# ---- damaged files ----

damaged=$tmp/mrail-telemetry.0.1.1
cp "$tmp/page" "$damaged"
chmod u+w "$damaged"
printf '\001\000\000\000' |
    dd of="$damaged" bs=1 seek=4 conv=notrunc 2>"$tmp/dd"
refused 'another version' 1 \
    "^mrail trace: $damaged: the file was written by another version of mrail$" \
    -o "$tmp/refused" "$damaged"
head -c 100000 "$tmp/page" >"$damaged"
refused 'a truncated file' 1 \
    "^mrail trace: $damaged: not a telemetry page, or truncated$" \
    -o "$tmp/refused" "$damaged"
: >"$damaged"
refused 'an empty file' 1 "^mrail trace: $damaged: not a telemetry page" \
    -o "$tmp/refused" "$damaged"
if [ -e /dev/full ]; then
    status=0
    "$mrail" trace -o /dev/full --force >"$tmp/none" 2>&1 || status=$?
    is 'no space: exit status' 1 $status
    expect 'no space: a message' "$tmp/none" \
        '^mrail trace: cannot write /dev/full: No space left on device; the trace is incomplete$'
fi
"$mrail" top --clean >"$tmp/clean"
nothing_left 'traces'
finish
