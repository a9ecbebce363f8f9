#!/bin/sh
# Checks mrail lanes: the table, the advice, JSON, and invalid input.
set -u
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need_built mrail-lanes

# lanes NAME STATUS OPTION...: runs mrail lanes. Its output goes to $tmp/out,
# and its messages to $tmp/err.
lanes()
{
    name=$1 wanted=$2
    shift 2
    "$build/mrail-lanes" "$@" >"$tmp/out" 2>"$tmp/err"
    is "$name: exit status" "$wanted" $?
}

# refused NAME PATTERN OPTION...: the command must exit with status 2, print one
# matching message, and produce no output.
refused()
{
    name=$1 pattern=$2
    shift 2
    lanes "$name" 2 "$@"
    expect "$name: the message" "$tmp/err" "^mrail lanes: $pattern"
    is "$name: no output" 0 "$(wc -c <"$tmp/out")"
}

# With one lane on each of two nodes, and two paths, both lanes take the same
# path with probability 1/2. The mean load of the fullest path is therefore 3/2.
lanes 'two nodes' 0 --nodes 2 --slowdown 1
expect 'the exact value for two nodes' "$tmp/out" '^ +1 +1\.000 +1\.500 +-$'
expect 'one lane suffices for twice the time' "$tmp/out" \
    '^  UCX_MRAIL_LANES_PER_RAIL=1$'
# Equation (1) gives 1 lane for two nodes, with any limit. The advice must not
# contradict the exact value.
lanes 'two nodes, a tenth' 0 --nodes 2 --slowdown 0.1
expect 'the advice is based on the exact value' "$tmp/out" \
    '^32 lanes keep it below 1\.1 \(equation \(1\): 1\):$'
lanes 'two nodes, a hundredth' 0 --nodes 2 --slowdown 0.01
expect 'more lanes than a rail can have, by the exact value' "$tmp/out" \
    '^More than 32 lanes .* below 1\.01 \(equation \(1\): 1\)\.$'
lanes 'more nodes than the exact value allows' 0 --nodes 1000000 --slowdown 1
expect 'the advice refers to equation (1)' "$tmp/out" \
    '^By equation \(1\), 23 lanes keep it below 2; the exact number is larger:$'
lanes 'chunks' 0 --rate 400Gb/s --rtt 10us
expect 'four times the product of rate and time, by lane' "$tmp/out" \
    '^ +8 .* 250000$'
expect 'the variables of the advice' "$tmp/out" '^  UCX_MRAIL_RMA_CHUNK_SIZE='
lanes 'more lanes than a rail can have' 0 --nodes 1000000 --slowdown 0.01
expect 'port rules instead' "$tmp/out" '^A rail has at most 32 lanes; use port rules'
expect_count 'no exact value for a million nodes' "$tmp/out" ' - +-$' 6
lanes 'JSON' 0 --nodes 128 --json
if command -v python3 >/dev/null 2>&1; then
    python3 - "$tmp/out" >"$tmp/read" 2>&1 <<'END'
import json, math, statistics, sys
found = json.load(open(sys.argv[1]))
z = statistics.NormalDist().inv_cdf(1 - 1 / 128)
for row in found["lanes"]:
    assert abs(row["slowdown"] - 1 - z / math.sqrt(row["lanes"])) < 1e-6
wanted = found["lanes_wanted"]
assert 1 + z / math.sqrt(wanted) <= found["limit"] < 1 + z / math.sqrt(wanted - 1)
exact = {row["lanes"]: row["slowdown_exact"] for row in found["lanes"]}
assert exact[32] <= found["limit"] < exact[16]
assert 16 < found["lanes_exact"] <= 32 and found["lanes_exact"] > wanted
END
    is 'the limit holds at the number, and not below' 0 $?
else
    skip 'the limit holds at the number, and not below' 'no python3'
fi
refused 'one node' '--nodes 1: expected a number' --nodes 1
refused 'no slowdown' '--slowdown 0' --slowdown 0
refused 'no rate' '--rate fast: expected a rate' --rate fast --rtt 1us
refused 'a rate alone' '--rate and --rtt must be given together' --rate 400Gb/s
refused 'an operand' '' 8
finish
