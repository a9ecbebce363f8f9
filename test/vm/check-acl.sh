#!/bin/sh
# Replaces the fabric's own rules with the Linux rules of mrail acl, on both
# leaves. Each uplink must carry its segment of an MPI_Alltoallv over the
# kernel's devices. The same job then runs on plain ECMP.
#
# The loads of both jobs are printed, but not compared with their mean. The
# exchange is short: lanes connect during its first seconds, in which the first
# lanes carry 4 to 9 MB more than the others. With rules, the busiest uplink has
# 2.0 to 2.9 times the mean after two iterations (23 MB for each leaf). After six
# iterations (78 MB), it has 1.2 to 1.4 times the mean.
set -u
# shellcheck source=test/vm/lib.sh
. "${top:?}/test/vm/lib.sh"
# shellcheck source=test/vm/mpi-lib.sh
. "${top:?}/test/vm/mpi-lib.sh"

# rules LEAF [OPTION]: prints the rules of mrail acl for the leaf.
rules()
{
    leaf=$1
    shift
    hops=10.20.${leaf}1.2,10.20.${leaf}2.2,10.20.${leaf}3.2,10.20.${leaf}4.2
    "$mrail" acl --dialect linux --uplinks 4 --next-hops "$hops" \
        --uplink-ports 'up[1-4]' --ports "h$((leaf * 2 - 1)),h$((leaf * 2))" \
        --local "10.10.$leaf.0/24" "$@"
}

# on_leaves NAME [OPTION]: runs the rules on both leaves.
on_leaves()
{
    to=$1
    shift
    for l in 1 2; do
        rules $l "$@" >"$log/$to$l" 2>"$log/$to$l.err" &&
            ip netns exec leaf$l sh "$log/$to$l" 2>>"$log/$to$l.err" ||
            return 1
    done
}

# own_rules add|del: adds or deletes the fabric's own rules, which take
# precedence.
own_rules()
{
    for l in 1 2; do
        for s in 1 2 3 4; do
            if [ "$1" = add ]; then
                grep "pref $((100 + s)) " "/vm/fabric/leaf$l"
            else
                echo "rule del pref $((100 + s))"
            fi
        done | ip -n leaf$l -batch - || return 1
    done
}

# exchange NAME: runs the job. $log/NAME.sent gets a line for each leaf, "LEAF
# BYTES BYTES BYTES BYTES BUSIEST". BUSIEST is the load of the busiest uplink,
# in parts per thousand of the mean.
exchange()
{
    for l in 1 2; do
        "$vm/fabric.sh" uplinks $l
    done >"$log/$1.before"
    checked_job "$1" 90 4 -x UCX_MRAIL_LANES_PER_RAIL=4 -- \
        "$mrail" bench alltoallv --sizes 8m --iterations 2 --warmup 0
    for l in 1 2; do
        "$vm/fabric.sh" uplinks $l
    done >"$log/$1.after"
    paste -d ' ' "$log/$1.before" "$log/$1.after" | awk '{
            sum = most = 0
            line = NR
            for (s = 1; s <= 4; ++s) {
                sent = $(s + 4) - $s
                sum += sent
                if (sent > most) most = sent
                line = line " " sent
            }
            print line, sum ? int(4000 * most / sum + 0.999) : 0
        }' >"$log/$1.sent"
    while read -r l one two three four busiest; do
        echo "# uplinks $1, leaf $l: $one $two $three $four bytes," \
            "busiest $busiest/1000 of the mean"
    done <"$log/$1.sent"
}

# The counters of the uplinks include 14 more bytes for each packet, and ARP.
# Packets may arrive between the two readings. A lane on a wrong uplink would
# make a larger difference of at least one chunk.
by_rules()
{
    # shellcheck disable=SC2016 # variables of awk
    awk 'FNR == NR { for (s = 1; s <= 4; ++s) sent[++all] = $(s + 1); next }
        /counter packets/ {
            sub(/.*counter packets /, "")
            want = $3 + 14 * $1
            more = sent[++n] - want
            if (want < 1000000 || more < -10000 || more > 10000) { bad = 1 }
        }
        END { exit bad || n != 8 }' "$log/acl.sent" "$log/nft"
}

result "the fabric's own rules are deleted" 'ip rule del failed' own_rules del
result 'both leaves take the rules of mrail acl' \
    "$(last "$log/rules1.err")$(last "$log/rules2.err")" on_leaves rules
exchange acl
for l in 1 2; do
    ip netns exec leaf$l nft list table ip mrail_acl
done >"$log/nft" 2>&1
result 'each uplink carries the bytes of its rule, both ways' \
    "$(paste -sd ';' "$log/acl.sent")" by_rules
result 'both leaves accept their undo rules' \
    "$(last "$log/undo1.err")$(last "$log/undo2.err")" on_leaves undo --undo
exchange ecmp
result "the fabric's own rules are back" 'ip rule add failed' own_rules add
finish
