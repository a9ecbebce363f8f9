#!/bin/sh
# Checks that a busy queue pair moves, through SQD, to other source ports and
# thus to other uplinks. All messages must arrive, and the ports must appear on
# the wire.
set -u
# shellcheck source=test/vm/lib.sh
. "${top:?}/test/vm/lib.sh"
ports='49153 54000 58000 65000' # source ports, one in each segment

"$vm/fabric.sh" uplinks 1 >"$log/before"
ip netns exec leaf1 "$build/vm_wire" h1 >"$log/wire" 2>&1 &
wire=$!
await 5 grep -q ready "$log/wire"
# shellcheck disable=SC2086 # word splitting is intended
timeout 40 "$build/vm_repath" rxe3 listen 7001 $ports >"$log/listen" 2>&1 &
server=$!
status=0
# shellcheck disable=SC2086
timeout 40 "$build/vm_repath" rxe1 127.0.0.1 7001 $ports >"$log/connect" 2>&1 ||
    status=$?
wait $server || status=$?
end $wire
"$vm/fabric.sh" uplinks 1 >"$log/after"
result 'a busy queue pair moves through SQD: each message arrives once, in order and complete' \
    "$(last "$log/connect"); $(last "$log/listen")" [ $status = 0 ]

seen()
{
    awk -v from="$1" -v column="$2" \
        '$1 == "flow" && $2 == from && $column > 0 { print $4 }' "$log/wire" |
        paste -sd ' '
}
result 'the requests use one port after another' \
    "on the wire: $(seen 10.10.1.2 7)" \
    [ "$(seen 10.10.1.2 7)" = "$ports" ]
result 'the acknowledgements use one port after another' "on the wire: $(seen 10.10.2.2 9)" \
    [ "$(seen 10.10.2.2 9)" = "$ports" ]
paste -d ' ' "$log/before" "$log/after" | awk '{
        for (s = 1; s <= 4; ++s) if ($(s + 4) - $s < 1000000) exit 1
    }'
result 'each uplink carried part of the traffic' \
    "$(cat "$log/before"), then $(cat "$log/after")" [ $? = 0 ]
finish
