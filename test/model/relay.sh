#!/bin/sh
# The model of relays, checked exhaustively; and that it would find it if one of
# the rules were missing.
set -eu
command -v spin >/dev/null 2>&1 || { echo "no spin"; exit 77; }
model=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/relay.pml
cc=${CC:-cc}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

# check OPTION...: compiles the model with these and runs it; its report is in
# $tmp/out.
check()
{
    rm -rf "$tmp/run"
    mkdir "$tmp/run"
    (
        cd "$tmp/run"
        spin -a "$@" "$model" >spin.out 2>&1 &&
            $cc -O1 -w -DSAFETY -DCOLLAPSE -DMEMLIM=4000 -o pan pan.c &&
            ./pan -m200000
    ) >"$tmp/out" 2>&1
}

# holds NAME OPTION...
holds()
{
    name=$1
    shift
    check "$@" || true
    if grep -q 'errors: 0$' "$tmp/out" &&
        ! grep -qE 'out of memory|search depth too small|not completed' \
            "$tmp/out"; then
        echo "ok - $name: $(awk '/states, stored/ { print $1 }' "$tmp/out") states"
    else
        tail -n 20 "$tmp/out"
        echo "not ok - $name: not all states were seen, or one is wrong"
        failed=1
    fi
}

# finds NAME OPTION...
finds()
{
    name=$1
    shift
    check "$@" || true
    if grep -qE 'assertion violated' "$tmp/out"; then
        echo "ok - without $name: $(sed -n 's/^pan:1: //p' "$tmp/out" | head -n 1)"
    else
        tail -n 20 "$tmp/out"
        echo "not ok - without $name: the model does not notice"
        failed=1
    fi
}

holds 'three ranks, one out-slot, two in-slots'
holds 'three ranks, two out-slots, two in-slots' -DOUT=2
holds 'two senders, two receivers crosswise' -DCROSS
if [ -n "${MRAIL_TEST_FULL-}" ]; then # a minute
    holds 'three ranks, three chunks' -DCHUNKS=3
fi
finds 'a slot for each channel' -DCROSS -DNO_RESERVE
finds 'slots that come free' -DNO_FREE
exit $failed
