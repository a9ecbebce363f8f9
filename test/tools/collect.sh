#!/bin/sh
# Checks mrail collect and the viewers of its archives without MPI jobs. The
# hosts are simulated by directories on this machine, which a replacement for
# ssh reads. Hosts fail and archives are damaged in all the ways that the
# documents list.
set -u
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need_built mrail-collect mrail-top mrail-diagnose mrail-trace mrail-report \
    exporter_pages

collect=$build/mrail-collect
pages=$UCX_MRAIL_TELEMETRY_DIR
if ! grep -q '^#define HAVE_LIBARCHIVE 1' "$build/config.h"; then
    expect_run 'without libarchive: a message names the package' 1 \
        'this build has no libarchive; install libarchive-dev' \
        "$collect" -o "$tmp/archive"
    expect_run 'a viewer without libarchive' 1 \
        '--archive: this build has no libarchive' \
        "$build/mrail-top" --archive "$tmp/archive"
    skip 'archives' 'configure found no libarchive (libarchive-dev)'
    finish
fi
need python3
shim=$build/.libs/libtest-clock.so
need_built .libs/libtest-clock.so
sanitized=$(sed -n 's|^MRAIL_SAN = *||p' "$build/Makefile")
TMPDIR=$tmp/unpacked
export TMPDIR
mkdir "$TMPDIR"

# ---- hosts ----

# The mrail command of a host, as in an installation.
cat >"$tmp/mrail" <<END
#!/bin/sh
shift
exec "$collect" "\$@"
END

# ssh HOST COMMAND: a host's behaviour depends on its name.
cat >"$tmp/ssh" <<END
#!/bin/sh
host=\$1
shift
export UCX_MRAIL_TELEMETRY_DIR="$pages/\$host"
echo "\$host" >>"$tmp/visits"
case \$host in
once) ! grep -q once "$tmp/once" 2>/dev/null || exit 255; echo once >"$tmp/once" ;;
gone) echo 'ssh: connect to host gone port 22: No route to host' >&2; exit 255 ;;
mute) exec sleep 30 ;;
early) exit 3 ;;
newer) echo 'mrail-collect 2'; exec sleep 30 ;;
lost) echo 'sh: 1: /opt/mrail: not found' >&2; exit 127 ;;
wrong) echo 'mrail-collect 1'; echo 'ready'; cat /dev/urandom ;;
chatty) yes | head -n 100000; exit 0 ;;
banner) echo 'Welcome to this host'; echo; echo 'You have mail.' ;;
cut) sh -c "\$*" | python3 "$tmp/cut.py"; exit 0 ;;
bomb)
    # A complete conversation, but with an answer that is too large.
    sh -c "\$(echo "\$*" | sed 's/--max-size=[0-9]*/--max-size=4g/')"
    exit 0 ;;
ahead) export MRAIL_TEST_CLOCK_S=3600 LD_PRELOAD="$shim" ;;
behind) export MRAIL_TEST_CLOCK_S=-3600 LD_PRELOAD="$shim" ;;
esac
exec sh -c "\$*"
END
chmod +x "$tmp/mrail" "$tmp/ssh"
# Forwards the first 100000 bytes.
cat >"$tmp/cut.py" <<'END'
import os

left = 100000
while left > 0:
    data = os.read(0, left)
    if not data:
        break
    os.write(1, data)
    left -= len(data)
END

# start HOST JOB [plans | '' [RANKS]]: starts a process of a job on a host, until
# the script ends.
started=0
start()
{
    started=$((started + 1))
    mkdir -p "$pages/$1"
    mkfifo "$tmp/stdin.$started"
    (
        case $1 in
        ahead) export MRAIL_TEST_CLOCK_S=3600 LD_PRELOAD="$shim" ;;
        behind) export MRAIL_TEST_CLOCK_S=-3600 LD_PRELOAD="$shim" ;;
        esac
        # shellcheck disable=SC2086 # the last word may be absent
        exec "$build/exporter_pages" "$pages/$1" "$2" "${4-1}" 2 4 ${3-} \
            <"$tmp/stdin.$started" >"$tmp/ready.$started"
    ) &
    # The process exits when its standard input ends.
    sleep 1000 >"$tmp/stdin.$started" &
    await 20 grep -qs ready "$tmp/ready.$started" ||
        bail_out "the job on $1 does not start"
}

# gather NAME STATUS PATTERN OPTION...: writes $tmp/NAME.tar.gz.
gather()
{
    name=$1 wanted=$2 pattern=$3
    shift 3
    expect_run "$name" "$wanted" "$pattern" timeout 100 "$collect" \
        -o "$tmp/$name.tar.gz" --sample 0.2 --ssh "$tmp/ssh" \
        --remote "$tmp/mrail" "$@"
}

# view NAME STATUS PATTERN VIEWER OPTION...: reads $tmp/NAME.tar.gz. The
# directory with the extracted files must not remain.
view()
{
    name=$1 wanted=$2 pattern=$3 viewer=$4
    shift 4
    expect_run "$name: mrail $viewer $*" "$wanted" "$pattern" timeout 100 \
        "$build/mrail-$viewer" --archive "$tmp/$name.tar.gz" "$@"
    cp "$tmp/out" "$tmp/view"
    is "$name: mrail $viewer leaves no directory" '' "$(ls "$TMPDIR")"
}

# figures NAME HOST CONDITION...: the JSON from mrail report in $tmp/view must
# be about HOST, and satisfy conditions in Python.
figures()
{
    name=$1 wanted=$2
    shift 2
    check "$name: the figures of the report" python3 -c '
import json, sys
text = open(sys.argv[1]).read()
report = json.loads(text[text.index("{"):])
assert report["host"] == sys.argv[2], report["host"]
assert not report["recording"]["live"]
for condition in sys.argv[3:]:
    assert eval(condition.replace("\n", " ")), (condition, text[-4000:])
' "$tmp/view" "$wanted" "$@"
}

no_archive()
{
    if [ -e "$tmp/$1.tar.gz" ]; then
        not_ok "$1: there is no archive" "$(ls "$tmp")"
    else
        ok "$1: there is no archive"
    fi
}

nothing_unpacked()
{
    [ -z "$(ls "$TMPDIR")" ]
}

expect_run 'a host that is an option' 2 "'-oProxyCommand=x' is not a host name" \
    "$collect" -- -oProxyCommand=x
expect_run 'a host with a path' 2 "'../n1' is not a host name" "$collect" ../n1
expect_run 'a host that is named twice' 2 'host n1 is named twice' \
    "$collect" n1 n2 n1
expect_run 'no command for ssh' 2 'expected a command' "$collect" --ssh ' ' n1
expect_run 'a job with a name that is too long' 2 'expected 1 to 47 printable characters' \
    "$collect" --job 123456789012345678901234567890123456789012345678
expect_run 'an archive of more than 4 GiB' 2 'expected at most 4294967296 bytes' \
    "$collect" --max-size 5g
expect_run 'a directory that does not exist' 1 'cannot read .*/none: No such file' \
    "$collect" -o "$tmp/none.tar.gz" --dir "$tmp/none"
expect_run 'a job without processes' 1 'no process of this user left telemetry on this host' \
    "$collect" -o "$tmp/none.tar.gz"
no_archive none

for host in n1 n1 n2 n2 banner cut cut cut bomb bomb bomb; do
    start $host alpha
done
start n2 beta
if [ -z "$sanitized" ]; then
    start ahead alpha
    start ahead alpha
    start behind alpha
fi
start plans alpha plans
mkdir "$pages/empty"

# ---- this machine ----

expect_run 'this machine' 0 '1 of 1 hosts, 2 processes' "$collect" \
    -o "$tmp/here.tar.gz" --dir "$pages/n1"
is 'the archive is private' 600 "$(stat -c %a "$tmp/here.tar.gz")"
view here 0 'job alpha: 2 processes in the archive, 2 running' diagnose

# Ranks in different PID namespaces may have the same process id.
start same gamma '' 3
expect_run 'ranks with the same process id' 0 '1 of 1 hosts, 3 processes' \
    "$collect" -o "$tmp/same.tar.gz" --dir "$pages/same"
for options in "--dir $pages/same" "--archive $tmp/same.tar.gz"; do
    # shellcheck disable=SC2086
    expect_run "diagnose ${options%% *}: ranks with the same process id" 0 \
        'job gamma: 3 processes .*, 3 running' \
        "$build/mrail-diagnose" $options
    expect 'ranks with the same process id: each is in the table' "$tmp/out" '^ +2 '
done
expect_run 'an archive that exists' 1 'here.tar.gz exists; --force replaces it' \
    "$collect" -o "$tmp/here.tar.gz" --dir "$pages/n1"
expect_run 'an archive is replaced with --force' 0 '2 processes' "$collect" --force \
    -o "$tmp/here.tar.gz" --dir "$pages/n1"
"$collect" -o - --dir "$pages/n1" 2>"$tmp/err" |
    "$build/mrail-top" --archive - >"$tmp/out" 2>&1
expect 'an archive through a pipe' "$tmp/out" '^rank 0 '
"$collect" -o - --dir "$pages/n1" 2>"$tmp/err" | tar tf - >"$tmp/list" 2>&1
is 'tar reads the archive: the manifest is first' manifest.json "$(head -n 1 "$tmp/list")"
is 'tar reads the archive: a page, calls, and an earlier sample of both' 9 \
    "$(wc -l <"$tmp/list")"
expect_run 'a directory that cannot be written' 1 \
    'cannot write .*/none/x: No such file' \
    "$collect" -o "$tmp/none/x" --dir "$pages/n1"
expect_run 'a full device' 1 'cannot write stdout: No space left on device' \
    sh -c '"$0" -o - --dir "$1" >/dev/full' "$collect" "$pages/n1"

# ---- several hosts ----

gather two 0 '2 of 2 hosts, 5 processes' n1 n2
view two 0 '^job beta: 1 process in the archive' diagnose
expect 'two: diagnose shows the hosts' "$tmp/view" ' n2$'
view two 0 '^rank 0 .* n1$' top
view two 0 ', n2$' top --lanes
view two 1 'there are several jobs; name one of:' report --json
view two 0 '"job": "alpha"' report --json alpha
figures two '2 hosts' 'sorted(p["host"] for p in report["processes"]) ==
    ["n1", "n1", "n2", "n2"]' \
    'all(p["state"] == "running" for p in report["processes"])' \
    'report["grid"]["points"] > 0 and report["totals"]["peak_bytes_per_s"] > 0' \
    'report["plans"] == [] and report["configuration"]["rank"] is None'
view two 0 '^.*/two.html: 1 process; open it in a browser' report \
    -o "$tmp/two.html" beta
gather job 0 '2 of 2 hosts, 4 processes' --job alpha n1 n2
view job 1 'no process of job beta has telemetry in .*job.tar.gz' diagnose \
    --job beta
view job 1 'no process of job beta has telemetry in .*job.tar.gz' top --job beta
view job 1 'no process or job beta keeps records' trace beta
view job 1 'no process of job beta has telemetry in .*job.tar.gz' report \
    --json beta
view job 0 'no records in the trace rings of 4 processes' trace alpha
view job 0 ' 0 records of 4 processes' trace -o "$tmp/trace"
gather missing-job 1 'no process of job gamma left telemetry on these hosts' \
    --job gamma n1 n2
no_archive missing-job
gather banner 0 '1 of 1 hosts, 1 process,' banner

# Forecasts, and the collective that used one.
gather plans 0 '1 of 1 hosts, 1 process,' plans
view plans 0 '"planned_time_s": 0.250000000' report --json
figures plans plans 'len(report["plans"]) == 1' \
    'report["plans"][0]["forecasts"] == 1' \
    'sum(l["unplanned_bytes"] for l in report["plans"][0]["links"]) == 8e9' \
    '0 <= report["plans"][0]["time_s"] < 1800'
view plans 0 ' 0 records of 1 process,' trace -o "$tmp/plans.trace"
for text in 'plans of MPI_COMM_WORLD' 'forecast: by the plan' 'measured ns' \
    'rail 1: bytes without a plan'; do
    if grep -aq "$text" "$tmp/plans.trace"; then
        ok "plans: the trace has '$text'"
    else
        not_ok "plans: the trace has '$text'" 'the trace does not contain it'
    fi
done

# srun is given the host as an option, and separate words instead of a shell
# command line.
mkdir "$tmp/bin"
cat >"$tmp/bin/srun" <<END
#!/bin/sh
for word; do
    case \$word in
    --nodelist=*) host=\${word#*=} ;;
    --*) ;;
    *) break ;;
    esac
    shift
done
UCX_MRAIL_TELEMETRY_DIR="$pages/\$host" exec "\$@"
END
chmod +x "$tmp/bin/srun"
expect_run 'srun' 0 '2 of 2 hosts, 4 processes' env PATH="$tmp/bin:$PATH" \
    "$collect" -o "$tmp/srun.tar.gz" --srun --remote "$tmp/mrail" \
    --job alpha n1 n2

# ---- clocks ----

if [ -n "$sanitized" ]; then
    skip 'wrong clocks' 'a sanitizer must be the first library'
else
    gather clocks 0 '3 of 3 hosts, 5 processes' --sample 2 n1 ahead behind
    expect 'clocks: an hour ahead' "$tmp/out" '^ahead .* (3600|3599)[.][0-9]+ '
    expect 'clocks: an hour behind' "$tmp/out" '^behind .* -(3600|3599)[.][0-9]+ '
    view clocks 0 'the clock of ahead was 3600[.]0.* s ahead, which is corrected' \
        top --json
    python3 - "$tmp/view" >"$tmp/result" 2>&1 <<'END'
import json
import sys

text = next(row for row in open(sys.argv[1]) if row.startswith("{"))
top = json.loads(text)
hosts = {host["name"]: host for host in top["hosts"]}
assert abs(hosts["ahead"]["offset_s"] - 3600) < 0.5, hosts
assert abs(hosts["behind"]["offset_s"] + 3600) < 0.5, hosts
assert all(0 <= host["error_s"] < 0.5 for host in hosts.values()), hosts
for process in top["processes"]:
    # The samples are seconds apart, not an hour.
    assert abs(process["update_s"] - top["time_s"]) < 60, process
    assert process["start_s"] <= process["update_s"], process
    assert sum(rail["bytes_per_s"] for rail in process["rails"]) > 0, process
assert {process["host"] for process in top["processes"]} == set(hosts)
print("all times agree")
END
    is 'clocks: an hour apart, all times agree' 'all times agree' \
        "$(tail -n 1 "$tmp/result")"
    view clocks 0 'Times of the hosts are aligned to within [0-9.]+ ms' report \
        --json
    figures clocks '3 hosts' 'all(0 <= p["start_s"] <= p["update_s"] < 1800
        for p in report["processes"])' \
        '0 < report["archive"]["error_s"] < 0.5' \
        'report["grid"]["end_s"] - report["grid"]["begin_s"] < 60' \
        'sorted(round(h["offset_s"] / 3600) for h in
        report["archive"]["hosts"]) == [-1, 0, 1]'
fi

# ---- hosts that fail ----

gather gone 1 'host gone is missing: cannot be reached: ssh: connect to host gone port 22: No route' \
    n1 gone
expect 'gone: the archive has the other host' "$tmp/out" '1 of 2 hosts, 2 processes'
view gone 0 'host gone is missing: cannot be reached: ssh: connect' diagnose
view gone 0 'host gone is missing: cannot be reached: ssh: connect' report --json
figures gone '1 of 2 hosts' \
    '"1 of 2 hosts is missing: gone." in report["summary"]' \
    'report["archive"]["hosts"][1]["error"].startswith("cannot be reached")'
gather lost 1 'cannot be reached: sh: 1: /opt/mrail: not found' n1 lost
gather early 1 'host early is missing: cannot be reached: ssh exited with status 3' \
    n1 early
gather newer 1 'host newer is missing: it runs a different version of mrail' n1 newer
gather wrong 1 'host wrong is missing: invalid response' n1 wrong
gather chatty 1 'host chatty is missing: too many lines of output' n1 chatty
gather cut 1 'host cut is missing: response: truncated or damaged' n1 cut
gather bomb 1 'host bomb is missing: response: larger than the maximum size' \
    --max-size 1600k n1 bomb
gather mute 1 'host mute is missing: no response for 1 s' --timeout 1 n1 mute
gather nobody 1 'mrail collect: no host responded' gone early
no_archive nobody
expect_run 'a program that does not exist' 1 'cannot run .*/nowhere: No such file' \
    "$collect" -o "$tmp/nowhere.tar.gz" --ssh "$tmp/nowhere" n1
gather empty 0 '2 of 2 hosts, 2 processes' n1 empty

# ---- other users ----

mkdir "$pages/others"
: >"$pages/others/mrail-telemetry.$(($(id -u) + 1)).1.1"
: >"$pages/others/mrail-telemetry.$(id -u).2.2"
if [ "$(id -u)" = 0 ]; then
    # A file that has a name of this user but belongs to another user.
    cp "$pages/n1/mrail-telemetry.0."*.calls "$tmp/"
    cp "$(find "$tmp" -maxdepth 1 -name '*.calls' | head -n 1)" \
        "$pages/others/mrail-telemetry.0.3.3.calls"
    chown 65534 "$pages/others/mrail-telemetry.0.3.3.calls"
fi
ln -s "$(find "$pages/n1" -name '*.calls' | head -n 1)" \
    "$pages/others/mrail-telemetry.$(id -u).4.4.calls"
gather others 1 'others: [12] telemetry files? belongs? to other users|others: 2 telemetry files belong' \
    others
expect 'others: files that are not telemetry are counted' "$tmp/out" \
    'others: skipped 2 files, invalid'
no_archive others

# ---- size ----

# Killed processes leave their files behind.
mkdir "$pages/killed"
python3 - "$pages/n1" "$pages/killed" <<'END'
import os
import sys

source, target = sys.argv[1:]
names = sorted(os.listdir(source))
page = next(name for name in names if not name.endswith("calls"))
prefix = ".".join(page.split(".")[:2])
data = open(os.path.join(source, page), "rb").read()
# Only the page, without its ring, which is elsewhere in the file.
data = data[:int.from_bytes(data[8:12], "little")]
for number in range(1000):
    # The job is part of the page, and its name is near the front.
    path = os.path.join(target, "%s.%d.%x" % (prefix, number + 1, number))
    with open(path, "wb") as out:
        out.write(data[:12] + (number + 1).to_bytes(4, "little") +
                  bytes(24) +
                  data[40:].replace(b"alpha\0\0", b"a%06d" % number, 1))
    os.utime(path, (1700000000 + number,) * 2)
END
gather killed 0 'killed: 9[0-9][0-9] processes were left out, because the archive has reached --max-size' \
    --max-size 1m killed
view killed 0 'killed: 9[0-9][0-9] processes were left out' top
expect 'killed: the latest processes are kept' "$tmp/view" '^job a000999$'
view killed 0 'job a000999: 1 process in the archive, 0 running' diagnose
view killed 0 'processes were left out, because the archive was full' report \
    --json a000999
figures killed killed 'report["totals"]["killed"] == 1' \
    'report["archive"]["processes_left_out"] > 900' \
    'report["grid"]["points"] == 0' \
    'not report["processes"][0]["records_calls"]'
size=$("$collect" -o - --max-size 1m --dir "$pages/killed" 2>/dev/null | wc -c)
if [ "$size" -le 1200000 ] && [ "$size" -gt 500000 ]; then
    ok 'killed: the archive is bounded'
else
    not_ok 'killed: the archive is bounded' "$size bytes"
fi
gather thousand 0 '1 of 1 hosts, 1000 processes' killed
view thousand 0 '^job a000500: 1 process in the archive' diagnose

# left_out FILE HOST: prints how many processes of the host were left out.
left_out()
{
    tar xzOf "$1" manifest.json | python3 -c '
import json, sys
print(*[host["left_out"] for host in json.load(sys.stdin)["hosts"]
        if host["name"] == sys.argv[1]])' "$2"
}

# Hosts with many processes use the space that other hosts do not need.
gather alone 0 'killed: [0-9]+ processes were left out' --max-size 4m killed
alone=$(left_out "$tmp/alone.tar.gz" killed)
gather shared 1 'host gone is missing' --max-size 4m killed empty gone
is 'shared: hosts without processes leave their space to other hosts' "$alone" \
    "$(left_out "$tmp/shared.tar.gz" killed)"
gather uneven 0 '2 of 2 hosts' --max-size 4m n1 killed
half=$(left_out "$tmp/killed.tar.gz" killed)
left=$(left_out "$tmp/uneven.tar.gz" killed)
if [ "$left" -gt "$alone" ] && [ "$left" -lt $(((alone + half) / 2)) ]; then
    ok 'uneven: a small host leaves most of its space'
else
    not_ok 'uneven: a small host leaves most of its space' \
        "$left left out, $alone if alone, $half with 1m"
fi
is 'uneven: the small host is complete' 0 "$(left_out "$tmp/uneven.tar.gz" n1)"
size=$(gzip -dc "$tmp/uneven.tar.gz" | wc -c)
if [ "$size" -le 4500000 ]; then
    ok 'uneven: the archive is bounded'
else
    not_ok 'uneven: the archive is bounded' "$size bytes"
fi

# Two hosts that each need more than the whole size are given equal shares. Each
# is queried once, because nothing is left.
mkdir "$pages/twin"
cp -p "$pages/killed/"* "$pages/twin/"
: >"$tmp/visits"
gather twins 0 '2 of 2 hosts' --max-size 4m killed twin
is 'twins: both have equal shares' "$(left_out "$tmp/twins.tar.gz" killed)" \
    "$(left_out "$tmp/twins.tar.gz" twin)"
expect_count 'twins: each is queried once' "$tmp/visits" . 2

# If a host fails the second query, the archive keeps the host's first answer.
mkdir "$pages/once"
cp -p "$pages/killed/"* "$pages/once/"
gather once 0 '2 of 2 hosts, [0-9]+ processes' --max-size 2m once empty
is 'once: the archive has an equal share of the host' "$half" "$(left_out "$tmp/once.tar.gz" once)"
expect_count 'once: the host was queried twice' "$tmp/visits" once 2

# Files that vanish while they are read.
mkdir "$pages/vanishing"
cp "$pages/killed/"*.9[0-9][0-9].* "$pages/vanishing/"
rm -f "$pages/vanishing/"* &
timeout 100 "$collect" -o "$tmp/vanishing.tar.gz" --ssh "$tmp/ssh" \
    --remote "$tmp/mrail" vanishing >"$tmp/out" 2>&1
status=$?
wait $!
if [ $status = 0 ]; then
    view vanishing 0 '^job a000' top
elif [ $status = 1 ] && grep -q 'no process of this user left' "$tmp/out"; then
    ok 'vanishing: all files had disappeared'
else
    not_ok 'vanishing: no crash' "exit status $status" "$tmp/out"
fi

# ---- invalid archives ----

expect_run 'an archive that does not exist' 1 'none.tar.gz: No such file' \
    "$build/mrail-diagnose" --archive "$tmp/none.tar.gz"
expect_run 'a directory' 1 'cannot be read: Is a directory' \
    "$build/mrail-top" --archive "$tmp"
python3 - "$tmp" <<'END'
import gzip
import io
import json
import sys
import tarfile

tmp = sys.argv[1]
data = open(tmp + "/two.tar.gz", "rb").read()
plain = gzip.decompress(data)


def write(name, content):
    with open("%s/%s.tar.gz" % (tmp, name), "wb") as out:
        out.write(content)


def changed(name, change, bad=None, drop=None, data=plain):
    """Writes the archive with another manifest, or other files."""
    out = io.BytesIO()
    source = tarfile.open(fileobj=io.BytesIO(data))
    target = tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT)
    for entry in source:
        content = source.extractfile(entry).read()
        if entry.name == "manifest.json":
            manifest = json.loads(content)
            change(manifest)
            content = json.dumps(manifest).encode()
        elif drop is not None and drop(entry.name):
            continue
        elif bad is not None:
            content = bad(entry, content)
        entry.size = len(content)
        target.addfile(entry, io.BytesIO(content))
    target.close()
    write(name, out.getvalue())


write("cut-1", plain[:100])
write("cut-2", plain[:len(plain) * 2 // 3])
write("cut-3", data[:len(data) * 2 // 3])
write("text", b"this is a text\n" * 100)
write("nothing", b"")
write("zeros", bytes(20000))
changed("version", lambda m: m.update(version=2))
changed("format", lambda m: m.update(format="other"))
changed("path", lambda m: m["hosts"][0]["files"][0].update(
    name="../../../tmp/mrail-telemetry.0.1.1"))
changed("host", lambda m: m["hosts"][0].update(name="../n1"))
changed("gone-host", lambda m: m["hosts"].pop(0))
changed("offset", lambda m: m["hosts"][0].update(offset_ns=4e18))
changed("alive", lambda m: None,
        lambda entry, content: content[:4] + b"\xff" + content[5:])
changed("other-page", lambda m: None,
        lambda entry, content: bytes(len(content)))


def without(drop):
    """Returns a change that removes files from the manifest."""
    def change(manifest):
        for host in manifest["hosts"]:
            host["files"] = [file for file in host["files"]
                             if not drop(file["name"])]
    return change


def is_calls(name):
    return name.endswith(".calls")


def is_page(name):
    return not is_calls(name)


def is_earlier(name):
    return "earlier/" in name


def is_plans(name):
    return name.endswith(".plans")


changed("no-calls", without(is_calls), drop=is_calls)
changed("no-pages", without(is_page),
        drop=lambda name: name != "manifest.json" and is_page(name))
changed("one-sample", without(is_earlier), drop=is_earlier)
changed("no-plans", without(is_plans), drop=is_plans,
        data=gzip.decompress(open(tmp + "/plans.tar.gz", "rb").read()))


def links(name, kind):
    out = io.BytesIO()
    target = tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT)
    entry = tarfile.TarInfo("manifest.json")
    entry.type = kind
    entry.linkname = "/etc/passwd"
    target.addfile(entry)
    target.close()
    write(name, out.getvalue())


links("symlink", tarfile.SYMTYPE)
links("hardlink", tarfile.LNKTYPE)
links("device", tarfile.CHRTYPE)
END
view cut-1 1 'cut-1.tar.gz: not a mrail collect archive' top
view cut-2 0 'cut-2.tar.gz: truncated or damaged; [0-9]+ of [0-9]+ files are missing' \
    top
view cut-3 0 'cut-3.tar.gz: truncated or damaged; [0-9]+ of [0-9]+ files are missing' \
    diagnose
for name in text nothing zeros format symlink hardlink device; do
    view $name 1 'not a mrail collect archive' diagnose
done
view version 1 'format version 2, but this mrail reads only version 1' \
    trace
view path 1 "lists file '../../../tmp/mrail-telemetry.0.1.1', which is not" top
view host 1 "an invalid or duplicate host '../n1'" top
view gone-host 1 'the files do not match the manifest' top
view offset 0 '2 of 2 hosts' top
view alive 1 'mrail-telemetry.*: the file was written by another version of mrail' top
view other-page 1 'no telemetry in this archive' diagnose
view cut-1 1 'cut-1.tar.gz: not a mrail collect archive' report --json
view cut-2 0 'cut-2.tar.gz: truncated or damaged; [0-9]+ of [0-9]+ files' \
    report --json alpha
figures cut-2 '2 hosts' \
    '"The archive was truncated or damaged, and " in report["summary"]' \
    'report["archive"]["files_lost"] > 0'
for name in text nothing zeros; do
    view $name 1 'not a mrail collect archive' report --json
done
view version 1 'format version 2, but this mrail reads only version 1' \
    report --json
view alive 1 'mrail-telemetry.*: the file was written by another version of mrail' \
    report --json
view no-calls 0 '"records_calls": false' report --json alpha
view no-plans 0 '"job": "alpha"' report --json
figures no-plans plans 'report["plans"] == []' \
    'report["processes"][0]["communicators"][0]["calls"]["MPI_Alltoallv"] == 1'
view no-pages 1 'no process of this user has telemetry in .*no-pages.tar.gz' \
    report --json
view one-sample 0 '"job": "alpha"' report --json alpha
figures one-sample '2 hosts' 'report["grid"]["points"] == 0' \
    'report["totals"]["bytes"] == report["totals"]["bytes_before"] > 0'
for option in '--dir /tmp' '--time 1' '--interval 1'; do
    # shellcheck disable=SC2086 # word splitting is intended
    expect_run "report: --archive with $option" 2 \
        "report: --archive cannot be combined with ${option%% *}" \
        "$build/mrail-report" --json --archive "$tmp/two.tar.gz" $option
done
expect_run 'a TMPDIR that does not exist' 1 'cannot create a directory in /nowhere' \
    env TMPDIR=/nowhere "$build/mrail-top" --archive "$tmp/two.tar.gz"

# ---- signals ----

unpacked()
{
    [ -n "$(ls "$TMPDIR")" ]
}

# The viewer blocks on its long output until it is read.
mkfifo "$tmp/slow"
for signal in HUP TERM KILL; do
    # shellcheck disable=SC2217 # it only keeps the pipe open
    sleep 100 <"$tmp/slow" &
    holder=$!
    "$build/mrail-top" --archive "$tmp/thousand.tar.gz" >"$tmp/slow" 2>&1 &
    viewer=$!
    await 20 unpacked || not_ok "SIG$signal: a directory" 'there is none'
    sleep 0.2
    kill -$signal $viewer 2>/dev/null
    wait $viewer 2>/dev/null
    kill $holder
    if await 10 nothing_unpacked; then
        ok "SIG$signal: no directory is left"
    else
        not_ok "SIG$signal: no directory is left" "$(ls "$TMPDIR")"
    fi
done
finish
