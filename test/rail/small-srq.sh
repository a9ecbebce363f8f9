#!/bin/sh
# 16 senders use each rail of a device whose receive queues are small. With 256
# buffers, the windows are smaller than requested, but every message finds a
# buffer. With 40, the lanes share buffers, and the NIC retries messages that
# find none.
set -u
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need_built mrail-soft test/rail/many.rail
export MRAIL_TEST_SOFT="$soft"

# many BUFFERS RNR: runs rail_many with this many receive buffers. RNR is the
# expected number of RNR NAKs: "none" or "some".
many()
{
    export MRAIL_TEST_SRQ_WR="$1" MRAIL_TEST_RNR="$2"
    run_program "$1 buffers: " "$soft" --session "$session" --nodes 2 --rails 4 \
        --node 0 -- sh -c "$before_device" "$build/.libs/libtest-srq.so" \
        "$build/test/rail/many.rail"
}

many 256 none
many 40 some
finish
