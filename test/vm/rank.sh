#!/bin/sh
# Usage: rank.sh COMMAND...
# Runs COMMAND as one rank of an MPI job on two emulated nodes. The lower half of
# the ranks uses hosts 1 and 2 of the fabric, the upper half hosts 3 and 4.
#   STATS     directory for the counters of each rank
#   RANK_ERR  file that also receives the rank's stderr, because mpirun may lose
#             the last lines when it ends a job
#   ERRORS    the library test/rail/error_shim.c, for the first device of the
#             upper half
if [ $((OMPI_COMM_WORLD_RANK * 2)) -lt "$OMPI_COMM_WORLD_SIZE" ]; then
    one=rxe1 two=rxe2
else
    one=rxe3 two=rxe4
fi
export UCX_MRAIL_DEVICES=$one,$two
case ${UCX_TLS-} in
*mrail*) ;;
*) export UCX_NET_DEVICES=$one:1,$two:1 ;;
esac
[ -z "${ERRORS-}" ] || [ $one != rxe3 ] ||
    export MRAIL_TEST_ERROR_DEVICE=$one LD_PRELOAD="$ERRORS"
[ -z "${STATS-}" ] ||
    export UCX_MRAIL_STATS_FILE="$STATS/$OMPI_COMM_WORLD_RANK.json"
[ -z "${RANK_ERR-}" ] || exec 2>"$STATS/$OMPI_COMM_WORLD_RANK.err"
exec "$@"
