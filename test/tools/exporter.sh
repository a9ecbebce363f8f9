#!/bin/sh
# Checks mrail exporter without jobs: options and HTTP. Also checks that the
# documents, alert rules and dashboard use only existing metrics.
set -u
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need python3
need_built mrail-exporter exporter_pages

exporter=$build/mrail-exporter
pages=$UCX_MRAIL_TELEMETRY_DIR
chmod 755 "$pages" # another user must see its files

# ---- documents ----

"$exporter" --print --per-lane --dir "$pages" >"$tmp/text" 2>"$tmp/out"
succeeded '--print without a process'
check 'the documents, rules and dashboard match the metrics' \
    python3 "$top/test/tools/exporter_docs.py" "$tmp/text" "$top"

# ---- options ----

expect_run 'an address that is a name' 2 \
    'listen localhost:1: expected ADDRESS:PORT with a numeric address' \
    "$exporter" --listen localhost:1
expect_run 'a port that is too large' 2 'expected ADDRESS:PORT' \
    "$exporter" --listen 127.0.0.1:65536
expect_run '--max-jobs 0' 2 'expected a number from 1 to 1000' \
    "$exporter" --max-jobs 0
expect_run '--keep that is too long' 2 'expected a time from 0 to 3600 seconds' \
    "$exporter" --keep 2h
expect_run 'an unexpected argument' 2 "unknown argument 'word'" \
    "$exporter" word
expect_run '--print from a directory that does not exist' 1 \
    'mrail exporter: cannot read .*/none: No such file' \
    "$exporter" --print --dir "$tmp/none"
expect_run '--print to a full device' 1 'cannot write to stdout' \
    sh -c '"$0" --print --dir "$1" >/dev/full' "$exporter" "$pages"

# ---- HTTP ----

if grep -q '^#define HAVE_MICROHTTPD 1' "$build/config.h"; then
    expect_run "another machine's address" 1 \
        'cannot listen on 192.0.2.1:9467: Cannot assign' \
        timeout 10 "$exporter" --listen 192.0.2.1:9467 --dir "$pages"
    run_program '' python3 "$top/test/tools/exporter_http.py" "$exporter" \
        "$build/exporter_pages" "$pages"
else
    expect_run 'without libmicrohttpd: a message names the package' 1 \
        'this build has no HTTP server; install libmicrohttpd-dev' \
        "$exporter" --dir "$pages"
    skip 'HTTP' 'configure found no libmicrohttpd (libmicrohttpd-dev)'
fi
finish
