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
    LD_PRELOAD= timeout 200 "$abs_top_builddir/mrail-soft" \
        --session "$session-$rails_" --nodes 2 --rails "$rails_" --node 0 -- \
        sh -c 'LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$0 exec "$@"' "$guard" \
        "$abs_top_builddir/test_uct" "$@" 2>&1 || failed=1
}

uct 4
uct 1
uct 8 test_addresses_fit
uct 16 test_addresses_fit
uct 16 test_zcopy_sizes
exit $failed
