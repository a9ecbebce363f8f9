#!/bin/sh
# Checks mrail diagnose with planted faults: one job for each case. To run more
# seeds: test/mpi/diagnose_cases.py.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_diagnose
need python3

status=0
python3 "$top/test/mpi/diagnose_cases.py" --tap --seeds 1 --first 3 \
    --mrail "$mrail" --build "$build" --tmp "$tmp" >"$tmp/cases" 2>&1 || status=$?
results "$tmp/cases"
if [ "$(grep -c '^ok ' "$tmp/cases")" -lt 10 ] && [ $status = 0 ]; then
    not_ok 'all cases ran' "exit status $status" "$tmp/cases"
fi
finish
