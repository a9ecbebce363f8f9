#!/bin/sh
# 16 senders on each rail of a device whose receive queue has no room for the
# credits that they would like.
set -u
soft=$PWD/mrail-soft
[ -x "$soft" ] || { echo "mrail-soft is not built"; exit 77; }
export MRAIL_TEST_SOFT="$soft" MRAIL_TEST_SRQ_WR=256
# shellcheck disable=SC2016
exec "$soft" --session "test-small-srq-$$" --nodes 2 --rails 4 --node 0 -- \
    sh -c 'LD_PRELOAD="$0:$LD_PRELOAD" exec "$1"' \
    "$PWD/.libs/libtest-srq.so" "$PWD/rail_many"
