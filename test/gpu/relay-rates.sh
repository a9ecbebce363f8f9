#!/bin/sh
# One pair of software GPUs with pairwise links of equal rate: 64 MiB over the
# direct link and one or two relays take at least 0.95 of 1, 2 and 3 links.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need_built mrail-soft gpu_relay_rate

link=20 # MB/s

# rate PATHS: prints the best rate of three exchanges in MB/s.
rate()
{
    timeout 60 "$soft" --session "$session" --rails 1 --gpus 4 \
        --gpu-link "mesh:${link}MB/s" -- \
        "$build/gpu_relay_rate" "$1" 64 2>"$tmp/err" ||
        bail_out "gpu_relay_rate: $(cat "$tmp/err")"
}

for paths in 1 2 3; do
    got=$(rate "$paths")
    ratio=$(awk -v got="$got" -v all=$((paths * link)) \
        'BEGIN { printf "%.3f", got / all }')
    echo "# $paths of 3 paths: $got MB/s, $ratio of $paths links"
    if awk -v ratio="$ratio" 'BEGIN { exit !(ratio >= 0.95 && ratio <= 1.02) }'
    then
        ok "$paths of 3 paths"
    else
        not_ok "$paths of 3 paths" "$ratio of $paths links"
    fi
done
finish
