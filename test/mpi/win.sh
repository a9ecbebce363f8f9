#!/bin/sh
# Checks one-sided communication: see mpi_win.c.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_win

for threads in single multiple; do
    run "windows, $threads" 4 "$build/mpi_win" $threads
    [ -z "${MRAIL_TEST_MPIRUN-}${MRAIL_TEST_RUN-}" ] || continue
    # Four ranks put 300,000 bytes each. If Open MPI used its own shared memory,
    # the rails' counters would not show these bytes.
    put=$(sed -n 's/.*"put_bytes": \([0-9]*\).*/\1/p' "$tmp/stats"/* |
        awk '{ sum += $1 } END { print sum + 0 }')
    if [ "$put" -ge 1200000 ]; then
        ok "windows, $threads: the rails carried the PUTs"
    else
        not_ok "windows, $threads: the rails carried the PUTs" \
            "mrail put $put bytes, not 1200000 or more"
    fi
done
finish
