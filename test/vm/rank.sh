#!/bin/sh
# usage: rank.sh COMMAND...: as a rank of an MPI job on two emulated nodes, by
# halves: the first has hosts 1 and 2 of the fabric, the second 3 and 4.
# STATS: folder for each rank's counters.  RANK_ERR: what it says on stderr goes
# there, too: an mpirun that has to end a job may lose the last lines.  ERRORS: the
# library test/rail/error_shim.c, for the second half's first device.
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
