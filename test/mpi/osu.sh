#!/bin/sh
# Checks mpi_osu, whose times contrib/bench shows: its data check must find a
# wrong byte in every test, and one-sided operations must use the rails.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_osu

tests=latency,bw,bibw,rate,put_latency,get_latency,put_bw,alltoall,alltoallv
sizes=1,7,4099,300000

# osu NAME EXIT DATA [ARGUMENT...]: mpi_osu must exit with status EXIT, and
# print DATA as the result of its data check for every test and size.
osu()
{
    name=$1 wanted=$2 data=$3
    shift 3
    status=0
    rm -rf "$tmp/stats"
    mkdir "$tmp/stats"
    UCX_MRAIL_STATS_FILE=$tmp/stats/%p launch 4 -- "$build/mpi_osu" \
        "$tests" "$sizes" 1 "$@" >"$tmp/out" 2>"$tmp/err" || status=$?
    found=$(grep -c "\"data_ok\": $data}" "$tmp/out") || true
    if [ "$found $status" = "36 $wanted" ]; then
        ok "$name"
    else
        not_ok "$name" "$found of 36 results, exit status $status" "$tmp/err"
    fi
}

osu 'all data is correct' 0 true
if [ -z "${MRAIL_TEST_MPIRUN-}${MRAIL_TEST_RUN-}" ]; then
    # Two pairs put and get 300000 bytes at least twice each.
    for operation in put get; do
        bytes=$(sed -n "s/.*\"${operation}_bytes\": \([0-9]*\).*/\1/p" \
            "$tmp/stats"/* | awk '{ sum += $1 } END { print sum + 0 }')
        if [ "$bytes" -ge 1200000 ]; then
            ok "the rails carry each $operation"
        else
            not_ok "the rails carry each $operation" "$bytes bytes"
        fi
    done
fi
osu 'one wrong byte is detected in each test' 1 false corrupt
finish
