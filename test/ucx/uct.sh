#!/bin/sh
# test_uct on 1, 4, 8 and 16 rails.
# shellcheck source=test/ucx/common.sh
. "${srcdir:-.}/test/ucx/common.sh"

# uct RAILS [FILTER]: prints cmocka's report.
uct()
{
    rails_=$1
    shift
    echo "# $rails_ rails"
    MRAIL_UCT_PATH=$guard timeout 200 "$abs_top_builddir/mrail-soft" \
        --session "$session-$rails_" --nodes 2 --rails "$rails_" --node 0 -- \
        "$abs_top_builddir/test_uct" "$@" 2>&1 || failed=1
}

uct 4
UCX_MRAIL_RCACHE=n
export UCX_MRAIL_RCACHE
uct 4 'test_*re*ed'
unset UCX_MRAIL_RCACHE
uct 1

# The send queue, not the credits, is what runs out first.
UCX_MRAIL_AM_CREDITS=256 UCX_MRAIL_TX_QUEUE_LEN=16
export UCX_MRAIL_AM_CREDITS UCX_MRAIL_TX_QUEUE_LEN
uct 2 'test_am_in_order'
uct 2 'test_pending*'
unset UCX_MRAIL_AM_CREDITS UCX_MRAIL_TX_QUEUE_LEN

# One NIC's packets come late: what arrives by another must not overtake them
# where a fence stands between.
on_rails 2 4 0 sh -c '
    "$1" ctl --session "$2" --rail 2 delay=300 &&
    MRAIL_UCT_PATH=$3 exec "$4" test_fence_orders_visibility' sh \
    "$abs_top_builddir/mrail-soft" "$session" "$guard" \
    "$abs_top_builddir/test_uct" 2>&1 || failed=1
uct 8 test_addresses_fit
uct 16 test_addresses_fit
uct 16 test_zcopy_sizes
exit $failed
