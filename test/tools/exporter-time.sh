#!/bin/sh
# Measures the elapsed and the CPU time of an mrail exporter scrape.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need python3
need_built mrail-exporter exporter_pages
grep -q '^#define HAVE_MICROHTTPD 1' "$build/config.h" ||
    skip_all 'configure found no libmicrohttpd (libmicrohttpd-dev)'
run_program '' python3 "$top/test/tools/exporter_time.py" \
    "$build/mrail-exporter" "$build/exporter_pages" "$UCX_MRAIL_TELEMETRY_DIR"
finish
