#!/bin/sh
# FFTW-MPI on 8 ranks must give the same result over mrail as over TCP, bit for
# bit.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_fft

run 'fft succeeds' 8 "$build/mpi_fft"
sums=$(grep '^spectrum ' "$tmp/out" || true)
tcp=$(mpirun --oversubscribe -np 8 --mca pml ob1 --mca btl tcp,self \
    --mca btl_tcp_if_include lo "$build/mpi_fft" 2>/dev/null |
    grep '^spectrum ' || true)
echo "# here: $sums"
echo "# tcp:  $tcp"
if [ -z "$tcp" ]; then
    not_ok 'the results equal those over TCP' 'the run over TCP gave no numbers'
elif [ "$sums" = "$tcp" ]; then
    ok 'the results equal those over TCP'
else
    not_ok 'the results equal those over TCP' 'the checksums above differ'
fi
finish
