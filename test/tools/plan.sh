#!/bin/sh
# Checks mrail plan: the table, JSON, the drawing, the topology of this node
# from hwloc, and invalid options and files.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
here=$top/test/tools
plan=$build/mrail-plan

# plans NAME STATUS PATTERN ARGUMENT...: runs mrail plan, and checks its exit
# status. A line of the output (stdout or stderr) must match.
plans()
{
    name=$1 want=$2 pattern=$3
    shift 3
    expect_run "$name" "$want" "$pattern" "$plan" "$@"
}

# says NAME PATTERN: the output of the last command must have a matching line.
says()
{
    expect "$1" "$tmp/out" "$2"
}

# checked NAME FILE...: runs the check of plan_check.py that has this name.
checked()
{
    if [ "$python" = no ]; then
        skip "$1" 'python3 is not installed'
    else
        check "$1" python3 "$here/plan_check.py" "$@"
    fi
}

python=no
! command -v python3 >/dev/null || python=yes
need_built mrail-plan

cat >"$tmp/mesh" <<'END'
# two nodes, four rails, one of them dead
nodes 2
rails 4
rail * * 50GB
rail 1 2 dead
ranks * 4 single-rail
pairwise * 100GB
END
cat >"$tmp/groups" <<'END'
nodes 4
rails 2
rail * * 10GB
ranks * 2 single-rail
switch * 100GB
leaf_group 2-3 1
uplink * * 12GB
END
cat >"$tmp/reach" <<'END'
# rails 0 and 1 have two ranks each, rail 2 has one, and rank 7 none
nodes 2
rails 3
rail * * 10GB
ranks * 4 0,1,2,0
reach 0,2 1 2GB full
reach 7 * none
pairwise * 100GB
END
printf 'nodes 1\nrails 1\nrail 0 0 1GB\nranks 0 2 single-rail\n' >"$tmp/alone"
echo '0 4 256m' >"$tmp/one"
cat >"$tmp/hot" <<'END'
0 4 256m
0 5-7 8m
1-3 4-7 8m
END

# ---- the table ----

plans 'the table' 0 '^2 nodes, 4 rails, 8 ranks; [0-9.]+ MiB in 16 demands$' \
    --topo "$tmp/mesh" --demand "$tmp/hot"
says 'the table: congestion before and after' \
    '^congestion +[0-9.]+ ms before, [0-9.]+ ms after: [2-3]\.[0-9]+ times'
says 'the table: bound and gap' \
    '^bound +[0-9.]+ ms, gap [0-2]\.[0-9]+ % \(at most 2\.00 % requested\)$'
says 'the table: relayed bytes' '^relayed +[0-9.]+ [MG]iB, bound [0-9.]+ [MG]iB, gap'
says 'the table: number of pieces' '^pieces +[0-9]+ of 16 demands$'
says 'the table: planning time' '^planning +[0-9.]+ [mu]?s, [0-9]+ iterations and [0-9]+ for'
says 'the table: a link with bars' \
    '^node 0 rail 0 out +[0-9.]+ ms #{20} +[0-9.]+ ms #{3,12}$'
says 'the table: a hint that there are more links' '^[0-9]+ more links carry bytes; --links shows all$'
plans 'the table: all links' 0 '^link rank [0-9] to [0-9] ' \
    --topo "$tmp/mesh" --demand "$tmp/hot" --links
expect_none 'the table: no hint if all links are shown' "$tmp/out" 'more links carry'
plans 'the table: pieces' 0 '^0 to 4, 268435456 bytes$' \
    --topo "$tmp/mesh" --demand "$tmp/hot" --pieces
says 'the table: pieces with relays' \
    '^    offset [0-9]+ +[0-9]+ bytes, relay 1, rail 1, relay 5$'
says 'the table: pieces without relays' '^    offset 0 +[0-9]+ bytes, rail 0$'
plans 'the table: a median' 0 '^planning +[0-9.]+ [mu]?s \(median\)' \
    --topo "$tmp/mesh" --demand "$tmp/hot" --repeat 5
printf '0 4 256m\n1 5 1k\n' >"$tmp/tiny"
plans 'a link that carries little has a bar' 0 \
    '^node 0 rail 1 out +0\.02 us # +' --topo "$tmp/mesh" --demand "$tmp/tiny"
plans 'a large demand takes relays' 0 '^relayed +[1-9][0-9.]* MiB, ' \
    --topo "$tmp/mesh" --demand "$tmp/one" --relay-threshold 255m
plans 'a demand below the threshold does not take relays' 0 '^relayed +0 B, ' \
    --topo "$tmp/mesh" --demand "$tmp/one" --relay-threshold=256m
printf 'nodes 2\nrails 2\nrail * * 50GB\nranks * 2 single-rail\npairwise * 100GB\n' \
    >"$tmp/small"
for pattern in uniform moe; do
    plans "demands within the limit keep the first path: $pattern" 0 \
        '^congestion .*: 1\.00 times as fast$' \
        --topo "$tmp/small" --pattern $pattern
    says 'demands within the limit stay whole: $pattern' '^pieces +12 of 12 demands$'
    says 'demands within the limit use the fewest relays: $pattern' \
        '^relayed +[0-9.]+ MiB, bound [0-9.]+ MiB, gap 0\.00 %'
done
plans 'a node without links: its traffic is not planned' 0 \
    '^0 B are planned; the rest, between ranks of a node, has no known' \
    --topo "$tmp/alone" --pattern uniform

# ---- JSON ----

json()
{
    name=$1
    shift
    plans "$name" 0 '^\{"topology": "' --json "$@"
    cp "$tmp/out" "$tmp/json"
}

json 'JSON' --topo "$tmp/mesh" --demand "$tmp/hot" --pieces
checked 'JSON: the loads of the links match the pieces' \
    pieces "$tmp/json" "$tmp/hot" 4
json 'JSON: groups and switches' --topo "$tmp/groups" --pattern zipf --pieces
checked 'JSON: groups and switches: links and pieces' pieces "$tmp/json" - 2
json 'JSON: ranks that reach several rails' --topo "$tmp/reach" --pattern zipf \
    --pieces
checked 'JSON: ranks that reach several rails: the links match the pieces' \
    pieces "$tmp/json" - 4
json 'JSON: without pieces' --topo "$tmp/mesh" --pattern 'moe:tokens=100'
checked 'JSON: the default gap is met' gap "$tmp/json" 0.02
json 'JSON: a small gap' --topo "$tmp/mesh" --pattern 'moe:tokens=100' \
    --gap=0.001
checked 'JSON: a small gap is met' gap "$tmp/json" 0.001
printf 'nodes 2\nrails 1\nrail * * 1GB\nranks * 1 multi-rail\n' >"$tmp/a \"b\"<&>"
json 'JSON: a name with quotes' --topo "$tmp/a \"b\"<&>" --pattern uniform \
    --svg "$tmp/quotes.svg"
checked 'JSON: a name with quotes is read back' name "$tmp/json" "$tmp/a \"b\"<&>"
checked 'a drawing: a name with quotes' svg "$tmp/quotes.svg" 8

# ---- the comparison ----

plans 'the comparison: the plan' 0 \
    '^plan +[0-9.]+ ms +[0-2]\.[0-9]+ % +[0-9.]+ MiB$' \
    --topo "$tmp/mesh" --demand "$tmp/hot" --compare --relay-threshold 0
says 'the comparison: its columns' '^comparison +time +over the bound +relayed +steps$'
for row in 'direct ' 'pairwise ' 'RailS ' 'FAST ' 'NIMBLE '; do
    says "the comparison: ${row% }" "^$row +[0-9.]+ ms +[0-9.]+ % +[0-9.]+ [MG]iB"
done
says 'the comparison: a bound has no relayed bytes' \
    '^SABRE \(bound\) +[0-9.]+ ms +-?[0-9.]+ % +-$'
says 'the comparison: the pairwise exchange has seven rounds' '^pairwise .* 7$'
plans 'the comparison: a method that is not supported' 0 \
    '^RailS +not supported:  the nodes are in several leaf groups' \
    --topo "$tmp/groups" --pattern zipf --compare
plans 'no comparison without the option' 0 '^congestion ' \
    --topo "$tmp/mesh" --demand "$tmp/hot"
expect_none 'no comparison without the option: no row' "$tmp/out" '^comparison'
json 'JSON: the comparison' --topo "$tmp/mesh" --demand "$tmp/hot" --compare \
    --relay-threshold 0
checked 'JSON: the comparison: six methods, none below the bound' \
    arms "$tmp/json" 0
json 'JSON: the comparison with leaf groups' --topo "$tmp/groups" \
    --pattern zipf --compare --relay-threshold 0
checked 'JSON: the comparison with leaf groups: three methods are unsupported' \
    arms "$tmp/json" 3

# hash_of ARGUMENT...: prints the hash of the plan for these arguments.
hash_of()
{
    "$plan" --json "$@" | sed -n 's/.*"hash": "\([0-9a-f]*\)".*/\1/p'
}

# A plan that takes many iterations, because a different warm start then gives a
# different plan.
set -- --topo "$tmp/mesh" --pattern moe:tokens=100 --gap 0.005
first=$(hash_of "$@" --seed 3)
: >"$tmp/out"
if [ -n "$first" ] && [ "$first" = "$(hash_of "$@" --seed 3 --repeat 4)" ]; then
    ok 'repeated planning gives the same plan'
else
    not_ok 'repeated planning gives the same plan' "not $first" "$tmp/out"
fi
if [ "$first" != "$(hash_of "$@" --seed 4)" ]; then
    ok 'a different seed gives different demands'
else
    not_ok 'a different seed gives different demands' 'the plan is the same' "$tmp/out"
fi

# ---- saved files, reread ----

plans 'demands and topology are written' 0 '^congestion ' \
    --topo "$tmp/mesh" --pattern zipf:size=1234567 --seed 9 \
    --save-demand "$tmp/saved" --save-topo "$tmp/saved.topo"
if cmp -s "$tmp/mesh" "$tmp/saved.topo" &&
    [ "$(wc -l <"$tmp/saved")" = 56 ] &&
    [ "$(hash_of --topo "$tmp/mesh" --pattern zipf:size=1234567 --seed 9)" = \
        "$(hash_of --topo "$tmp/saved.topo" --demand "$tmp/saved")" ]; then
    ok 'saved files give the same plan'
else
    not_ok 'saved files give the same plan' 'the plan differs' "$tmp/out"
fi
if "$plan" --topo - --demand "$tmp/hot" <"$tmp/mesh" >"$tmp/out" 2>&1 &&
    "$plan" --topo "$tmp/mesh" --demand - <"$tmp/hot" >>"$tmp/out" 2>&1 &&
    [ "$(grep -c '^congestion ' "$tmp/out")" = 2 ]; then
    ok 'topology and demands from standard input'
else
    not_ok 'topology and demands from standard input' 'no plan' "$tmp/out"
fi

# ---- drawings ----

plans 'a drawing' 0 '^congestion ' --topo "$tmp/mesh" --demand "$tmp/hot" \
    --svg "$tmp/mesh.svg"
# 14 rail ends (16 without the 2 dead ones) and 8 + 8 links of ranks, each
# counted twice, and the legend.
checked 'a drawing: cells, titles, legend' svg "$tmp/mesh.svg" $((2 * (14 + 16)))
plans 'a drawing of groups' 0 '^congestion ' --topo "$tmp/groups" \
    --pattern uniform --svg "$tmp/groups.svg"
checked 'a drawing of groups: with uplinks' svg "$tmp/groups.svg" \
    $((2 * (16 + 16 + 8)))
printf 'nodes 64\nrails 8\nrail * * 50GB\nranks * 8 multi-rail\n' >"$tmp/large"
plans 'a large drawing' 0 '^congestion ' --topo "$tmp/large" \
    --pattern incast:size=1m --svg "$tmp/large.svg"
checked 'a large drawing: a cell for each rail' svg "$tmp/large.svg" \
    $((2 * 64 * 16))
# When many ranks share a cell, each title must show the loads of the link that
# it names.
printf 'nodes 2\nrails 2\nrail * * 50GB\nranks * 64 single-rail\nswitch * 450GB\n' \
    >"$tmp/shared"
plans 'a drawing of shared cells' 0 '^congestion ' --topo "$tmp/shared" \
    --pattern moe:tokens=100 --links --svg "$tmp/shared.svg"
grep -o '<title>[^<]*' "$tmp/shared.svg" |
    sed 's/<title>//; s/: \(.*\) before, \(.*\) after$/|\1|\2/' |
    sort -u >"$tmp/titles"
wrong=0
while IFS='|' read -r link before after; do
    grep -qE "^$link +$before( #*)? +$after( #*)?\$" "$tmp/out" ||
        wrong=$((wrong + 1))
done <"$tmp/titles"
if [ -s "$tmp/titles" ] && [ $wrong = 0 ]; then
    ok 'a drawing of shared cells: titles have the loads of their links'
else
    not_ok 'a drawing of shared cells: titles have the loads of their links' "$wrong are not" "$tmp/out"
fi
plans 'a drawing that cannot be written' 1 'mrail plan: .*none/x.svg: No such' \
    --topo "$tmp/mesh" --demand "$tmp/hot" --svg "$tmp/none/x.svg"
if [ -c /dev/full ]; then
    plans 'a full disk' 1 'mrail plan: /dev/full: No space' \
        --topo "$tmp/mesh" --demand "$tmp/hot" --svg /dev/full
else
    skip 'a full disk' 'there is no /dev/full'
fi

# ---- this node ----

export HWLOC_XMLFILE="$here/node.xml"
if "$plan" --topo this --pattern uniform --save-topo "$tmp/this" \
    >"$tmp/out" 2>&1; then
    ok 'this node: the plan is computed'
    cp "$tmp/this" "$tmp/out"
    says 'this node: rails in the order of names' '^rail \* 0 200.000Gb # mlx5_0$'
    says "this node: rails with their slots' speeds" '^rail \* 3 400.000Gb # mlx5_3$'
    says 'this node: a rank for each GPU, at the nearest rail' \
        '^ranks \* 4 1,0,2,3 # cuda0 cuda1 cuda2 cuda3$'
    { sed 's/^nodes 1$/nodes 3/' "$tmp/this" && echo 'pairwise * 100GB'; } \
        >"$tmp/these"
    plans 'three such nodes' 0 '^3 nodes, 4 rails, 12 ranks' \
        --topo "$tmp/these" --pattern stencil:dims=1
    grep -v 'name="[cn][uv]' "$here/node.xml" >"$tmp/no-gpu.xml"
    HWLOC_XMLFILE=$tmp/no-gpu.xml
    plans 'this node without a GPU' 0 '^1 nodes, 4 rails, 4 ranks' \
        --topo this --pattern uniform
    grep -v 'name="mlx5' "$here/node.xml" >"$tmp/no-nic.xml"
    HWLOC_XMLFILE=$tmp/no-nic.xml
    plans 'this node without an RDMA device' 1 \
        'plan: --topo this: this machine has no RDMA device; give --topo FILE' \
        --topo this --pattern uniform
elif grep -q 'requires a build with hwloc' "$tmp/out"; then
    skip 'this node' 'built without hwloc'
else
    not_ok 'this node: the plan is computed' 'no plan' "$tmp/out"
fi
unset HWLOC_XMLFILE

# ---- invalid input ----

plans '--help' 0 '^Usage: mrail plan --topo FILE' --help
says '--help lists the patterns' '^    zipf:exponent=1.2,size=16m$'
# refused NAME PATTERN ARGUMENT...: the command must exit with status 2, print a
# matching message, and refer to --help.
refused()
{
    name=$1
    pattern=$2
    shift 2
    plans "$name" 2 "^mrail plan: $pattern" "$@"
    if [ "$(wc -l <"$tmp/out")" = 2 ] &&
        [ "$(tail -n 1 "$tmp/out")" = 'Try: mrail plan --help' ]; then
        ok "$name: the error is reported once"
    else
        not_ok "$name: the error is reported once" 'not exactly one message' "$tmp/out"
    fi
}

mesh=$tmp/mesh
refused 'no topology' 'the topology is missing; give' --pattern uniform
refused 'no demands' 'the demands are missing; give' --topo "$mesh"
refused 'two demands' 'there are two sources of demands; give' --topo "$mesh" \
    --demand "$tmp/hot" --pattern uniform
refused 'stdin twice' 'only one of --topo and --demand can' --topo - --demand -
refused 'an unknown option' "unknown option '--fast'" --fast
refused 'a stray word' "unknown argument 'fast'" --topo "$mesh" fast
refused 'an option without its value' '--svg requires a value' --svg
refused 'no such topology' '.*/none: No such file' --topo "$tmp/none" \
    --pattern uniform
refused 'a folder' '.*: Is a directory' --topo "$tmp" --pattern uniform
refused 'no such demands' '.*/none: No such file' --topo "$mesh" \
    --demand "$tmp/none"
for gap in 0 0.0009 1.1 -1 x 0.0000001 ''; do
    refused "--gap '$gap'" "--gap $gap: expected a fraction from 0.001 to 1" \
        --topo "$mesh" --pattern uniform --gap "$gap"
done
refused '--repeat 0' '--repeat 0: expected a number from 1 to 1000' --repeat 0
refused '--seed -1' '--seed -1: expected a number from 0 to 18446744073709551615' \
    --seed -1
refused '--relay-threshold much' '--relay-threshold much: expected bytes' \
    --relay-threshold much
refused 'an unknown pattern' "--pattern zip: 'zip' is not a pattern; the patterns are" \
    --topo "$mesh" --pattern zip
refused 'a wrong setting' '--pattern moe:k=0: k=0: expected a number from 1' \
    --topo "$mesh" --pattern moe:k=0
refused 'more receivers than ranks' '--pattern incast:receivers=8: 8 receivers' \
    --topo "$mesh" --pattern incast:receivers=8
while IFS='|' read -r what line pattern; do
    { cat "$mesh" && printf '%s\n' "$line"; } >"$tmp/broken"
    refused "a topology with $what" ".*/broken:8: $pattern" \
        --topo "$tmp/broken" --pattern uniform
done <<'END'
an unknown word|wire 0 1|'wire' is not a statement
another node|rail 2 0 1GB|there is no node 2: valid numbers are 0 to 1
another rail|rail 0 4 1GB|there is no rail 4
another rank|link 0 8 1GB|there is no rank 8
no unit|rail 0 0 50|'50' is not a capacity
a capacity of zero|rail 0 0 0GB|'0GB' is out of range
a negative capacity|rail 0 0 -1GB|'-1GB' is not a capacity
an endless capacity|rail 0 0 inf|'inf' is not a capacity
END
while IFS='|' read -r what line pattern; do
    printf '# x\n%s\n' "$line" >"$tmp/broken"
    refused "demands with $what" ".*/broken:2: $pattern" \
        --topo "$mesh" --demand "$tmp/broken"
done <<'END'
a word too few|0 1|too few words: FROM TO BYTES
another rank|0 8 1|there is no rank 8: valid numbers are 0 to 7
a negative number|0 1 -5|'-5' is not a number of bytes
too many bytes|* * 4611686018427387904|with this line, the total exceeds
END
printf 'nodes 2\nrails 2\nrail * 0 1GB\nranks 0 1 0\nranks 1 1 1\n' \
    >"$tmp/apart"
printf 'nodes 2\nrails 1\nranks * 1 multi-rail\n' >"$tmp/dead"
plans 'all rails are down' 1 '^mrail plan: .*/dead: all rails are down, and there are' \
    --topo "$tmp/dead" --pattern uniform
plans 'no path' 1 '^mrail plan: .*/apart: .*rank' --topo "$tmp/apart" \
    --pattern uniform
printf '# one that is not it\n1 0 0\n\n0-1 0,1 4k # this\n0 1 1m\n' >"$tmp/far"
plans 'no path: the message names the line of the file' 1 \
    '^mrail plan: .*/far:4: demand 0, rank 0 to rank 1, 1052672 bytes: the two ranks cannot reach a rail' \
    --topo "$tmp/apart" --demand "$tmp/far"
finish
