#!/bin/sh
# Checks mrail simulate: the table, JSON, the drawing, installed fabrics, and
# invalid input.
set -u
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need_built mrail-simulate
fabrics=$top/contrib/fabrics

# simulate NAME STATUS OPTION...: runs mrail simulate. Its output goes to
# $tmp/out, and its messages to $tmp/err.
simulate()
{
    name=$1 wanted=$2
    shift 2
    "$build/mrail-simulate" "$@" >"$tmp/out" 2>"$tmp/err"
    is "$name: exit status" "$wanted" $?
}

# refused NAME PATTERN OPTION...: the command must exit with status 2, print one
# matching message, and produce no output.
refused()
{
    name=$1 pattern=$2
    shift 2
    simulate "$name" 2 "$@"
    expect "$name: the message" "$tmp/err" "^mrail simulate: $pattern"
    is "$name: no output" 0 "$(wc -c <"$tmp/out")"
}

simulate 'the testbed of CTCCL' 0 "$fabrics/ctccl.fabric" --pattern shift:8 \
    --lanes 8 --size 64m --seeds 2
expect 'port rules reach the lower bound' "$tmp/out" \
    '^dnlb-8 +1\.342 ms +1\.000 +1\.000 +100\.0% +1\.000 +0\.000%'
expect 'ECMP does not' "$tmp/out" '^ecmp +[3-6]\.[0-9]+ ms '

simulate 'JSON' 0 --json "$fabrics/ctccl.fabric" --pattern ring@even,ring@odd \
    --method dnlb --lanes 1,2 --svg "$tmp/loads.svg"
if command -v python3 >/dev/null; then
    python3 - "$tmp/out" "$tmp/loads.svg" >"$tmp/read" 2>&1 <<'PY'
import json, sys, xml.dom.minidom
run = json.load(open(sys.argv[1]))
assert [m["lanes"] for m in run["methods"]] == [1, 2]
for method in run["methods"]:
    sent = sum(link["up_bytes"] for link in method["links"]
               if link["lower"][0] in "ab")
    assert sent == 16 * run["bytes"], sent
    assert method["time_s"] >= run["bound_s"] * (1 - 1e-9)
bars = xml.dom.minidom.parse(sys.argv[2]).getElementsByTagName("title")
assert len(bars) == 2 * 16, len(bars)
PY
    is 'JSON and the drawing have every link and byte' 0 $?
else
    skip 'JSON and the drawing have every link and byte' 'no python3'
fi

# Demands between NICs: one leaf with four two-rail hosts, and an incast on rail
# 0.
printf 'host h[1-4]\nleaf l[1-2]\nspine s1\nlink h[1-4] l1 1MB\n' >"$tmp/rails"
printf 'link h[1-4] l2 1MB\nlink l[1-2] s1 8MB\n' >>"$tmp/rails"
printf '2 0 2m\n4 0 2m\n6 0 1m # a comment\n6 0 1m\n2 3 1g\n' >"$tmp/incast"
simulate 'demands from a file, with relays' 0 "$tmp/rails" --demand "$tmp/incast" \
    --method dnlb,plan
expect 'without relays, one NIC is the limit' "$tmp/out" '^dnlb-8 +6\.291 s +1\.000'
expect 'relays use the other rail' "$tmp/out" '^plan-8 +3\.[12][0-9]+ s +0\.5'
simulate 'a plan on single-rail hosts is DNLB' 0 "$fabrics/paralet-128.fabric" \
    --demand-pattern hotspot:size=1m --method dnlb,plan --json
if command -v python3 >/dev/null; then
    python3 -c '
import json, sys
dnlb, plan = json.load(open(sys.argv[1]))["methods"]
assert plan["method"] == "plan", plan["method"]
assert abs(dnlb["time_s"] - plan["time_s"]) < 1e-9 * dnlb["time_s"]
' "$tmp/out" >"$tmp/read" 2>&1
    is 'a plan on single-rail hosts: the times' 0 $?
else
    skip 'a plan on single-rail hosts: the times' 'no python3'
fi

for file in "$fabrics"/*.fabric; do
    simulate "$(basename "$file")" 0 "$file" --pattern ring --size 1m \
        --method spray,ethereal,dnlb --lanes 4
done
printf 'host a b\nleaf l\nlink a,b l 1MB\n' >"$tmp/own.fabric"
simulate 'stdin' 0 - <"$tmp/own.fabric"
simulate 'an uplink fails, rules drop' 0 "$fabrics/ctccl.fabric" \
    --pattern shift:8 --size 8g --method dnlb --fail l1:3@50ms --drop
expect 'the other uplinks are equal' "$tmp/out" \
    'the other 7 uplinks of the leaf: [0-9.]+% to [0-9.]+%, cv 0\.000%'
# ethereal NAME OPTION...: runs Ethereal with a failed uplink, and keeps the
# output in $tmp/NAME.
ethereal()
{
    kept=$1
    shift
    simulate "an uplink fails, Ethereal, $kept" 0 "$fabrics/ctccl.fabric" \
        --pattern shift:8 --size 8g --method ethereal --fail l1:3@50ms "$@"
    cp "$tmp/out" "$tmp/$kept"
}

ethereal first --seed 1 --seeds 1
expect 'each flow of the uplink moves to one of the others' "$tmp/first" \
    'the other 7 uplinks of the leaf: [78][0-9.]+% to 100.00%, cv [1-9]'
ethereal again --seed 1 --seeds 1
cmp -s "$tmp/first" "$tmp/again"
is 'the same seed gives the same result' 0 $?
ethereal other --seed 2 --seeds 1
cmp -s "$tmp/first" "$tmp/other"
is 'a different seed gives a different order' 1 $?
# In later phases, hosts split their messages over 15 uplinks until the timer
# expires. If they retry the sixteenth, its flows collide with others.
for retry in 1m 1us; do
    simulate "Ethereal tries a failed path after $retry" 0 \
        "$fabrics/ethereal-256.fabric" --pattern doubling --fail l1:0@25ms \
        --method ethereal --retry $retry
    cp "$tmp/out" "$tmp/retry-$retry"
done
expect 'a bad path is avoided' "$tmp/retry-1m" '^ethereal +46\.57 ms'
expect 'after the timer, the path is good again' "$tmp/retry-1us" '^ethereal +47\.04 ms'
for stagger in 0s 1us 20us; do
    simulate "starts within $stagger" 0 "$fabrics/paralet-128.fabric" \
        --pattern shift:64 --size 1m --method ethereal --stagger $stagger
    cp "$tmp/out" "$tmp/stagger-$stagger"
done
expect 'no stagger: the time is the bound' "$tmp/stagger-0s" '^ethereal +83\.89 us'
expect 'a small stagger: within 1 %' "$tmp/stagger-1us" '^ethereal +84\.49 us +1\.007'
expect 'a large stagger delays the end' "$tmp/stagger-20us" '^ethereal +95\.91 us'
simulate 'an uplink fails in the last phase' 0 "$fabrics/ethereal-256.fabric" \
    --pattern doubling --method spray --fail l1:0@40ms
expect 'the failure time counts from the first phase' "$tmp/out" '^spray +43\.15 ms'
expect 'the other uplinks are full' "$tmp/out" \
    'the other 15 uplinks of the leaf: 100.00% to 100.00%'
simulate 'a spine uplink fails' 0 "$fabrics/ethereal-512.fabric" \
    --pattern shift:64 --method ethereal --fail s1:0@1ms
expect 'all leaf uplinks are shown' "$tmp/out" 'after the failure, 512 leaf uplinks'
for method in stock ecmp mprdma paralet dnlb ethereal spray; do
    simulate "the NIC of a host fails: $method" 1 \
        "$fabrics/ethereal-256.fabric" --pattern shift:16 --method $method \
        --fail h1:0@1ms
    expect "the NIC of a host fails: $method: the message" "$tmp/err" \
        "^mrail simulate: $method: a message has no path"
done
simulate 'no path is left' 1 "$tmp/own.fabric" --method ecmp --size 1g \
    --fail a:0@1ms
expect 'no path: the message' "$tmp/err" \
    '^mrail simulate: ecmp: a message has no path'

refused 'no fabric' 'the fabric is missing; give a file'
refused 'an unknown fabric' "there is no file 'nowhere'" nowhere
refused 'two fabrics' "'ctccl' and 'paralet-128' are two fabrics" ctccl paralet-128
printf 'host a b\nleaf l m\nlink a l 1MB\nlink b m 1MB\nlink l m 1MB\n' \
    >"$tmp/loop.fabric"
refused 'a loop' '.*loop.fabric:5: .* other links would form loops' "$tmp/loop.fabric"
own=$tmp/own.fabric
refused 'an unknown pattern' "--pattern: 'star' is not a pattern" "$own" --pattern star
refused 'an unknown method' "--method: 'magic' is not a method" "$own" --method magic
refused 'a method twice' "--method: 'dnlb' may appear only once" "$own" --method dnlb,dnlb
refused 'no lanes' "--lanes: '0'" "$own" --lanes 0
refused 'too many lanes' "--lanes: '65'" "$own" --lanes 65
refused 'starts over too long a time' '--stagger 2s: expected a time from 0s to 1s' \
    "$own" --stagger 2s
refused 'no timer of a failed path' '--retry 0s: expected a time from 1e-06s' \
    "$own" --retry 0s
refused 'nothing to send' '--size must be above 0' "$own" --size 0
refused 'a link that does not exist' '--fail a:1@1s: there is no uplink 1' \
    "$own" --fail a:1@1s
refused 'a link without a time' '--fail a/0: expected' "$own" --fail a/0
refused 'two exchanges' 'give only one of --pattern, --demand and --demand-pattern' \
    "$own" --pattern ring --demand "$tmp/incast"
refused 'a demand file that does not exist' '.*none: No such file' "$own" \
    --demand "$tmp/none"
printf '0 1 1m\n0 2 1m\n' >"$tmp/beyond"
refused 'a rank that does not exist' '.*beyond:2: ' "$own" --demand "$tmp/beyond"
refused 'an unknown demand pattern' "--demand-pattern: 'star' is not a pattern" \
    "$own" --demand-pattern star
printf '0 1 1m\n' >"$tmp/inside"
refused 'no demand between hosts' '.*inside: all demands are within a host' \
    "$tmp/rails" --demand "$tmp/inside"
refused 'two files from stdin' 'only one of the fabric and --demand can' - --demand -
printf 'host a b\nleaf l\nlink a l 1MB\n' >"$tmp/unlinked"
refused 'a host without a rail' ".*unlinked:1: .*'b'" "$tmp/unlinked"
refused 'an empty list' 'the list of methods is empty' "$own" --method ,
finish
