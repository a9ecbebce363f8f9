#!/bin/sh
# Runs test_uct on 1, 4, 8 and 16 rails.
# shellcheck source=test/ucx/common.sh
. "$(dirname -- "$0")/common.sh"

[ "$HAVE_CMOCKA" = yes ] || skip_all 'configure found no cmocka'
need_built test_uct
export CMOCKA_MESSAGE_OUTPUT=TAP MRAIL_UCT_PATH="$shim"

# uct WHAT RAILS [FILTER]: runs test_uct, and prints cmocka's results. WHAT
# names the settings.
uct()
{
    what=$1 rails=$2
    shift 2
    run_program "$rails rails$what: " "$top/test/program.sh" timeout 200 "$soft" \
        --session "$session-$rails" --nodes 2 --rails "$rails" --node 0 -- \
        "$build/test_uct" "$@"
}

uct '' 4
UCX_MRAIL_RCACHE=n
export UCX_MRAIL_RCACHE
uct ', no registration cache' 4 'test_*re*ed'
uct ', no registration cache' 4 'test_direct_needs_cache'
unset UCX_MRAIL_RCACHE
uct '' 1

# The send queue is so short that it fills before the credits are used up.
UCX_MRAIL_AM_CREDITS=256 UCX_MRAIL_TX_QUEUE_LEN=16
export UCX_MRAIL_AM_CREDITS UCX_MRAIL_TX_QUEUE_LEN
uct ', a short send queue' 2 'test_am_in_order'
uct ', a short send queue' 2 'test_pending*'
unset UCX_MRAIL_AM_CREDITS UCX_MRAIL_TX_QUEUE_LEN

# Delays the packets of one NIC. Packets of the other NICs must not overtake
# them across a fence.
# shellcheck disable=SC2016 # expanded by the inner shell
run_program '4 rails, one late: ' on_rails 2 4 0 sh -c '
    "$0" ctl --session "$1" --rail 2 delay=300 &&
    exec "$2" test_fence_orders_visibility' \
    "$soft" "$session" "$build/test_uct"
# Rails so slow that a message would overtake a PUT without the fence.
# shellcheck disable=SC2016 # expanded by the inner shell
run_program '4 rails, slow: ' on_rails 2 4 0 sh -c '
    "$0" ctl --session "$1" rate=100M &&
    exec "$2" "test_fence_*"' \
    "$soft" "$session" "$build/test_uct"
uct '' 8 test_addresses_fit
uct '' 16 test_addresses_fit
uct '' 16 test_zcopy_sizes

# gpus WHEN: the tests of device memory; see test_uct.c.
gpus()
{
    export MRAIL_TEST_GPUS="$1"
    run_program "GPUs, driver loaded $1: " "$top/test/program.sh" timeout 100 \
        "$soft" --session "$session-gpus" --nodes 2 --rails 4 --node 0 --gpus 2 \
        -- "$build/test_uct"
}

gpus early
gpus late
UCX_MRAIL_RCACHE=n
export UCX_MRAIL_RCACHE
gpus early
finish
