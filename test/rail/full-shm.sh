#!/bin/sh
# If /dev/shm is too full for telemetry, each process must report that in one
# line, and everything else must work.
set -u
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need_built mrail-soft rail_goodbye
rm -rf "$UCX_MRAIL_TELEMETRY_DIR"
unset UCX_MRAIL_TELEMETRY_DIR # use the default, /dev/shm
if [ "${1-}" != inside ]; then
    need unshare
    unshare -Urm sh -c 'mount -t tmpfs -o size=1m none /dev/shm' 2>/dev/null ||
        skip_all 'no mount namespace: unshare -Urm is not permitted'
    unshare -Urm "$0" inside
    exit
fi

mount -t tmpfs -o size=400k none /dev/shm || bail_out 'cannot mount a small /dev/shm'
if ! "$soft" --session full-shm --nodes 2 --rails 4 -- true >"$tmp/out" 2>&1 &&
    grep -q "cannot create session 'full-shm'.*No space left" "$tmp/out" &&
    [ -z "$(ls /dev/shm)" ]; then
    ok 'no space for software rails: a message, and no files are left'
else
    not_ok 'no space for software rails: a message, and no files are left' \
        "left: $(ls /dev/shm)" "$tmp/out"
fi
mount -t tmpfs -o size=2m none /dev/shm || bail_out 'cannot mount a small /dev/shm'
export MRAIL_TEST_SOFT="$soft"
# The session creates its file first. Then another program takes the remaining
# space.
# shellcheck disable=SC2016
run_program 'a full /dev/shm: ' "$soft" --session full-shm --nodes 2 --rails 4 \
    --node 0 -- sh -c '
    head -c 4000000 /dev/zero >/dev/shm/filler 2>/dev/null
    df --output=avail /dev/shm | tail -n 1
    exec "$0"' "$build/rail_goodbye"
expect 'a full /dev/shm: the job continues' "$tmp/out" '^ok - all processes succeed'
expect 'a full /dev/shm: a message' "$tmp/out" \
    'telemetry is off: .*No space left on device'
finish
