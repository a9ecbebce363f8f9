#!/bin/sh
# Messages of an engine that cannot start.
set -u
export MRAIL_TEST_SOFT="$PWD/mrail-soft"
[ -x "$MRAIL_TEST_SOFT" ] || { echo "mrail-soft is not built"; exit 77; }
[ -x "$PWD/rail_open" ] || { echo "rail_open is not built"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

# try NAME STATUS PATTERN [VAR=VALUE...] -- RAILS [PREFIX...]
try()
{
    name=$1 status=$2 pattern=$3
    shift 3
    "$@" >"$tmp/out" 2>&1
    got=$?
    if [ "$got" != "$status" ]; then
        echo "not ok - $name: exit status $got, not $status"
        sed 's/^/    | /' "$tmp/out"
        failed=1
    elif [ -n "$pattern" ] && ! grep -q -e "$pattern" "$tmp/out"; then
        echo "not ok - $name: no line with '$pattern'"
        sed 's/^/    | /' "$tmp/out"
        failed=1
    else
        echo "ok - $name"
    fi
}

rails()
{
    "$MRAIL_TEST_SOFT" --session "test-trouble-$$" --rails 4 --node 0 -- "$@"
}

# The shim makes registrations count against the limit, as for a user.
limited()
{
    # shellcheck disable=SC2016
    rails sh -c 'ulimit -l "$2"; LD_PRELOAD="$0:$LD_PRELOAD" exec "$1"' \
        "$PWD/.libs/libtest-memlock.so" "$PWD/rail_open" "$1"
}

try 'the engine opens' 0 '' rails "$PWD/rail_open"
try 'a locked-memory limit that suffices' 0 '' limited 8192
try 'a locked-memory limit that is too small' 3 \
    'cannot register .* the locked-memory limit is 64 kB; raise it' limited 64
try 'the limit is too small for the second rail' 3 \
    'soft[1-3]: cannot register .* the locked-memory limit is 600 kB' \
    limited 600
try 'the limit is too small for the send buffers' 3 \
    'cannot register .* the locked-memory limit is 1700 kB' limited 1700
try 'an unknown device' 3 "there is no port 'nix'; devices here: soft0" \
    env UCX_MRAIL_DEVICES=soft0,nix "$MRAIL_TEST_SOFT" \
    --session "test-trouble-$$" --rails 4 --node 0 -- "$PWD/rail_open"
try 'no device at all' 3 'no rail: there is no RDMA device' \
    env -u MRAIL_SOFT "$PWD/rail_open"
exit $failed
