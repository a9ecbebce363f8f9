#!/bin/sh
# Checks the messages that the engine logs when it cannot start.
set -u
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need_built mrail-soft rail_open
export MRAIL_TEST_SOFT="$soft"

rails()
{
    "$MRAIL_TEST_SOFT" --session "$session" --rails 4 --node 0 -- "$@"
}

# Software rails pin no memory, so a shim makes registrations count against the
# limit, as for an ordinary user.
limited()
{
    rails sh -c "ulimit -l $1; $before_device" \
        "$build/.libs/libtest-memlock.so" "$build/rail_open"
}

expect_run 'the engine opens' 0 '' rails "$build/rail_open"
expect_run 'a sufficient locked-memory limit' 0 '' limited 8192
expect_run 'a locked-memory limit that is too low' 3 \
    'cannot register .* the locked-memory limit is 64 kB; raise it' limited 64
expect_run 'a limit that is too low for the second rail' 3 \
    'soft[1-3]: cannot register .* the locked-memory limit is 600 kB' \
    limited 600
expect_run 'a limit that is too low for the send buffers' 3 \
    'cannot register .* the locked-memory limit is 1700 kB' limited 1700
expect_run 'an unknown device' 3 "there is no port 'nix'; devices of this host: soft0" \
    env UCX_MRAIL_DEVICES=soft0,nix "$MRAIL_TEST_SOFT" \
    --session "$session" --rails 4 --node 0 -- "$build/rail_open"
expect_run 'no device at all' 3 'no rail: there is no RDMA device' \
    env -u MRAIL_SOFT "$build/rail_open"
finish
