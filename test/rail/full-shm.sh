#!/bin/sh
# A /dev/shm without room for telemetry: the processes say so in a sentence, and
# all else works.
set -u
soft=$PWD/mrail-soft
[ -x "$soft" ] || { echo "mrail-soft is not built"; exit 77; }
if [ "${1-}" != inside ]; then
    command -v unshare >/dev/null 2>&1 || { echo "no unshare"; exit 77; }
    if ! unshare -Urm sh -c 'mount -t tmpfs -o size=1m none /dev/shm' \
        2>/dev/null; then
        echo "no mount namespace here: unshare -Urm is not permitted"
        exit 77
    fi
    exec unshare -Urm "$0" inside
fi

out=test-full-shm.$$
trap 'rm -f "$out"' EXIT
mount -t tmpfs -o size=400k none /dev/shm || exit 1
if ! "$soft" --session full-shm --nodes 2 --rails 4 -- true >"$out" 2>&1 &&
    grep -q "cannot make session 'full-shm'.*No space left" "$out" &&
    [ -z "$(ls /dev/shm)" ]; then
    echo "ok - no room for software rails: a sentence, and nothing is left"
else
    echo "not ok - no room for software rails: $(cat "$out" && ls /dev/shm)"
    exit 1
fi
mount -t tmpfs -o size=2m none /dev/shm || exit 1
export MRAIL_TEST_SOFT="$soft"
# The session has its file; then somebody takes the rest.
# shellcheck disable=SC2016
"$soft" --session full-shm --nodes 2 --rails 4 --node 0 -- sh -c '
    head -c 4000000 /dev/zero >/dev/shm/filler 2>/dev/null
    df --output=avail /dev/shm | tail -n 1
    exec "$0"' "$PWD/rail_goodbye" >"$out" 2>&1
status=$?
cat "$out"
if [ $status = 0 ] && grep -q '^ok - all processes end well' "$out"; then
    echo "ok - a full /dev/shm: the job goes on"
else
    echo "not ok - a full /dev/shm: the job goes on: exit status $status"
fi
if grep -q 'telemetry is off: .*No space left on device' "$out"
then
    echo "ok - a full /dev/shm: a sentence"
else
    echo "not ok - a full /dev/shm: a sentence: there is none"
    status=1
fi
exit $status
