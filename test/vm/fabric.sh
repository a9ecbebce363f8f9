#!/bin/sh
# Sets up the fabric of the virtual machine: 2 leaves x 4 spines in the
# namespaces leaf1, leaf2, spine1 to spine4. Hosts 1 and 2 are on leaf 1, hosts
# 3 and 4 on leaf 2. Host H is the interface rH of the first namespace, with the
# device rxeH, because rdma_rxe looks up its routes only there. Local addresses
# are local only for packets that arrive through an interface. Otherwise packets
# between two hosts would stay inside the namespace.
#
# A leaf sends UDP source ports 0xC000-0xFFFF in four segments to its four uplinks,
# as DNLB assumes (src/orchestrator/ports.h). All other packets take ECMP, and so
# do packets whose uplink is down.
#
# One `ip -batch` runs all commands of a namespace. The commands are collected
# outside the machine, because starting a process is expensive in software
# emulation.
#
# Usage: fabric.sh plan FOLDER       writes the commands into the folder
#        fabric.sh up FOLDER         sets up the fabric as planned
#        fabric.sh spine S up|down   the links of S at both leaves; others are
#                                    up
#        fabric.sh uplinks LEAF      bytes sent by each uplink, in order
set -eu
mtu=4200 # IB MTU 4096 and its headers
routers='leaf1 leaf2 spine1 spine2 spine3 spine4'

leaf_of()
{
    echo $((($1 + 1) / 2))
}

# DNLB numbers the hosts of a leaf by their addresses, so the addresses are
# consecutive.
address_of()
{
    echo "10.10.$(leaf_of "$1").$((2 + ($1 + 1) % 2))"
}

# in_ns NAMESPACE COMMAND...: adds the command to the batch of the namespace.
# "host" is the first namespace.
in_ns()
{
    name=$1
    shift
    echo "$*" >>"$batch/$name"
}

# Neighbours are set statically, so that nothing waits for ARP.
host()
{
    leaf=$(leaf_of "$1")
    addr=$(address_of "$1")
    mac=02:00:00:00:01:0$1
    leaf_mac=02:00:00:00:02:0$1
    echo "link add r$1 mtu $mtu address $mac type veth peer name h$1 \
        mtu $mtu address $leaf_mac netns leaf$leaf" | tr -s ' ' >>"$batch/links"
    in_ns host addr add "$addr/24" dev "r$1"
    in_ns host link set "r$1" up
    in_ns host neigh replace "10.10.$leaf.1" dev "r$1" lladdr "$leaf_mac"
    # UCX and rdma_cm also look up the hardware address of the host's own
    # address.
    in_ns host neigh replace "$addr" dev "r$1" lladdr "$mac"
    in_ns host rule add pref 5 iif "r$1" lookup local
    for other in 1 2 3 4; do
        [ "$1" = $other ] || in_ns host route add "$(address_of $other)/32" \
            via "10.10.$leaf.1" dev "r$1" metric $((100 + $1))
    done
    in_ns "leaf$leaf" addr add "10.10.$leaf.1/32" dev "h$1"
    in_ns "leaf$leaf" link set "h$1" up
    in_ns "leaf$leaf" route add "$addr/32" dev "h$1"
    in_ns "leaf$leaf" neigh replace "$addr" dev "h$1" lladdr "$mac"
}

link()
{
    net=10.20.$(($1 * 10 + $2))
    echo "link add up$2 mtu $mtu netns leaf$1 type veth peer name down$1 \
        mtu $mtu netns spine$2" | tr -s ' ' >>"$batch/links"
    in_ns "leaf$1" addr add "$net.1/24" dev "up$2"
    in_ns "leaf$1" link set "up$2" up
    in_ns "spine$2" addr add "$net.2/24" dev "down$1"
    in_ns "spine$2" link set "down$1" up
    in_ns "spine$2" route add "10.10.$1.0/24" via "$net.1"
}

# The route of segment S. The kernel drops it when the link goes down, and ECMP
# in the main table then takes over.
segment_route()
{
    echo "route replace 10.10.$((3 - $1)).0/24" \
        "via 10.20.$(($1 * 10 + $2)).2 table $((100 + $2))"
}

# Sets ECMP over the uplinks SPINE...
ecmp_route()
{
    leaf=$1
    shift
    hops=
    for s in "$@"; do
        hops="$hops nexthop via 10.20.$((leaf * 10 + s)).2"
    done
    echo "route replace 10.10.$((3 - leaf)).0/24 $hops"
}

leaf_rules()
{
    for s in 1 2 3 4; do
        first=$((49152 + (s - 1) * 4096))
        last=$((first + 4095))
        [ $last = 65535 ] && last=65534 # ip rule does not accept 65535
        in_ns "leaf$1" rule add pref $((100 + s)) ipproto udp \
            sport $first-$last dport 4791 lookup $((100 + s))
        in_ns "leaf$1" "$(segment_route "$1" $s)"
    done
    in_ns "leaf$1" "$(ecmp_route "$1" 1 2 3 4)"
}

fabric_plan()
{
    for name in $routers; do
        echo "netns add $name"
    done >"$batch/names"
    in_ns host rule add pref 6 to 127.0.0.0/8 lookup local
    for h in 1 2 3 4; do
        host $h
    done
    in_ns host rule del pref 0
    for h in 1 2 3 4; do
        echo "link add rxe$h type rxe netdev r$h"
    done >"$batch/devices"
    for leaf in 1 2; do
        for s in 1 2 3 4; do
            link $leaf $s
        done
        leaf_rules $leaf
    done
}

fabric_up()
{
    ip -batch "$batch/names"
    ip -all netns exec sh -c 'cd /proc/sys/net
        echo 1 >ipv4/ip_forward
        echo 0 >ipv4/conf/all/rp_filter
        echo 0 >ipv4/conf/default/rp_filter
        echo 1 >ipv4/fib_multipath_hash_policy
        echo 1 >ipv6/conf/all/disable_ipv6'
    for what in rp_filter=0 accept_local=1; do
        for which in all default; do
            echo ${what#*=} >/proc/sys/net/ipv4/conf/$which/${what%=*}
        done
    done
    # A burst of READ responses fits. If a queue is full, rdma_rxe completes READs
    # whose data is missing (check-read.sh).
    echo 100000 >/proc/sys/net/core/netdev_max_backlog
    ip -batch "$batch/links"
    for name in $routers; do
        ip -n "$name" -batch "$batch/$name"
    done
    ip -batch "$batch/host"
    rdma -b "$batch/devices"
}

# Sets the links of one spine. All links of other spines are up.
spine()
{
    spine=$1 state=$2
    set -- 1 2 3 4
    case $state$spine in
    down1) set -- 2 3 4 ;;
    down2) set -- 1 3 4 ;;
    down3) set -- 1 2 4 ;;
    down4) set -- 1 2 3 ;;
    esac
    for leaf in 1 2; do
        {
            echo "link set up$spine $state"
            ecmp_route "$leaf" "$@"
            [ "$state" = down ] || segment_route "$leaf" "$spine"
        } | ip -n "leaf$leaf" -batch -
    done
}

batch=${2-}
case ${1-} in
plan) fabric_plan ;;
up) fabric_up ;;
spine) spine "$2" "$3" ;;
uplinks)
    ip netns exec "leaf$2" sh -c 'cd /sys/class/net
        cat up1/statistics/tx_bytes up2/statistics/tx_bytes \
            up3/statistics/tx_bytes up4/statistics/tx_bytes' | paste -sd ' ' ;;
*)
    echo "usage: fabric.sh plan|up FOLDER | spine S up|down | uplinks LEAF" >&2
    exit 2 ;;
esac
