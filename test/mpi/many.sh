#!/bin/sh
# 32 ranks start, exchange and finish, and leave nothing behind.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
need_ground mpi_exchange

before=$(shm_files)
begun=$(date +%s)
run '32 ranks end well' 32 "$build/mpi_exchange"
echo "32 ranks took $(seconds_since "$begun") s"
if [ "$(shm_files)" = "$before" ]; then
    good 'no shared memory is left of 32 ranks'
else
    bad 'no shared memory is left of 32 ranks' \
        "$(shm_files | paste -sd ' ') is there"
fi
exit $failed
