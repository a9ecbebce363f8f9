#!/bin/sh
# Scrapes mrail exporter while a job runs, during a failover, while a rank is
# stopped, and as the job ends. The values must match those of mrail top.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_exchange
need python3
grep -q '^#define HAVE_MICROHTTPD 1' "$build/config.h" ||
    skip_all 'configure found no libmicrohttpd (libmicrohttpd-dev)'

launch 4 --rate 100M -- timeout 100 "$build/mpi_exchange" --seconds 50 \
    --bytes 3000000 >"$tmp/job" 2>&1 &
job=$!
await_under_way "$tmp/job"
run_program '' python3 "$top/test/mpi/exporter_job.py" "$mrail" "$session"
status=0
wait $job || status=$?
if [ $status = 0 ] && grep -q '^ok - ' "$tmp/job"; then
    ok 'the job ends, all data is correct'
else
    not_ok 'the job ends, all data is correct' "exit status $status" "$tmp/job"
fi
nothing_left 'exporter'
finish
