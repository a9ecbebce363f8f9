#!/bin/sh
# Checks mrail acl as a user runs it: the rules in all dialects, the check of
# rules, the list of segments, and the rejection of invalid options and rule
# sets.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
acl=$build/mrail-acl
unset UCX_MRAIL_UPLINKS

# prints NAME STATUS PATTERN ARGUMENT...: runs mrail acl, and checks its exit
# status. A line of the output (stdout or stderr) must match.
prints()
{
    name=$1 want=$2 pattern=$3
    shift 3
    expect_run "$name" "$want" "$pattern" "$acl" "$@"
}

# refused NAME PATTERN ARGUMENT...: the command must exit with status 2, print a
# matching message, and print no rules.
refused()
{
    name=$1 pattern=$2
    shift 2
    status=0
    "$acl" "$@" >"$tmp/rules" 2>"$tmp/err" </dev/null || status=$?
    if [ $status != 2 ] || [ -s "$tmp/rules" ]; then
        not_ok "$name" "exit status $status, $(wc -c <"$tmp/rules") bytes"
    else
        expect "$name" "$tmp/err" "^mrail acl: .*$pattern"
    fi
}

# makes FILE ARGUMENT...: writes the output of mrail acl to FILE.
makes()
{
    file=$1
    shift
    "$acl" "$@" >"$tmp/$file" 2>"$tmp/err"
}

need_built mrail-acl
hops=10.9.0.1+2
dialects='ios eos sonic nvue linux'

# ---- Rules, and their check ----

for dialect in $dialects; do
    makes "$dialect" --dialect $dialect --uplinks 8 --next-hops $hops
    prints "$dialect: the check accepts its own rules" 0 \
        ': 8 rules, 8 uplinks: each port .* goes to exactly one uplink$' \
        --dialect $dialect --check "$tmp/$dialect" --uplinks 8
    prints "$dialect: the check derives the uplinks from the next hops" 0 'exactly one uplink$' \
        --dialect $dialect --check "$tmp/$dialect"
    prints "$dialect: the check rejects rules for other lanes" 2 '6 segments that differ' \
        --dialect $dialect --check "$tmp/$dialect" --uplinks 6
    makes undo --dialect $dialect --uplinks 8 --undo
    check "$dialect: undo produces output" test -s "$tmp/undo"
    prints "$dialect: three tiers" 0 '^[^ ]' --dialect $dialect --uplinks 4 \
        --leaf-uplinks 8 --next-hops $hops
    prints "$dialect: VRFs of a spine" 0 'udf2' --dialect $dialect \
        --spine-vrf --uplinks 2 --ports 'p[1-4]'
done
check 'linux: the rules are a shell script' sh -n "$tmp/linux"
if command -v python3 >/dev/null; then
    check 'sonic: the rules are JSON' python3 -m json.tool "$tmp/sonic"
    makes patch --dialect sonic --uplinks 8 --undo
    check 'sonic: undo is JSON' python3 -m json.tool "$tmp/patch"
else
    skip 'sonic: the rules are JSON' 'python3 is not installed'
fi

# As in the paper, ports 51 to 54 lead to one spine, and ports 59 to 62 to the
# other.
makes paper --dialect ios --uplinks 8 --as-printed \
    --next-hops 100.98.0.10+4x4,100.98.0.42+4x4
is 'the paper: the first list' '  10 permit udp any range 49152 51199 any eq 4791' \
    "$(sed -n 2p "$tmp/paper")"
is 'the paper: the last list' '  10 permit udp any range 63488 65535 any eq 4791' \
    "$(sed -n 16p "$tmp/paper")"
is 'the paper: next hops' '10 14 18 22 42 46 50 54' \
    "$(sed -n 's/.*next-hop 100\.98\.0\.//p' "$tmp/paper" | paste -sd ' ')"
prints 'the paper: a switch reads the rules differently' 2 \
    "^line 18: there is no access list 'udf'" \
    --dialect ios --check "$tmp/paper" --uplinks 8

# ---- Uplinks of the lanes ----

prints 'without --uplinks: the default number of lanes' 0 \
    '^ +8 +63488 +65535 +8 ' --list
default=$(sed -n 's/^#define MRAIL_UPLINKS_AUTO \([0-9]*\)u$/\1/p' \
    "$top/src/rail/params.h")
is 'without --uplinks: the default equals that of params.h' "$default" "$("$acl" --list | grep -c '^ *[1-9]')"
is 'UCX_MRAIL_UPLINKS=auto: the default' "$default" \
    "$(UCX_MRAIL_UPLINKS=auto "$acl" --list | grep -c '^ *[1-9]')"
is 'UCX_MRAIL_UPLINKS sets the number of uplinks' 3 \
    "$(UCX_MRAIL_UPLINKS=3 "$acl" --list | grep -c '^ *[1-9]')"
UCX_MRAIL_UPLINKS=6 prints 'the check also uses UCX_MRAIL_UPLINKS' 2 \
    'segments that differ' --dialect ios --check "$tmp/ios"
UCX_MRAIL_UPLINKS=0 refused 'UCX_MRAIL_UPLINKS=0' \
    'UCX_MRAIL_UPLINKS=0: expected a number from 1 to 256' --list

# ---- Messages next to the rules ----

prints 'no next hops' 0 'replace NEXT_HOP_1 to NEXT_HOP_4, which switches reject' \
    --dialect ios --uplinks 4
makes placeholders --dialect ios --uplinks 4
prints 'the check finds placeholders' 2 '4 rules without an uplink' \
    --dialect ios --check "$tmp/placeholders"
prints 'a switch that cannot fall through' 0 '^mrail acl: --on-failure: SONiC' \
    --dialect sonic --next-hops $hops

# ---- JSON ----

prints 'the list as JSON' 0 \
    '"segment": 2, "first": 57344, "last": 65535, "uplink": 2, "next_hop": "10.9.0.3", "port": "swp52"' \
    --list --uplinks 2 --next-hops $hops --uplink-ports 'swp[51-52]' --json
prints 'a check as JSON' 0 '"exactly_once": true, "rules": 8, "uplinks": 8' \
    --dialect eos --check "$tmp/eos" --json
sed 's/61440 63487/61440 63000/' "$tmp/eos" >"$tmp/invalid"
prints 'a check as JSON: a finding' 2 '"holes": 1, "overlaps": 0' \
    --dialect eos --check "$tmp/invalid" --json
expect 'a check as JSON: the text of the finding' "$tmp/out" '"ports 63001 to 63487: no rule; line [0-9]+ ends at port 63000"'

# ---- A fabric file ----

cat >"$tmp/three.fabric" <<'END'
host  h[1-8]
leaf  l[1-4]
spine s[1-4]
core  c[1-4]
link  h[1-8] l[1-4] 1GB block
link  l[1-2] s[1-2] 1GB x2
link  l[3-4] s[3-4] 1GB x2
link  s[1-4] c[1-4] 1GB
link  s[3-4] c[1-2] 1GB
END
fabric="--fabric $tmp/three.fabric"
# shellcheck disable=SC2086 # word splitting is intended
{
    makes rules --dialect linux $fabric --switch l2 --next-hops 10.9.0.1+2
    is 'a leaf of a fabric: its uplinks' 4 \
        "$(grep -c 'udp sport' "$tmp/rules")"
    expect 'a leaf of a fabric: its prefix' "$tmp/rules" 'to 10\.0\.1\.0/24 lookup main'
    makes rules --dialect linux $fabric --switch s3 --next-hops 10.9.0.1+2
    is 'a spine: its uplinks in each leaf segment' 24 \
        "$(grep -c 'udp sport' "$tmp/rules")"
    is 'a spine: the prefixes of its leaves' '10.0.2.0/24 10.0.3.0/24' \
        "$(sed -n 's/.* to \([0-9./]*\) lookup main.*/\1/p' "$tmp/rules" |
            paste -sd ' ')"
    prints 'a spine: the check' 0 '24 rules, 6 uplinks: .* exactly one uplink$' \
        --dialect linux $fabric --switch s3 --check "$tmp/rules"
    makes rules --dialect linux $fabric --switch l2 --local 10.7.0.0/16
    is 'a leaf of a fabric: --local replaces its prefix' 1 "$(grep -c ' lookup main' "$tmp/rules")"
    refused 'a switch that does not exist' "three.fabric: the fabric has no switch 'l9'" \
        --dialect ios $fabric --switch l9
    refused 'a host' 'h1 is a host, not a switch' --dialect ios $fabric --switch h1
    refused 'a core' 'c1 has no uplinks' --dialect ios $fabric --switch c1
    refused 'a fabric without a switch' 'must be given together' --dialect ios $fabric
    refused 'a fabric with --uplinks' 'come from the fabric' --dialect ios $fabric \
        --switch l1 --uplinks 4
}
sed '/x2/d' "$tmp/three.fabric" >"$tmp/unequal.fabric"
cat >>"$tmp/unequal.fabric" <<'END'
link  l[1-2] s[1-2] 1GB x2
link  l3 s[3-4] 1GB x2
link  l4 s[3-4] 1GB x3
END
refused 'leaves with different numbers of uplinks below a spine' \
    'below s3, the leaves l3 and l4 have 4 and 6 uplinks' --dialect ios \
    --fabric "$tmp/unequal.fabric" --switch s3
refused 'stdin as both fabric and rule set' 'only one of --fabric and --check can be' --dialect ios \
    --fabric - --switch l1 --check -
echo 'host h[1-2]' >"$tmp/invalid.fabric"
refused 'a fabric file with an error' 'invalid.fabric:[0-9]+: ' --dialect ios \
    --fabric "$tmp/invalid.fabric" --switch l1

# ---- Faults in rule sets ----

prints 'a hole' 2 '^ports 63001 to 63487: no rule; line [0-9]+ ends at port 63000$' \
    --dialect eos --check "$tmp/invalid"
expect 'holes are counted' "$tmp/out" ': 8 rules, 8 uplinks: 1 hole$'
sed 's/61440 63487/61440 63500/' "$tmp/ios" >"$tmp/invalid"
prints 'an overlap' 2 '^line [0-9]+: ports 63488 to 63500 also match line [0-9]+$' \
    --dialect ios --check "$tmp/invalid"
sed '/via 10.9.0.5/d' "$tmp/linux" >"$tmp/invalid"
prints 'a rule without an uplink' 2 \
    '^line [0-9]+: ports 53248 to 55295 have no uplink: no next hop belongs to this mark$' \
    --dialect linux --check "$tmp/invalid"
{
    cat "$tmp/linux"
    echo '100: from 10.0.0.0/24 fwmark 0x47910003 lookup 200'
} >"$tmp/invalid"
prints 'a routing rule for some hosts' 2 \
    "^line [0-9]+: ports 0 to 65535 are exempt, from 10.0.0.0/24: rule 100, 'from 10.0.0.0/24 fwmark" \
    --dialect linux --check "$tmp/invalid"
{
    cat "$tmp/linux"
    printf '%s\n' 'table inet filter {' 'chain forward {' \
        'type filter hook forward priority filter; policy drop;' '}' '}'
} >"$tmp/invalid"
prints 'a chain that drops' 2 \
    "^line [0-9]+: ports 0 to 65535 are exempt: 'policy drop' in 'inet filter forward'$" \
    --dialect linux --check "$tmp/invalid"
sed 's/49152-51199/40000-51199/' "$tmp/nvue" >"$tmp/invalid"
prints 'ports out of range' 2 \
    '^line [0-9]+: ports 40000 to 51199: RoCEv2 lanes use 49152 to 65535 only$' \
    --dialect nvue --check "$tmp/invalid"
status=0
"$acl" --dialect sonic --check - <"$tmp/sonic" >"$tmp/out" 2>&1 || status=$?
is 'a rule set from stdin' 0 $status
expect 'a rule set from stdin is named stdin' "$tmp/out" '^stdin: 8 rules'
sed 's/$/\r/' "$tmp/ios" >"$tmp/crlf"
prints 'Windows line endings' 0 'exactly one uplink$' --dialect ios \
    --check "$tmp/crlf"

# ---- Invalid input ----

refused 'uplinks 0' '--uplinks 0: expected a number from 1 to 256' --dialect ios --uplinks 0
refused 'uplinks 257' 'a number from 1 to 256' --dialect ios --uplinks 257
refused 'more uplinks than ports' 'a leaf segment has only 64 ports' \
    --dialect ios --uplinks 65 --leaf-uplinks 256
refused 'an unknown dialect' 'junos' --dialect junos
refused 'no dialect' 'dialect NAME is required' --uplinks 4
refused 'more uplinks than marks' 'NVUE marks each uplink .* only 32 are free' \
    --dialect nvue --uplinks 33
refused 'too few next hops' '2 next hops, but 4 uplinks' \
    --dialect ios --uplinks 4 --next-hops 10.9.0.1,10.9.0.3
refused 'too many next hops' '5 next hops, but 4 uplinks' \
    --dialect ios --uplinks 4 --next-hops 10.9.0.1+2x5
refused 'a malformed next hop' "'10.9.0' is not a next hop" \
    --dialect ios --uplinks 1 --next-hops 10.9.0
refused 'a malformed step' "'10.9.0.1\+x' is not a next hop" \
    --dialect ios --next-hops 10.9.0.1+x
refused 'next hops beyond the last address' 'the next address is too large' \
    --dialect ios --next-hops 255.255.255.250+1
refused 'one next hop for two uplinks' 'uplinks 1 and 2 have the same next hop' \
    --dialect ios --uplinks 2 --next-hops 10.9.0.1,10.9.0.1
refused 'an empty word in a list' 'a word of 1 to 63 characters' \
    --dialect ios --ports a,,b
refused 'a list that ends with a comma' 'a word of 1 to 63 characters' \
    --dialect ios --ports a,
refused 'a malformed range' 'a range is written as swp\[1-4\]' \
    --dialect ios --ports 'swp[1'
refused 'a range with its ends swapped' 'the lower one first' \
    --dialect ios --ports 'swp[4-1]'
refused 'too many ports' 'at most 1024 names' --dialect ios --ports 'p[1-2000]'
refused 'a port name that contains a command' 'is not a port name' \
    --dialect linux --ports 'a;reboot'
refused 'a port that is given twice' 'port a appears twice' --dialect ios --ports a,a
refused 'a prefix with host bits' 'is not an IPv4 prefix' \
    --dialect ios --local 10.0.0.1/24
refused 'a DSCP out of range' 'a number from 0 to 63' --dialect ios --dscp 64
refused 'a malformed name' '1 to 9 letters' --dialect ios --name 'a b'
refused 'an unknown failure mode' 'ignore' --dialect ios --on-failure ignore
refused '--as-printed with another dialect' 'the ios dialect' \
    --dialect eos --as-printed
refused 'too few uplink ports' 'lists 1 ports, but there are 2 uplinks' \
    --dialect linux --uplinks 2 --uplink-ports swp1
refused 'VRFs without ports' 'ports .0. must be .* each leaf .4.' \
    --dialect eos --spine-vrf --uplinks 4
refused 'VRFs of an incomplete leaf' 'ports .3. must be .* each leaf .2.' \
    --dialect eos --spine-vrf --uplinks 2 --ports a,b,c
refused 'two modes' 'only one of --check' --dialect eos --list --check x
refused '--json without a list or a check' 'requires --list or --check' \
    --dialect eos --json
refused '--undo of a list' 'cannot be combined with' --list --undo
refused 'a rule set that does not exist' 'no-such-file: No such file' \
    --dialect eos --check "$tmp/no-such-file"
refused 'a directory as a rule set' 'Is a directory' --dialect eos --check "$tmp"
refused 'a rule set in another dialect' \
    "ios: line 1: '\{' is missing" --dialect sonic --check "$tmp/ios"
refused 'a rule set in another dialect, without a rule' 'no rule for source ports to UDP port 4791' \
    --dialect eos --check "$tmp/linux"
printf 'ip access-list extended a\n permit udp any range 5 4 any eq 4791\n' \
    >"$tmp/invalid"
refused 'a malformed rule set' 'invalid: line 2: range 5 4: the lower port' \
    --dialect ios --check "$tmp/invalid"
printf 'a\nb\000c' >"$tmp/invalid"
refused 'a rule set with a zero byte' 'invalid: line 2: byte 0 is not text' \
    --dialect ios --check "$tmp/invalid"
if [ -c /dev/full ]; then
    expect_run 'a full output device' 1 'stdout: No space left' \
        sh -c '"$1" --list >/dev/full' - "$acl"
else
    skip 'a full output device' 'there is no /dev/full'
fi
finish
