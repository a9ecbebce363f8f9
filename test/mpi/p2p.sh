#!/bin/sh
# Checks the semantics of point-to-point messages from 0 B to 256 MB: see
# mpi_p2p.c.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_p2p

run 'p2p succeeds' 4 "$build/mpi_p2p"

# A 40 KB message is sent as four active messages. If the rails are slower
# than a memory copy, these four must use all rails.
rm -rf "$tmp/stats"
mkdir "$tmp/stats"
name='40 KB messages in pieces use all rails'
if "$mrail" bench alltoallv -np 4 --soft 2x4 --rate 400M --session "$session" \
    -x UCX_RNDV_THRESH=inf -x UCX_MRAIL_STATS_FILE="$tmp/stats/%p" \
    --sizes 120000 --iterations 200 --json \
    >"$tmp/out" 2>"$tmp/err"; then
    lanes=$(for stats in "$tmp/stats/"*; do
        tr '{' '\n' <"$stats" | grep -c '"qpn"'
    done | sort -n | head -n 1)
    if [ "${lanes:-0}" = 12 ]; then
        ok "$name"
    else
        not_ok "$name" "a rank had ${lanes:-no} lanes, not 12 for 3 peers"
    fi
else
    not_ok "$name" 'mrail bench failed' "$tmp/err"
fi
finish
