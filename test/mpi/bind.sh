#!/bin/sh
# mrail run --bind-rails must give each rank one rail, in rotation, and the job
# must work.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_exchange

# Prints the rail of each rank: 8 ranks on 2 nodes with 4 rails.
# shellcheck disable=SC2016 # expanded by the ranks
launch 8 --bind-rails -- sh -c \
    'echo "$OMPI_COMM_WORLD_RANK ${UCX_MRAIL_DEVICES-none}"' >"$tmp/rails" \
    2>"$tmp/err" || true
got=$(sort -n "$tmp/rails" | cut -d ' ' -f 2 | paste -sd ' ')
want='soft0 soft1 soft2 soft3 soft0 soft1 soft2 soft3'
if [ -n "${MRAIL_TEST_MPIRUN-}" ]; then
    skip 'ranks get rails in rotation' 'not through mrail run'
elif [ "$got" = "$want" ]; then
    ok 'ranks get rails in rotation'
else
    not_ok 'ranks get rails in rotation' "they got $got" "$tmp/err"
fi
MRAIL_TEST_RUN="${MRAIL_TEST_RUN-} --bind-rails"
run 'one rail per rank' 8 "$build/mpi_exchange"
finish
