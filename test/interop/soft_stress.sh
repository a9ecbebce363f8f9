#!/bin/bash
# Many processes exchange data all-to-all with every kind of operation, and
# check it. Because receive buffers are reserved, the kernel must not drop
# packets, with or without a limited rate.
. "$(dirname "$0")/soft_lib.sh"

stress() { soft ./soft_stress "$@" || fail "soft_stress $*"; }

SOFT_OPTIONS="--nodes 2 --rails 4"
hold
stress --procs 4 --nodes 2 --rails 4 --op write --seconds 0.7
stress --procs 4 --nodes 2 --rails 4 --op send --seconds 0.7
stress --procs 4 --nodes 2 --rails 4 --op read --seconds 0.7 --cleanup
stress --procs 8 --nodes 2 --size 64 --depth 16 --op send --seconds 0.7
stress --procs 32 --nodes 2 --rails 4 --seconds 2
stress --procs 32 --nodes 2 --one --seconds 1
report "all-to-all with each operation: the data is correct"
$soft ctl --session $session rate=50M
stress --procs 8 --nodes 2 --rails 2 --one --seconds 1
drops=$(($(counter drop_kernel) + $(kernel_drops)))
[ "$drops" = 0 ] || fail "$drops packets dropped by the kernel"
sent=$(counter tx_packets) got=$(counter rx_packets)
echo "# packets sent $sent, received $got"
[ "$sent" -gt 10000 ] || fail "too few packets were sent"
release
gone
report 'the kernel drops no packets'
finish
