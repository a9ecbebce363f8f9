#!/bin/sh
# In a 32-rank job, the transport must use less than 40 MB per rank, with lanes
# to every peer on all four rails. With one lane per peer, it uses 25 MB.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env

limit=40000000
status=0
"$mrail" info --memory --json -np 32 --soft "$topology" --session "$session" \
    >"$tmp/out" 2>"$tmp/err" || status=$?
most=$(sed -n 's/.*"most": {[^}]*"total": \([0-9]*\).*/\1/p' "$tmp/out")
ranks=$(sed -n 's/^{"ranks": \([0-9]*\),.*/\1/p' "$tmp/out")
excerpt "$tmp/out"
if [ $status != 0 ]; then
    not_ok 'mrail info --memory' "exit status $status" "$tmp/err"
elif [ "$ranks" != 32 ]; then
    not_ok 'mrail info --memory' "$ranks ranks reported, not 32"
else
    ok 'mrail info --memory'
    if [ "$most" -gt 0 ] && [ "$most" -lt $limit ]; then
        ok "each of 32 ranks uses less than $limit bytes"
    else
        not_ok "each of 32 ranks uses less than $limit bytes" "one rank uses $most"
    fi
fi
finish
