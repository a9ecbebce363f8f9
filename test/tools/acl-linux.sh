#!/bin/sh
# Applies the Linux rules of `mrail acl` to a leaf switch in a network
# namespace, with two hosts and a spine. Datagrams from chosen source ports must
# take the uplinks of their segments. Also checks a failed uplink, DSCP, undo,
# and a script that fails halfway.
set -u
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"

UPLINKS=8
REMOTE=10.99.0.2 # an address behind the spine
DSCP_26=104      # DSCP 26 as a TOS byte

# The namespace of this script becomes the leaf.
if [ "${1-}" != in-namespace ]; then
    need_built mrail-acl udp_ports
    need unshare nsenter setpriv ip nft
    for flags in -n -Urn; do
        if unshare "$flags" sh -c 'ip link add leaf0 type veth peer name leaf1 &&
            nft add table ip x' >/dev/null 2>&1; then
            unshare "$flags" sh "$0" in-namespace
            exit
        fi
    done
    skip_all 'network namespaces with veth and nftables are not permitted'
fi

# ---- The fabric ----

# namespace NAME: creates a network namespace. Sets $holder to the ID of a
# process in it.
namespace()
{
    # shellcheck disable=SC2016 # expanded by the inner shell
    unshare -n sh -c 'echo inside >"$1"; exec sleep 600' - "$tmp/$1" \
        >/dev/null 2>&1 &
    holder=$!
    await 10 test -s "$tmp/$1" || bail_out "cannot create a namespace for $1"
}

at()
{
    at_holder=$1
    shift
    nsenter -t "$at_holder" -n -- "$@"
}

# counter HOLDER NAME MATCH...: adds a counter of datagrams to UDP port 4791
# that match.
counter()
{
    counter_holder=$1 counter_name=$2
    shift 2
    at "$counter_holder" nft "add table ip count
        add chain ip count in { type filter hook prerouting priority raw; }
        add counter ip count $counter_name
        add rule ip count in $* udp dport 4791 counter name $counter_name"
}

# packets HOLDER NAME: prints the datagrams that this counter has counted since
# the last reset.
packets()
{
    at "$1" nft list counter ip count "$2" |
        sed -n 's/.*packets \([0-9]*\) .*/\1/p'
}

reset()
{
    at "$spine" nft reset counters >/dev/null
    at "$host2" nft reset counters >/dev/null
}

# host NAME HOLDER SUBNET: connects a host to the leaf's port NAME.
host()
{
    ip link add "$1" type veth peer name eth0 netns "$2"
    ip addr add "$3.1/24" dev "$1"
    ip link set "$1" up
    at "$2" ip addr add "$3.2/24" dev eth0
    at "$2" ip link set eth0 up
    at "$2" ip link set lo up
    at "$2" ip route add default via "$3.1"
}

# uplink N: creates a link to the spine. The spine counts the datagrams that
# arrive over it.
uplink()
{
    ip link add "up$1" type veth peer name "link$1" netns "$spine"
    ip addr add "10.20.$1.1/24" dev "up$1"
    ip link set "up$1" up
    at "$spine" ip addr add "10.20.$1.2/24" dev "link$1"
    at "$spine" ip link set "link$1" up
    counter "$spine" "c$1" iifname "link$1"
}

set_up()
{
    namespace host1
    host1=$holder
    namespace host2
    host2=$holder
    namespace spine
    spine=$holder
    ip link set lo up
    echo 1 >/proc/sys/net/ipv4/ip_forward
    # Makes the multipath hash include the ports, as ECMP on a switch does.
    echo 1 >/proc/sys/net/ipv4/fib_multipath_hash_policy
    host h1 "$host1" 10.10.1
    host h2 "$host2" 10.10.2
    counter "$host2" local
    paths=
    uplink=1
    while [ $uplink -le $UPLINKS ]; do
        uplink $uplink
        hops=${hops:+$hops,}10.20.$uplink.2
        paths="$paths nexthop via 10.20.$uplink.2"
        uplink=$((uplink + 1))
    done
    ecmp
}

# Sets the default route over all uplinks.
ecmp()
{
    # shellcheck disable=SC2086 # word splitting is intended
    ip route replace default $paths
}

hops=
{ set_up; } >"$tmp/set-up" 2>&1 || bail_out "cannot set up the fabric: $(tail -n 1 "$tmp/set-up")"

# rules OPTION...: writes the script of these rules to $tmp/rules.
rules()
{
    "$build/mrail-acl" --dialect linux --uplinks $UPLINKS --next-hops "$hops" \
        "$@" >"$tmp/rules"
}

# apply OPTION...: applies the rules for these options to the leaf.
apply()
{
    rules "$@" && sh "$tmp/rules"
}

# send HOLDER ADDRESS TOS FIRST STEP COUNT: sends datagrams with udp_ports.
send()
{
    at "$1" "$build/udp_ports" "$2" 4791 "$3" "$4" "$5" "$6"
}

# arrived: prints on one line how many datagrams arrived at the spine over each
# link.
arrived()
{
    link=1
    while [ $link -le $UPLINKS ]; do
        printf '%s ' "$(packets "$spine" "c$link")"
        link=$((link + 1))
    done
}

# Prints the state of the leaf, except the rules' own counters.
state()
{
    ip rule
    nft list tables
    ip -4 route show table all | sort
}

state >"$tmp/before"

# ---- Segments ----

reset
send "$host1" $REMOTE 0 49152 32 512
# shellcheck disable=SC2046 # splitting into numbers is intended
set -- $(arrived)
total=0
for number; do total=$((total + number)); done
is 'without rules, ECMP brings all datagrams to the spine' 512 $total

check 'the rules apply' apply
reset
send "$host1" $REMOTE 0 49152 2048 8
is 'lanes for 8 uplinks take one uplink each' '1 1 1 1 1 1 1 1 ' "$(arrived)"
reset
send "$host1" $REMOTE 0 49152 32 512
is '512 ports are spread evenly' '64 64 64 64 64 64 64 64 ' "$(arrived)"
reset
send "$host1" $REMOTE 0 51199 1 2
send "$host1" $REMOTE 0 65535 1 1
is 'the ends of segments and port 65535' '1 1 0 0 0 0 0 1 ' "$(arrived)"
reset
send "$host1" 10.10.2.2 0 49152 512 32
is 'datagrams to a host on the same leaf use no uplink' '0 0 0 0 0 0 0 0 ' \
    "$(arrived)"
is 'datagrams to a host on the same leaf arrive' 32 "$(packets "$host2" local)"

ip rule >"$tmp/once"
check 'the rules can be applied again' sh "$tmp/rules"
ip rule >"$tmp/twice"
check 'rules that were applied twice exist once' cmp "$tmp/once" "$tmp/twice"

# ---- A failed uplink ----

ip link set up3 down
reset
send "$host1" $REMOTE 0 49152 32 512
# shellcheck disable=SC2046 # splitting into numbers is intended
set -- $(arrived)
total=0
for number; do total=$((total + number)); done
is 'fall-through: the datagrams of a failed uplink arrive' 512 $total
is 'fall-through: the failed uplink carries nothing' 0 "$3"
ip link set up3 up
ecmp

apply --on-failure drop
ip link set up3 down
reset
send "$host1" $REMOTE 0 49152 32 512
is 'drop: only the datagrams of the failed uplink are lost' \
    '64 64 0 64 64 64 64 64 ' "$(arrived)"
ip link set up3 up
ecmp
check 'the rules can be applied again after the repair' sh "$tmp/rules"
reset
send "$host1" $REMOTE 0 49152 32 512
is 'after the repair, all uplinks carry their segments' '64 64 64 64 64 64 64 64 ' "$(arrived)"

# ---- Options ----

marked()
{
    nft list ruleset | sed -n 's/.*counter packets \([0-9]*\) .*mark set.*/\1/p' |
        paste -sd ' '
}

apply --dscp 26
reset
send "$host1" $REMOTE $DSCP_26 49152 2048 8
is 'with a DSCP: datagrams with it take their uplinks' '1 1 1 1 1 1 1 1 ' \
    "$(arrived)"
send "$host1" $REMOTE 0 49152 2048 8
is 'with a DSCP: other datagrams are not marked' '1 1 1 1 1 1 1 1' "$(marked)"
apply --ports h2
send "$host1" $REMOTE 0 49152 2048 8
is 'with ports: datagrams of other ports are not marked' '0 0 0 0 0 0 0 0' \
    "$(marked)"
send "$host2" $REMOTE 0 49152 2048 8
is 'with ports: datagrams of the port are marked' '1 1 1 1 1 1 1 1' "$(marked)"
apply --local 10.10.2.0/24
ip route add 10.99.0.0/24 via 10.20.1.2
reset
send "$host1" $REMOTE 0 49152 32 512
is 'with prefixes: a route to the remote rack has no effect' \
    '64 64 64 64 64 64 64 64 ' "$(arrived)"
send "$host1" 10.10.2.2 0 49152 512 32
is 'with prefixes: traffic to the prefix stays local' 32 "$(packets "$host2" local)"
ip route del 10.99.0.0/24
apply --leaf-uplinks 4
reset
send "$host1" $REMOTE 0 49152 512 32
is 'a spine in three tiers: parts of four leaf segments' '4 4 4 4 4 4 4 4 ' \
    "$(arrived)"
check 'the check reads the script' "$build/mrail-acl" --dialect linux \
    --check "$tmp/rules" --uplinks 8 --leaf-uplinks 4

# checks_active NAME STATUS PATTERN: checks the rules in force.
checks_active()
{
    { nft list ruleset; ip rule; ip route show table all; } >"$tmp/listed"
    expect_run "$1" "$2" "$3" "$build/mrail-acl" --dialect linux \
        --check "$tmp/listed" --uplinks 8 --leaf-uplinks 4
}

checks_active 'the check reads the active rules' 0 ': 32 rules, 8 uplinks: .*exactly one uplink$'

# A firewall with its own chain, and a routing rule for some hosts.
nft 'add table inet filter
    add chain inet filter forward { type filter hook forward priority 0; policy drop; }
    add rule inet filter forward ct state invalid drop'
reset
send "$host1" $REMOTE 0 49152 512 32
is 'a firewall drops the datagrams' '0 0 0 0 0 0 0 0 ' "$(arrived)"
checks_active 'the check finds the firewall' 2 \
    "^line [0-9]+: ports 0 to 65535 are exempt: 'policy drop' in 'inet filter forward'$"
nft add rule inet filter forward udp dport 4791 counter accept
reset
send "$host1" $REMOTE 0 49152 512 32
is 'a firewall accepts the datagrams' '4 4 4 4 4 4 4 4 ' "$(arrived)"
checks_active 'the check accepts this firewall' 0 'exactly one uplink$'
nft delete table inet filter
ip route add default via 10.20.1.2 table 200
ip rule add priority 100 from 10.10.1.0/24 fwmark 0x47910003 lookup 200
reset
send "$host1" $REMOTE 0 49152 512 32
is 'a routing rule diverts the datagrams with a mark' '8 4 0 4 4 4 4 4 ' "$(arrived)"
checks_active 'the check names this rule' 2 \
    "exempt, from 10.10.1.0/24: rule 100, 'from 10.10.1.0/24 fwmark 0x47910003 lookup 200'$"
ip rule del priority 100
ip route del default table 200
ip rule del priority 4793
checks_active 'the check finds missing rules' 2 ': 4 rules without an uplink$'

# ---- Undo, and failures of the script ----

rules --undo
check 'undo' sh "$tmp/rules"
state >"$tmp/after"
check 'undo restores the previous state' cmp "$tmp/before" "$tmp/after"
check 'undo without rules' sh "$tmp/rules"
expect_run 'undo without privileges fails' failure '' \
    setpriv --bounding-set=-all --inh-caps=-all --no-new-privs \
    sh "$tmp/rules"

"$build/mrail-acl" --dialect linux --uplinks 3 \
    --next-hops 10.20.1.2,10.20.2.2,172.16.0.1 >"$tmp/rules"
expect_run 'an unreachable next hop is rejected' failure 'Command failed' \
    sh "$tmp/rules"
state >"$tmp/after"
check 'after a rejected next hop, no rule is left' cmp "$tmp/before" "$tmp/after"
apply
"$build/mrail-acl" --dialect linux --uplinks 2 --next-hops 10.20.1.2,10.20.2.2 \
    >"$tmp/rules"
sh "$tmp/rules"
is 'fewer uplinks than before: no old rule is left' 3 \
    "$(ip rule | grep -c 'proto 147')"
"$build/mrail-acl" --dialect linux --uplinks 2 >"$tmp/rules" 2>/dev/null
expect_run 'placeholders are rejected' failure NEXT_HOP_1 sh "$tmp/rules"
finish
