#!/bin/sh
# 16 senders use each rail of a device whose receive queue has no room for all the
# credits that they request.
set -u
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need_built mrail-soft test/rail/many.rail
export MRAIL_TEST_SOFT="$soft" MRAIL_TEST_SRQ_WR=256
run_program '' "$soft" --session "$session" --nodes 2 --rails 4 --node 0 -- \
    sh -c "$before_device" "$build/.libs/libtest-srq.so" \
    "$build/test/rail/many.rail"
finish
