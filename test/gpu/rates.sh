#!/bin/sh
# Rates of software GPUs. A copy that should take 10 ms must do so to within 2
# %. Processes share a link equally, and together use no more than its rate.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need_built mrail-soft gpu_rate

# rate PROCESSES [OPTION...]: prints the times of the copies in microseconds.
rate()
{
    procs=$1
    shift
    timeout 60 "$soft" --session "$session" --rails 1 --gpus 2 "$@" -- \
        "$build/gpu_rate" "$procs" >"$tmp/times" 2>"$tmp/err" ||
        bail_out "gpu_rate: $(cat "$tmp/err")"
    sort -n "$tmp/times"
}

# within NAME WANTED PERCENT GOT
within()
{
    if awk -v want="$2" -v percent="$3" -v got="$4" 'BEGIN {
            d = got - want
            exit !(d >= -want * percent / 100 && d <= want * percent / 100) }'
    then
        ok "$1"
    else
        not_ok "$1" "$4 us instead of $2"
    fi
}

# A process that wakes up late can only make a copy look slower, so single
# copies are judged by the second-fastest time.
for link in mesh switch; do
    rate 1 --gpu-link $link:240MB/s >"$tmp/sorted"
    echo "# $link: 10 ms copies, in us: $(tr '\n' ' ' <"$tmp/sorted")"
    within "$link: a 10 ms copy" 10000 2 "$(sed -n 2p "$tmp/sorted")"
    rate 3 --gpu-link $link:240MB/s >"$tmp/sorted"
    echo "# $link: three processes, in us: $(tr '\n' ' ' <"$tmp/sorted")"
    within "$link: three processes share a link" 600000 2 \
        "$(tail -n 1 "$tmp/sorted")"
    within "$link: each process uses a third of the rate" 600000 10 "$(head -n 1 "$tmp/sorted")"
done
rate 1 --gpu-link none --pcie 240MB/s >"$tmp/sorted"
within 'PCIe: a 10 ms copy' 10000 2 "$(sed -n 2p "$tmp/sorted")"
finish
