#!/bin/sh
# Checks the list of rails that another library in the process can query, and
# mrail info.
# shellcheck source=test/ucx/common.sh
. "$(dirname -- "$0")/common.sh"

rates='100M,200M,300M,400M'
export UCX_TLS=mrail,self UCX_LOG_LEVEL=warn
export MRAIL_TEST_SOFT="$build/mrail-soft"
timeout 60 "$build/mrail-soft" --session "$session" --nodes 2 \
    --rails 4 --rate "$rates" --node 0 -- sh -c "$behind_device" "$shim" \
    "$build/ucp_rails" >"$tmp/out" 2>&1 </dev/null
status=$?
results "$tmp/out"
[ $status = 0 ] || not_ok 'the rails of a process' "exit status $status"
has_results "$tmp/out" || not_ok 'the rails of a process' 'the program printed no result'
expect_quiet 'the rails of a process: UCX logs nothing' "$tmp/out"

timeout 60 "$build/mrail-soft" --session "$session-info" \
    --rails 4 --rate "$rates" -- "$build/mrail-info" >"$tmp/info" 2>&1
expect 'mrail info shows the capabilities of a port' "$tmp/info" \
    '^soft2:1 .* 2\.4  127\.'
timeout 60 "$build/mrail-soft" --session "$session-info" \
    --rails 4 --rate "$rates" -- "$build/mrail-info" --json \
    >"$tmp/json" 2>&1
expect 'mrail info --json shows the capabilities of a port' "$tmp/json" \
    '"soft3".*"rate_bits_per_s": 100000000000, "current_bits_per_s": 3200000000,'
finish
