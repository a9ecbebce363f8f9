#!/bin/sh
# Replaces the fabric's own rules with the Linux rules of mrail acl, on both
# leaves. Each uplink must carry its segment of an MPI_Alltoallv over the
# kernel's devices. The same job then runs on plain ECMP.
#
# With rules, the uplinks of a leaf must also be balanced. The job measures the
# same size twice: lanes connect during the first part, in which the first lanes
# carry several megabytes more than the other lanes. Only the second part must
# be balanced. Four jobs on an idle machine had 1.00 to 1.14 times the mean load
# on the busiest uplink of a leaf, because the devices retransmit what the
# emulated machine drops. The loads on plain ECMP, 1.00 to 2.07 in the same
# jobs, are only printed.
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

# uplinks NAME: reads the counters of both leaves' uplinks into $log/NAME.
uplinks()
{
    for l in 1 2; do
        "$vm/fabric.sh" uplinks $l
    done >"$log/$1"
}

# sent FROM TO: prints a line per leaf, "LEAF BYTES BYTES BYTES BYTES BUSIEST":
# the bytes that its uplinks sent between two readings. BUSIEST is the load of
# the busiest uplink, in parts per thousand of the mean.
sent()
{
    paste -d ' ' "$log/$1" "$log/$2" | awk '{
            sum = most = 0
            line = NR
            for (s = 1; s <= 4; ++s) {
                bytes = $(s + 4) - $s
                sum += bytes
                if (bytes > most) most = bytes
                line = line " " bytes
            }
            print line, sum ? int(4000 * most / sum + 0.999) : 0
        }'
}

# middle NAME: reads the counters when the first part of the job has ended.
middle()
{
    : >"$log/$1.out"
    until grep -q '^ *8388608 ' "$log/$1.out"; do
        sleep 0.05
    done
    uplinks "$1.middle"
}

# exchange NAME: runs the job, and writes its bytes to $log/NAME.sent, and those
# of its second part to $log/NAME.part2.
exchange()
{
    uplinks "$1.before"
    middle "$1" &
    checked_job "$1" 90 4 -x UCX_MRAIL_LANES_PER_RAIL=4 -- \
        "$mrail" bench alltoallv --sizes 8m,8m --iterations 16 --warmup 0
    kill $! 2>"$log/kill"
    uplinks "$1.after"
    sent "$1.before" "$1.after" >"$log/$1.sent"
    sent "$1.middle" "$1.after" >"$log/$1.part2"
    while read -r l one two three four busiest; do
        echo "# uplinks $1, leaf $l: $one $two $three $four bytes," \
            "busiest $busiest/1000 of the mean"
    done <"$log/$1.part2"
}

# The uplinks' counters include 14 more bytes per packet, and ARP. Packets may
# arrive between the two readings. A lane on a wrong uplink would make a larger
# difference of at least one chunk.
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

# balanced: the busiest uplink of each leaf has at most 1.25 times the mean load.
balanced()
{
    awk '$6 > 1250 { bad = 1 } END { exit bad || NR != 2 }' "$log/acl.part2"
}

result "the fabric's own rules are deleted" 'ip rule del failed' own_rules del
result 'both leaves accept the rules of mrail acl' \
    "$(last "$log/rules1.err")$(last "$log/rules2.err")" on_leaves rules
exchange acl
for l in 1 2; do
    ip netns exec leaf$l nft list table ip mrail_acl
done >"$log/nft" 2>&1
result 'each uplink carries the bytes of its rule, in both directions' \
    "$(paste -sd ';' "$log/acl.sent")" by_rules
result 'with rules, no uplink has 1.25 times the mean load' \
    "$(paste -sd ';' "$log/acl.part2")" balanced
result 'both leaves accept their undo rules' \
    "$(last "$log/undo1.err")$(last "$log/undo2.err")" on_leaves undo --undo
exchange ecmp
result "the fabric's own rules are restored" 'ip rule add failed' own_rules add
finish
