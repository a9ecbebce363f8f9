#!/bin/sh
# Checks the remaining parts of one-sided communication and of MPI: see
# mpi_epochs.c and mpi_misc.c.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_epochs mpi_misc

run 'windows: other calls' 4 "$build/mpi_epochs"
run 'MPI: other calls' 4 "$build/mpi_misc"
run 'more than 2 GiB' 2 "$build/mpi_misc" big

# Open MPI starts new processes in the environment of mpirun. mpirun itself
# therefore runs on the software rails, with all processes on one emulated node.
# Two processes spawn two more.
if [ -z "${MRAIL_TEST_MPIRUN-}${MRAIL_TEST_RUN-}" ]; then
    launch()
    {
        shift 2
        # Allows more processes than processors, in the syntax of Open MPI 4.1
        # and of 5.0.
        OMPI_MCA_rmaps_base_oversubscribe=1 \
            PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe \
            "$mrail" soft --session "$session" --rails 4 -- \
            "$mrail" run -np 2 -- "$@"
    }
fi
run 'dynamic processes' 4 "$build/mpi_misc" spawn
finish
