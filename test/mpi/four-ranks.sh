#!/bin/sh
# Runs a four-rank MPI job, whose traffic mrail must carry. Lanes may fail
# during the job. contrib/check runs it with a sanitizer's runtime in
# MRAIL_TEST_PRELOAD. usage: four-ranks.sh RUN-OPTIONS PROGRAM [ARGUMENT...]
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
MRAIL_TEST_RUN=$1
program=$2
shift 2
mkdir "$tmp/stats"
status=0
(
    # Only the job preloads the sanitizer's runtime. The shell and its tools
    # must not.
    export LD_PRELOAD="${MRAIL_TEST_PRELOAD-}" UCX_MRAIL_TIMEOUT=4s \
        UCX_MRAIL_STATS_FILE="$tmp/stats/%p"
    launch 4 -- timeout -k 20 300 "$build/$program" "$@"
) >"$tmp/out" 2>&1 </dev/null || status=$?
results "$tmp/out"
is "$program: exit status" 0 $status
is "$program: mrail carried all ranks" 4 "$(find "$tmp/stats" -type f | wc -l)"
finish
