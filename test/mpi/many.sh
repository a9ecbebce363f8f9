#!/bin/sh
# 32 ranks must start, exchange data and finish, and leave nothing behind.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_exchange

begun=$(date +%s)
run '32 ranks succeed' 32 "$build/mpi_exchange"
echo "# 32 ranks took $(seconds_since "$begun") s"
nothing_left '32 ranks'
finish
