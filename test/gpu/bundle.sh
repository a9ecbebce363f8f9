#!/bin/sh
# The bundle of contrib/gpu runs on software GPUs without this machine's Open
# MPI and UCX. contrib/check --full runs this script, because it takes minutes.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"

libraries=$(ldd "$(command -v mpirun)" | awk '/libopen-pal/ { print $3 }')
libraries=${libraries%/*}

# hidden COMMAND...: runs a command in separate namespaces, in which the
# libraries of Open MPI, PMIx and UCX are empty.
hidden()
{
    # shellcheck disable=SC2016 # the inner shell expands
    unshare -rm sh -c '
        libraries=$1
        shift
        for dir in openmpi ucx pmix2; do
            [ ! -d "$libraries/$dir" ] || mount -t tmpfs none "$libraries/$dir"
        done
        for name in mpi open-pal open-rte pmix ucp uct ucs ucm; do
            for file in "$libraries/lib$name".so.*; do
                [ ! -f "$file" ] || [ -L "$file" ] ||
                    mount --bind /dev/null "$file"
            done
        done
        exec "$@"' sh "$libraries" "$@"
}

occupied() { ! "$top/contrib/gpu" --bundle "$tmp/bundle"; }
fails() { ! hidden mpirun -np 1 true; }

if ! hidden true 2>"$tmp/err"; then
    skip 'the bundle runs' "no user namespaces: $(head -n 1 "$tmp/err")"
    finish
fi

check 'the bundle is created' "$top/contrib/gpu" --bundle "$tmp/bundle"
check 'a directory that is not empty is left unchanged' occupied
# This machine's mpirun must fail, or the test proves nothing.
check 'Open MPI is hidden' fails
status=0
hidden "$tmp/bundle/gpu" --software --figures "$tmp/figures" \
    >"$tmp/out" 2>"$tmp/err" </dev/null || status=$?
is 'the bundle runs' '0 0' "$status $(grep -c '^not ok' "$tmp/out")"
expect 'the bundle checks relays with the kernel' "$tmp/out" '^ok .* relays with a kernel'
expect 'the bundle writes figures' "$tmp/figures" '"what": "moe"'
finish
