#!/bin/sh
# Measures the time of an answer of mrail diagnose about many ranks.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need python3
need_built mrail-diagnose exporter_pages
run_program '' python3 "$top/test/tools/diagnose_time.py" \
    "$build/mrail-diagnose" "$build/exporter_pages" "$UCX_MRAIL_TELEMETRY_DIR"
finish
