#!/bin/sh
# Checks the semantics of collectives: see mpi_coll.c.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_coll

run 'coll succeeds' 8 "$build/mpi_coll"
finish
