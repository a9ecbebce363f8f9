#!/bin/sh
# Checks the transport under Open MPI on the kernel's devices, on two nodes with
# two rails each. The programs check all data.
set -u
# shellcheck source=test/vm/lib.sh
. "${top:?}/test/vm/lib.sh"
# shellcheck source=test/vm/mpi-lib.sh
. "${top:?}/test/vm/mpi-lib.sh"

checked_job alltoallv 90 4 -- "$stage/bin/mrail" bench alltoallv \
    --sizes 64,8k,1m --iterations 2 --warmup 0
checked_job p2p 90 2 -- "$stage/bin/mrail" bench p2p \
    --sizes 8,8k,64k,4m --iterations 2 --warmup 0 --window 2
checked_job semantics 90 2 -- "$build/mpi_coll"
finish
