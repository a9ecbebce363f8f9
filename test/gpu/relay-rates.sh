#!/bin/sh
# One pair of software GPUs with pairwise links of equal rate. 64 MiB use the
# direct link alone, or also one or two relays. The rate must be at least 0.95
# times that of one, two or three links.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need_built mrail-soft gpu_relay_rate

link=20 # MB/s

# rate PATHS [kernel]: prints the best rate of three exchanges in MB/s.
rate()
{
    timeout 60 "$soft" --session "$session" --rails 1 --gpus 4 \
        --gpu-link "mesh:${link}MB/s" -- \
        "$build/gpu_relay_rate" "$1" 64 ${2:+"$2"} 2>"$tmp/err" ||
        bail_out "gpu_relay_rate: $(cat "$tmp/err")"
}

for way in '' kernel; do
    for paths in 1 2 3; do
        name="$paths of 3 paths${way:+, $way}"
        got=$(rate "$paths" $way)
        ratio=$(awk -v got="$got" -v all=$((paths * link)) \
            'BEGIN { printf "%.3f", got / all }')
        echo "# $name: $got MB/s, $ratio of $paths links"
        if awk -v ratio="$ratio" 'BEGIN { exit !(ratio >= 0.95 && ratio <= 1.02) }'
        then
            ok "$name"
        else
            not_ok "$name" "$ratio of $paths links"
        fi
    done
done
finish
