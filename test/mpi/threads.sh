#!/bin/sh
# Checks MPI_THREAD_MULTIPLE: see mpi_threads.c.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_threads

run 'threads succeeds' 4 "$build/mpi_threads"
finish
