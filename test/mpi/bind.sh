#!/bin/sh
# mrail run --bind-rails must give each rank one rail, in rotation, and the job
# must work.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_exchange

# rails NAME WANTED OPTION...: prints the rail of each of 8 ranks on 2 nodes with
# 4 rails.
rails()
{
    name=$1
    want=$2
    shift 2
    # shellcheck disable=SC2016 # expanded by the ranks
    launch 8 --bind-rails "$@" -- sh -c \
        'echo "$OMPI_COMM_WORLD_RANK ${UCX_MRAIL_DEVICES-none}"' \
        >"$tmp/rails" 2>"$tmp/err" || true
    got=$(sort -n "$tmp/rails" | cut -d ' ' -f 2 | paste -sd ' ')
    if [ -n "${MRAIL_TEST_MPIRUN-}" ]; then
        skip "$name" 'not through mrail run'
    elif [ "$got" = "$want" ]; then
        ok "$name"
    else
        not_ok "$name" "ranks have $got" "$tmp/err"
    fi
}

rails 'rails are assigned to ranks in rotation' \
    'soft0 soft1 soft2 soft3 soft0 soft1 soft2 soft3'
# GPU 0 is near rails 0 and 1, and GPU 1 near rails 2 and 3.
rails 'ranks are assigned the rails nearest to their GPUs' \
    'soft0 soft2 soft1 soft3 soft0 soft2 soft1 soft3' --gpus 2
MRAIL_TEST_RUN="${MRAIL_TEST_RUN-} --bind-rails"
run 'one rail per rank' 8 "$build/mpi_exchange"
finish
