#!/bin/sh
# The machine's fabric: 2 leaves x 4 spines, namespaces leaf1, leaf2, spine1 to
# spine4; hosts 1 and 2 hang on leaf 1, hosts 3 and 4 on leaf 2.  Host H is the
# interface rH of the first namespace, with the device rxeH: rdma_rxe looks up
# its routes there only.  So that packets between two hosts do not take the
# short way, local addresses are local only for what came in by an interface.
#
# A leaf sends UDP source ports 0xC000-0xFFFF in four segments to its four
# uplinks, the rule that DNLB assumes (src/orchestrator/ports.h); everything
# else, and what finds its uplink down, takes ECMP.
#
# usage: fabric.sh up             set up all
#        fabric.sh spine S up|down   its links at both leaves
#        fabric.sh uplinks LEAF   bytes sent by each uplink, in order
set -eu
mtu=4200 # IB MTU 4096 and its headers

inside()
{
    name=$1
    shift
    ip netns exec "$name" "$@"
}

leaf_of()
{
    echo $((($1 + 1) / 2))
}

# Last octet: hosts of a leaf are consecutive, so that DNLB numbers them.
address_of()
{
    echo "10.10.$(leaf_of "$1").$((2 + ($1 + 1) % 2))"
}

mac_of() # namespace interface
{
    if [ "$1" = - ]; then
        cat "/sys/class/net/$2/address"
    else
        inside "$1" cat "/sys/class/net/$2/address"
    fi
}

router()
{
    ip netns add "$1"
    inside "$1" sh -c 'ip link set lo up
        sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 \
            net.ipv4.conf.default.rp_filter=0 \
            net.ipv4.fib_multipath_hash_policy=1 \
            net.ipv6.conf.all.disable_ipv6=1'
}

# Neighbours are written down: nothing here waits for ARP, and no test sees it.
host()
{
    h=$1
    leaf=$(leaf_of "$h")
    addr=$(address_of "$h")
    ip link add "r$h" mtu $mtu type veth peer name "h$h" mtu $mtu \
        netns "leaf$leaf"
    ip addr add "$addr/24" dev "r$h"
    ip link set "r$h" up
    inside "leaf$leaf" ip addr add "10.10.$leaf.1/32" dev "h$h"
    inside "leaf$leaf" ip link set "h$h" up
    inside "leaf$leaf" ip route add "$addr/32" dev "h$h"
    inside "leaf$leaf" ip neigh replace "$addr" dev "h$h" \
        lladdr "$(mac_of - "r$h")" nud permanent
    ip neigh replace "10.10.$leaf.1" dev "r$h" \
        lladdr "$(mac_of "leaf$leaf" "h$h")" nud permanent
    # UCX and rdma_cm ask for the hardware address of the device's own address.
    ip neigh replace "$addr" dev "r$h" lladdr "$(mac_of - "r$h")" \
        nud permanent
    sysctl -qw "net.ipv4.conf.r$h.accept_local=1" \
        "net.ipv4.conf.r$h.rp_filter=0"
    ip rule add pref 5 iif "r$h" lookup local
}

link()
{
    leaf=$1 spine=$2
    net=10.20.$((leaf * 10 + spine))
    ip link add "up$spine" mtu $mtu netns "leaf$leaf" type veth \
        peer name "down$leaf" mtu $mtu netns "spine$spine"
    inside "leaf$leaf" ip addr add "$net.1/24" dev "up$spine"
    inside "leaf$leaf" ip link set "up$spine" up
    inside "spine$spine" ip addr add "$net.2/24" dev "down$leaf"
    inside "spine$spine" ip link set "down$leaf" up
    inside "spine$spine" ip route add "10.10.$leaf.0/24" via "$net.1"
}

# Segment S of the ports to spine S; its table is emptied by the kernel when
# the link goes down, and then ECMP, in the main table, has the packet.
leaf_rules()
{
    leaf=$1 other=$((3 - $1))
    for s in 1 2 3 4; do
        first=$((49152 + (s - 1) * 4096))
        last=$((first + 4095))
        [ $last = 65535 ] && last=65534 # ip rule takes no 65535
        inside "leaf$leaf" ip rule add pref $((100 + s)) ipproto udp \
            sport $first-$last dport 4791 lookup $((100 + s))
        leaf_segment "$leaf" "$s"
    done
    leaf_ecmp "$leaf"
}

leaf_segment()
{
    inside "leaf$1" ip route replace "10.10.$((3 - $1)).0/24" \
        via "10.20.$(($1 * 10 + $2)).2" table $((100 + $2))
}

# ECMP over the uplinks that are up.
leaf_ecmp()
{
    hops=
    for s in 1 2 3 4; do
        inside "leaf$1" ip -br link show up "up$s" | grep -q . &&
            hops="$hops nexthop via 10.20.$(($1 * 10 + s)).2"
    done
    # shellcheck disable=SC2086 # words are wanted
    inside "leaf$1" ip route replace "10.10.$((3 - $1)).0/24" $hops
}

fabric_up()
{
    for name in leaf1 leaf2 spine1 spine2 spine3 spine4; do
        router $name
    done
    sysctl -qw net.ipv4.conf.all.rp_filter=0
    ip rule add pref 6 to 127.0.0.0/8 lookup local
    for h in 1 2 3 4; do
        host $h
    done
    ip rule del pref 0
    for leaf in 1 2; do
        for spine in 1 2 3 4; do
            link $leaf $spine
        done
        leaf_rules $leaf
    done
    for h in 1 2 3 4; do
        gateway=10.10.$(leaf_of $h).1
        for k in 1 2 3 4; do
            [ $h = $k ] || ip route add "$(address_of $k)/32" \
                via $gateway dev r$h metric $((100 + h))
        done
        rdma link add rxe$h type rxe netdev r$h
    done
}

spine()
{
    for leaf in 1 2; do
        inside "leaf$leaf" ip link set "up$1" "$2"
        [ "$2" = down ] || leaf_segment "$leaf" "$1"
        leaf_ecmp "$leaf"
    done
}

case ${1-} in
up) fabric_up ;;
spine) spine "$2" "$3" ;;
uplinks)
    for s in 1 2 3 4; do
        inside "leaf$2" cat "/sys/class/net/up$s/statistics/tx_bytes"
    done | paste -sd ' ' ;;
*) echo "usage: fabric.sh up | spine S up|down | uplinks LEAF" >&2; exit 2 ;;
esac
