# shellcheck shell=sh disable=SC2034
# Sourced by the scripts in this directory, which check models exhaustively with
# spin. NAME.sh checks NAME.pml.
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need spin
model=$top/test/model/$(basename -- "$0" .sh).pml
cc=${CC:-cc}

# explore OPTION...: compiles the model with these options, and runs the check.
# The report is in $tmp/out.
explore()
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

# holds NAME OPTION...: spin must find no error in the model.
holds()
{
    name=$1
    shift
    explore "$@" || true
    if grep -q 'errors: 0$' "$tmp/out" &&
        ! grep -qE 'out of memory|search depth too small|not completed' \
            "$tmp/out"; then
        ok "$name: $(awk '/states, stored/ { print $1 }' "$tmp/out") states"
    else
        not_ok "$name" 'the search is incomplete, or found an error' "$tmp/out"
    fi
}

# finds NAME OPTION...: spin must find an error in the model.
finds()
{
    name=$1
    shift
    explore "$@" || true
    if grep -qE 'assertion violated' "$tmp/out"; then
        ok "without $name: $(sed -n 's/^pan:1: //p' "$tmp/out" | head -n 1)"
    else
        not_ok "without $name" 'the model finds no error' "$tmp/out"
    fi
}
