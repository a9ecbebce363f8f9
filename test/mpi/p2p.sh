#!/bin/sh
# Point-to-point semantics, 0 B to 256 MB: see mpi_p2p.c.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
need_ground mpi_p2p

run 'p2p ends well' 4 "$build/mpi_p2p"
exit $failed
