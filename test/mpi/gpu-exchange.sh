#!/bin/sh
# Exchanges of device memory generated from seeds, on software GPUs. Open MPI
# and UCX have no CUDA support. Every byte must be correct.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_planned mpi_gpu_pair
[ -z "${MRAIL_TEST_MPIRUN-}" ] || skip_all 'only coll/mrail moves device memory'

last=30
[ -z "${MRAIL_TEST_FULL-}" ] || last=500
# Also allow relays for small messages.
small='--mca coll_mrail_relay_threshold 1000 --mca coll_mrail_relay_chunk_size 4096
    --mca coll_mrail_copy_bandwidth 1000000000000'
options=${MRAIL_TEST_RUN-}

test_program=$build/mpi_planned

kernel='--mca coll_mrail_gpu kernel'
run_on 'relays with a kernel, 2 nodes x 2' 2x2 4 "--gpus 2 --bind-rails $kernel $small" \
    --seeds 1-$last --memory device --relays
run_on 'relays with a kernel, ranks share a GPU' 2x2 6 \
    "--gpus 1 --bind-rails $kernel $small" --seeds 1-$last --memory device
for memory in device mixed; do
    run_on "$memory, single-rail ranks, 2 nodes x 2" 2x2 4 \
        "--gpus 2 --bind-rails $small" --seeds 1-$last --memory $memory --relays
    run_on "$memory, ranks share a GPU" 2x2 6 \
        "--gpus 1 --bind-rails $small" --seeds 1-$last --memory $memory
done
run_on 'device, multi-rail ranks, 2 nodes x 4' 2x4 8 "--gpus 4 $small" \
    --seeds 1-$last --memory device --peer
run_on 'mixed, multi-rail ranks' 2x2 4 "--gpus 2 $small" --seeds 1-$last \
    --memory mixed --staged
# Neither NICs nor other processes can access managed memory.
run_on 'managed, multi-rail ranks' 2x2 4 "--gpus 2 $small" --seeds 1-$last \
    --memory managed --staged
run_on 'device, two ranks' 2x1 2 '--gpus 1' --seeds 1-$last --memory device
run_on 'device, one rank' 1x1 1 '--gpus 1' --seeds 1-$last --memory device

# pair NAME NP LINKS SHARE [kernel]: within a node with four GPUs, rank 0 sends
# 64 MiB to rank 1. The plan relays SHARE percent of the bytes. The rate that
# the program prints is at most that of the links in use.
pair()
{
    MRAIL_TEST_RUN="$options --gpus 4 --gpu-link $3:160MB/s${5:+ $kernel}"
    topology=1x1
    run "$1" "$2" "$build/mpi_gpu_pair" --mib 64 --rate ${5:+--kernel}
    share=$(awk '$1 == "relayed" { printf "%.0f", 100 * $2 / ($2 + $4) }' \
        "$tmp/out")
    if [ "$share" = "$4" ]; then
        ok "$1: $4 % of the bytes take relays"
    else
        not_ok "$1: $4 % of the bytes take relays" "$share %" "$tmp/out"
    fi
}

pair 'direct' 2 mesh 0
pair 'one relay' 3 mesh 50
pair 'two relays' 4 mesh 66
pair 'two relays, with a kernel' 4 mesh 66 kernel
pair 'a switch' 4 switch 0

# Between nodes, relays have their slots on GPUs as well.
topology=2x2
MRAIL_TEST_RUN="$options --gpus 2 --bind-rails"
run 'a pair between nodes' 4 "$build/mpi_gpu_pair" --to 2
expect 'a pair between nodes: relays' "$tmp/out" '^relayed [1-9]'
MRAIL_TEST_RUN="$options --gpus 2 --bind-rails $kernel"
run 'a pair between nodes, with a kernel' 4 "$build/mpi_gpu_pair" --to 2 --kernel
expect 'a pair between nodes, with a kernel: relays' "$tmp/out" '^relayed [1-9]'

# The check must find a wrong byte of device memory as well.
topology=2x1
MRAIL_TEST_RUN="$options --gpus 1"
for where in data gap; do
    status=0
    launch 2 -- "$build/mpi_planned" --seeds 4-8 --memory device \
        --break $where >"$tmp/out" 2>"$tmp/err" || status=$?
    expect "a wrong byte is found: $where" "$tmp/out" '^ok - a wrong byte'
done

# bench NAME STATUS REGEX ARGUMENT...: the output must have a matching line.
bench()
{
    name=$1
    wanted=$2
    regex=$3
    shift 3
    status=0
    "$mrail" bench --memory device --iterations 2 "$@" --soft $topology \
        --session "$session" --gpus 4 >"$tmp/out" 2>&1 || status=$?
    if [ $status = "$wanted" ] && grep -q "$regex" "$tmp/out"; then
        ok "mrail bench: $name"
    else
        not_ok "mrail bench: $name" "exit status $status" "$tmp/out"
    fi
}

topology=2x2
bench 'device memory' 0 '"memory": *"device".*"data_ok": *true' alltoallv -np 4 \
    --sizes 100,2m --hotspot 0.5 --json
bench 'messages in chunks' 0 '"memory": *"managed".*"data_ok": *true' \
    alltoallv -np 4 --sizes 8m --hotspot 0.5 --json --memory managed
bench 'wrong data is found' 1 'wrong data from rank' alltoallv -np 4 \
    --sizes 100 --self-test-corrupt
# Each rank has its own rail.
topology=2x4
bench 'device memory with a plan' 0 \
    '"plan": true,.*"relayed": 0.[1-9].*"data_ok": true' alltoallv -np 8 \
    --bind-rails --rate 100M --sizes 8m --hotspot 0.9 --dst single --json
bench 'device memory without a plan' 0 \
    '"plan": false,.*"planned": 0.0000, "relayed": 0.0000.*"data_ok": true' \
    alltoallv -np 8 --bind-rails --rate 100M --sizes 8m --hotspot 0.9 \
    --dst single --json --plan no
moe="moe -np 8 --bind-rails --rate 200M --tokens 1k --skew 0.9 --iterations 2 --warmup 1
    --token-ns 1000 --json"
# shellcheck disable=SC2086 # word splitting is intended
{
    bench 'an MoE layer in device memory' 0 \
        '"memory": "device", "computation": "kernel", "plan": true.*"planned": \(1\|0.[3-9]\).*"data_ok": true' $moe
    expect 'without a plan, nothing takes a relay' "$tmp/out" \
        '"plan": false.*"relayed": 0.0000.*"data_ok": true'
    # Expert 0 processes some 0.92 of 1024 tokens.
    expect 'the kernel takes its time' "$tmp/out" \
        '"compute_s": 0\.(0009[2-9]|00[1-9]|0[1-9]|[1-9])'
    bench 'an MoE layer with a wrong byte' 1 'dispatch: wrong data from rank' \
        $moe --tokens 64 --self-test-corrupt
}
topology=2x2
bench 'p2p without CUDA in UCX' 1 'requires a UCX with CUDA support' p2p -np 2
nothing_left 'device memory'
finish
