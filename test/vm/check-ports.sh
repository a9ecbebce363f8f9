#!/bin/sh
# Checks packets on the wire. Each lane must have the UDP source port that
# mrail computed, in both directions and for acknowledgements. The uplinks must
# carry the ports of their segments. A leaf has four uplinks, and each of its
# two NICs has two lanes, so DNLB gives every uplink one lane.
set -u
# shellcheck source=test/vm/lib.sh
. "${top:?}/test/vm/lib.sh"
# shellcheck source=test/vm/mpi-lib.sh
. "${top:?}/test/vm/mpi-lib.sh"

mrail_info()
{
    "$mrail" info >"$log/info" 2>&1 &&
        [ "$(grep -c 'warning: rdma_rxe may complete' "$log/info")" = 4 ]
}

watch()
{
    ip netns exec "leaf$1" "$build/vm_wire" "$2" "$3" >"$log/wire$1" \
        2>"$log/wire$1.err" &
    eval "wire$1=$!"
    await 5 grep -q ready "$log/wire$1" ||
        not_ok 'capture' "$(last "$log/wire$1.err")"
}

result 'mrail info warns about rdma_rxe' "$(last "$log/info")" mrail_info
watch 1 h1 h2
watch 2 h3 h4
"$vm/fabric.sh" uplinks 1 >"$log/before1"
"$vm/fabric.sh" uplinks 2 >"$log/before2"
checked_job two-lanes 90 2 -x UCX_MRAIL_LANES_PER_RAIL=2 -- \
    "$stage/bin/mrail" bench p2p --sizes 2m --iterations 2 --warmup 0 \
    --window 2
"$vm/fabric.sh" uplinks 1 >"$log/after1"
"$vm/fabric.sh" uplinks 2 >"$log/after2"
# shellcheck disable=SC2154 # set by watch
end "$wire1"
# shellcheck disable=SC2154
end "$wire2"
result 'the capture is complete' "$(last "$log/wire1"), $(last "$log/wire2")" \
    [ "$(cat "$log/wire1" "$log/wire2" | grep -c ' lost 0$')" = 2 ]

# The lanes, as the ranks recorded them, in lines "ADDRESS QPN SPORT".
for h in 1 2 3 4; do
    echo "rxe$h $(address_of $h)"
done >"$log/addresses"
cat "$log/two-lanes.stats"/*.json | tr -d '",{}' |
    awk '$1 == "peer:" { print $6, $10, $12 }' |
    awk 'FNR == NR { addr[$1] = $2; next } { print addr[$1], $2, $3 }' \
        "$log/addresses" - >"$log/lanes"
# shellcheck disable=SC2016 # variables of awk
result 'each rank has four lanes, one in each segment of the ports' \
    "$(paste -sd ';' "$log/lanes")" awk '
    { ++n[substr($1, 1, 7) " " int(($3 - 49152) / 4096)]; ++all }
    END {
        for (i in n) if (n[i] != 1) exit 1
        exit all != 8
    }' "$log/lanes"

# Every packet to a lane must have the lane's port. On each lane, there must
# have been requests in one direction and responses in the other.
awk '
    FNR == NR { port[$1 " " $2] = $3; next }
    $1 == "flow" && $11 == 0 {
        key = $3 " " $5
        if (!(key in port)) {
            print "a packet from " $2 " to QP " $5 " of " $3 ", which is no lane"
        } else if (port[key] != $4) {
            print "QP " $5 " of " $3 ": port " $4 ", computed " port[key]
        }
        requests[key] += $7
        responses[key] += $9
    }
    END {
        for (key in port) {
            if (!requests[key]) print "lane " key ": no request on the wire"
            if (!responses[key]) print "lane " key ": no response on the wire"
        }
    }' "$log/lanes" "$log/wire1" >"$log/wrong"
result 'requests and acknowledgements have the port of their lane' \
    "$(head -n 1 "$log/wrong")" [ ! -s "$log/wrong" ]

# The number of bytes that each uplink sent must equal that of the flows in its
# segment.
for leaf in 1 2; do
    awk -v leaf=$leaf '
        FILENAME ~ /before/ { for (s = 1; s <= 4; ++s) before[s] = $s; next }
        FILENAME ~ /after/ {
            for (s = 1; s <= 4; ++s) sent[s] = $s - before[s]
            next
        }
        $1 == "flow" && index($2, "10.10." leaf ".") == 1 {
            want[int(($4 - 49152) / 4096) + 1] += $13
        }
        END {
            for (s = 1; s <= 4; ++s) {
                # ARP between leaf and spine may add to that, but nothing else.
                if (sent[s] < want[s] || sent[s] > want[s] + 1000 ||
                    want[s] < 100000) {
                    print "uplink " s ": " sent[s] " bytes, of its ports " \
                        want[s]
                }
                line = line " " int(sent[s] / 1000)
            }
            print "        leaf " leaf ", kB by uplink:" line >"/dev/stderr"
        }' "$log/before$leaf" "$log/after$leaf" "$log/wire$leaf" \
        >"$log/wrong$leaf"
    result "the uplinks of leaf $leaf carry only their ports" \
        "$(head -n 1 "$log/wrong$leaf")" [ ! -s "$log/wrong$leaf" ]
done
finish
