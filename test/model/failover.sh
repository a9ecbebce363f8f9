#!/bin/sh
# The model of failover, checked exhaustively; and that it would find it if one of
# the protocol's rules were missing.
set -eu
command -v spin >/dev/null 2>&1 || { echo "no spin"; exit 77; }
model=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/failover.pml
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

# At any time: also one while another is closed, and the new life of either.
holds 'two lanes of two lives, two break' -DBREAKS=2
holds 'two lanes of two lives, three break' -DBREAKS=3
holds 'three lanes of two lives, two break' -DLANES=3 -DBREAKS=2
if [ -n "${MRAIL_TEST_FULL-}" ]; then # a minute, 2.5 GB
    holds 'two lanes of three lives, three break' -DLIVES=3 -DBREAKS=3
    holds 'two lanes of three lives, four break' -DLIVES=3 -DBREAKS=4
fi
finds 'the count of what arrived' -DNO_COUNT
finds 'the closing of both ends' -DNO_CONFIRM
finds 'the evidence for WRITEs' -DNO_EVIDENCE
finds 'the fence' -DNO_FENCE
exit $failed
