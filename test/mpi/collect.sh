#!/bin/sh
# Collects the telemetry of an MPI job that runs on two simulated hosts, each of
# which is a separate telemetry directory on this machine. The clock of one host
# is an hour ahead. The viewers must show the same data from the archive as from
# the machine: while the job runs, while a rank is stopped, and after all ranks
# have been killed.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_exchange
need python3
grep -q '^#define HAVE_LIBARCHIVE 1' "$build/config.h" ||
    skip_all 'configure found no libarchive (libarchive-dev)'
shim=$build/.libs/libtest-clock.so
[ -e "$shim" ] || bail_out "no $shim"
[ -z "$(sed -n 's|^MRAIL_SAN = *||p' "$build/Makefile")" ] ||
    skip_all 'a sanitizer must be the first library'
pages=$UCX_MRAIL_TELEMETRY_DIR
mkdir "$pages/near" "$pages/ahead"

# Ranks 0 and 1 are on the host near, 2 and 3 on the host ahead.
cat >"$tmp/rank" <<END
#!/bin/sh
if [ "\$OMPI_COMM_WORLD_RANK" -lt 2 ]; then
    export UCX_MRAIL_TELEMETRY_DIR="$pages/near"
else
    export UCX_MRAIL_TELEMETRY_DIR="$pages/ahead"
    export MRAIL_TEST_CLOCK_S=3600 LD_PRELOAD="$shim:\${LD_PRELOAD-}"
fi
exec "\$@"
END
cat >"$tmp/ssh" <<END
#!/bin/sh
export UCX_MRAIL_TELEMETRY_DIR="$pages/\$1"
if [ "\$1" = ahead ]; then
    export MRAIL_TEST_CLOCK_S=3600 LD_PRELOAD="$shim"
fi
shift
exec sh -c "\$*"
END
chmod +x "$tmp/rank" "$tmp/ssh"

# gather NAME: writes $tmp/NAME.tar.gz.
gather()
{
    expect_run "$1: both hosts, four processes" 0 '2 of 2 hosts, 4 processes' \
        timeout 100 "$mrail" collect -o "$tmp/$1.tar.gz" --ssh "$tmp/ssh" \
        near ahead
    expect "$1: the clock is an hour ahead" "$tmp/out" '^ahead .* (3600[.]0|3599[.]9)'
}

# view NAME VIEWER OPTION...: output is in $tmp/view, messages in $tmp/err.
view()
{
    name=$1 viewer=$2
    shift 2
    status=0
    timeout 100 "$mrail" "$viewer" --archive "$tmp/$name.tar.gz" "$@" \
        >"$tmp/view" 2>"$tmp/err" || status=$?
    if [ $status = 0 ]; then
        ok "$name: mrail $viewer $*"
    else
        not_ok "$name: mrail $viewer $*" "exit status $status" "$tmp/err"
    fi
}

launch 4 --rate 100M -- timeout 120 "$tmp/rank" "$build/mpi_exchange" \
    --seconds 60 --bytes 3000000 >"$tmp/job" 2>&1 &
job=$!
await_under_way "$tmp/job"
sleep 2

# ---- a running job ----

gather running
view running diagnose
expect 'running: four ranks of one job' "$tmp/view" \
    '^job [^ ]+: 4 processes in the archive, 4 running'
expect 'running: a rank on each host' "$tmp/view" '^ +[23] .* ahead$'
expect 'running: the accuracy of the alignment' "$tmp/err" 'aligned to within [0-9.]+ ms'
view running top --json
python3 - "$tmp/view" >"$tmp/out" 2>&1 <<'END' || true
import json
import sys

top = json.loads(open(sys.argv[1]).read())
hosts = {host["name"]: host for host in top["hosts"]}
assert abs(hosts["ahead"]["offset_s"] - 3600) < 0.5, hosts
ranks = {process["rank"]: process for process in top["processes"]}
assert sorted(ranks) == [0, 1, 2, 3], ranks
for rank, process in ranks.items():
    assert process["host"] == ("near" if rank < 2 else "ahead"), process
    assert abs(process["update_s"] - top["time_s"]) < 30, process
    assert process["alive"], process
    rates = sum(rail["bytes_per_s"] for rail in process["rails"])
    assert rates > 1e6, process["rails"]
print("ok")
END
is 'running: top has all ranks, hosts, rates and times' ok "$(tail -n 1 "$tmp/out")"
view running trace --raw --json
python3 - "$tmp/view" >"$tmp/out" 2>&1 <<'END' || true
import json
import sys

first, last = {}, {}
for row in open(sys.argv[1]):
    record = json.loads(row)
    rank = record["rank"]
    first[rank] = min(first.get(rank, 1 << 62), record["post_ns"])
    last[rank] = max(last.get(rank, 0), record["done_ns"])
assert sorted(first) == [0, 1, 2, 3], first
# The ranks exchange data with each other, so their last chunks are close.
assert max(last.values()) - min(last.values()) < 20e9, last
assert max(first.values()) < max(last.values()), (first, last)
print("ok")
END
is 'running: the records of all ranks are from the same period' ok \
    "$(tail -n 1 "$tmp/out")"
view running trace -o "$tmp/trace"
run_program 'running: ' python3 "$top/test/mpi/trace_check.py" "$tmp/trace"
view running info --events
view running report --json
python3 - "$tmp/view" >"$tmp/out" 2>&1 <<'END' || true
import json
import sys

report = json.load(open(sys.argv[1]))
assert report["host"] == "2 hosts", report["host"]
ranks = {process["rank"]: process for process in report["processes"]}
assert sorted(ranks) == [0, 1, 2, 3], ranks
first, last = [], []
for rank, process in ranks.items():
    assert process["host"] == ("near" if rank < 2 else "ahead"), process
    assert process["state"] == "running", process
    assert 0 <= process["start_s"] < process["update_s"] < 200, process
    points = [sum(column) for column in zip(
        *(rail["points"] for rail in process["rails"]))]
    used = [i for i, value in enumerate(points) if value > 0]
    assert used, process["rails"]
    first.append(used[0])
    last.append(used[-1])
# The records of all ranks are from the same period, not an hour apart.
width = report["grid"]["width_s"]
assert report["grid"]["points"] * width < 60, report["grid"]
assert max(first) <= min(last), (first, last)
assert "Times of the hosts are aligned to within" in report["summary"]
print("ok")
END
is 'running: the report has all ranks on one time line' ok \
    "$(tail -n 1 "$tmp/out")"

# ---- a rank that is stopped ----

victim=$(find "$pages/ahead" -name '*.calls' | sort | head -n 1 |
    sed 's/.*mrail-telemetry\.[0-9]*\.\([0-9]*\)\..*/\1/')
kill -STOP "$victim"
sleep 4
gather stopped
view stopped diagnose --json
expect 'stopped: the stopped rank is found' "$tmp/view" \
    '"cause": "[a-z_]*stopped"'
view stopped diagnose
expect 'stopped: a message names it' "$tmp/view" 'rank: rank [23] is stopped'
kill -CONT "$victim"

# ---- all ranks are killed ----

sleep 1
pids=$(find "$pages/near" "$pages/ahead" -name '*.calls' |
    sed 's/.*mrail-telemetry\.[0-9]*\.\([0-9]*\)\..*/\1/')
# shellcheck disable=SC2086 # word splitting is intended
kill -9 $pids
wait $job 2>/dev/null || true
gather killed
view killed diagnose
expect 'killed: no process is running' "$tmp/view" '4 processes in the archive, 0 running'
view killed trace
expect 'killed: the records of a rank on the other host' "$tmp/view" \
    '^rank [23] .* ahead  ended$'
view killed top

# The report on the archive must agree with the reports on the two directories.
view killed report --json
cp "$tmp/view" "$tmp/killed.json"
for host in near ahead; do
    "$mrail" report --json --dir "$pages/$host" >"$tmp/$host.json" \
        2>"$tmp/err" || not_ok "killed: the report of $host" "$(cat "$tmp/err")"
done
python3 - "$tmp/killed.json" "$tmp/near.json" "$tmp/ahead.json" \
    >"$tmp/out" 2>&1 <<'END' || true
import json
import sys

archive, near, ahead = [json.load(open(path)) for path in sys.argv[1:]]
single = {process["rank"]: process for report in (near, ahead)
          for process in report["processes"]}
assert archive["totals"]["killed"] == 4, archive["totals"]
assert archive["totals"]["bytes"] == (near["totals"]["bytes"] +
                                      ahead["totals"]["bytes"]) > 0
assert archive["counters"] == {
    name: value + ahead["counters"][name]
    for name, value in near["counters"].items()}
for process in archive["processes"]:
    other = single.pop(process["rank"])
    assert process["counters"] == other["counters"], process["rank"]
    assert ([(rail["bytes"], rail["bytes_before"], rail["lanes"])
             for rail in process["rails"]] ==
            [(rail["bytes"], rail["bytes_before"], rail["lanes"])
             for rail in other["rails"]]), process["rank"]
    assert ([(comm["id"], comm["entered"], comm["calls"])
             for comm in process["communicators"]] ==
            [(comm["id"], comm["entered"], comm["calls"])
             for comm in other["communicators"]]), process["rank"]
assert not single, single
assert len(archive["events"]) == len(near["events"]) + len(ahead["events"])
print("ok")
END
is 'killed: the report on the archive has the figures of both hosts' ok \
    "$(tail -n 1 "$tmp/out")"
nothing_left 'collect'
finish
