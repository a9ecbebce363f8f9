#!/bin/sh
# Tests UCX's wakeup mode, and several UCX contexts in one process.
# shellcheck source=test/ucx/common.sh
. "$(dirname -- "$0")/common.sh"

export UCX_TLS=mrail,self UCX_LOG_LEVEL=warn
UCX_MRAIL_STATS_FILE=$tmp/stats.%p
export UCX_MRAIL_STATS_FILE
on_rails 1 4 0 sh -c "$behind_device" "$shim" \
    "$build/ucp_sleep" >"$tmp/out" 2>&1 </dev/null
status=$?
results "$tmp/out"
[ $status = 0 ] || not_ok 'workers that sleep' "exit status $status"
has_results "$tmp/out" || not_ok 'workers that sleep' 'the program printed no result'
expect_quiet 'workers that sleep: UCX logs nothing' "$tmp/out"

# Two contexts of a process share its engine, and therefore the lanes to the
# peer. The peer may have left first, so lanes in any state count. Each context
# of the parent has sent 2000 messages.
cat "$tmp"/stats.* >"$tmp/stats"
for file in "$tmp"/stats.*; do
    grep -c '"lane": ' "$file"
done | paste -sd ' ' >"$tmp/lanes"
each=$((4 * ${UCX_MRAIL_LANES_PER_RAIL:-1}))
if [ "$(cat "$tmp/lanes")" = "$each $each" ]; then
    ok 'two contexts share their lanes'
else
    not_ok 'two contexts share their lanes' "lanes: $(cat "$tmp/lanes")" \
        "$tmp/stats"
fi
sent=$(sed -n 's/.*"am_sent": \([0-9]*\),.*/\1/p' "$tmp/stats" | sort -n |
    tail -n 1)
if [ "${sent:-0}" -ge 4000 ]; then
    ok 'two contexts share their engine'
else
    not_ok 'two contexts share their engine' "$sent messages sent" "$tmp/stats"
fi
finish
