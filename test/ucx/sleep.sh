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
has_results "$tmp/out" || not_ok 'workers that sleep' 'it wrote no result'
expect_quiet 'workers that sleep: nothing is said' "$tmp/out"

# Two contexts share one peer and its four rails.
cat "$tmp"/stats.* >"$tmp/stats"
expect_count 'two contexts, one peer' "$tmp/stats" '"peers": 1,' 2
lanes=$(sed -n 's/.*"qps": \([0-9]*\),.*/\1/p' "$tmp/stats" | sort -u |
    paste -sd ' ')
if [ "$lanes" = "$((4 * ${UCX_MRAIL_LANES_PER_RAIL:-1}))" ]; then
    ok 'two contexts share their lanes'
else
    not_ok 'two contexts share their lanes' "QPs: $lanes" "$tmp/stats"
fi
finish
