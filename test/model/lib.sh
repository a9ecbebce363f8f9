# shellcheck shell=sh disable=SC2034
# Sourced by the scripts of this folder: models checked exhaustively with spin.
# NAME.sh is about NAME.pml.
command -v spin >/dev/null 2>&1 || { echo "no spin"; exit 77; }
name=$(basename -- "$0" .sh)
model=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)/$name.pml
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
        cd "$tmp/run" || exit
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
