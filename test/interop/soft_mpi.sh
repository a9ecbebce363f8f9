#!/bin/bash
# Runs Open MPI on stock UCX and checks the data: with one and four devices, one
# and two nodes, and many ranks. The kernel must not drop any packet.
. "$(dirname "$0")/soft_lib.sh"
. ./test/ucx/env.sh
[ "$HAVE_MPICC" = yes ] || skip_all "configure found no Open MPI to build with"
need mpirun
need_built soft_alltoall
export UCX_WARN_UNUSED_ENV_VARS=n

job() { # job RANKS SOFT-OPTIONS DEVICES ARGUMENTS
    local np=$1 options=$2 devices=$3
    shift 3
    timeout 80 mpirun --oversubscribe -np "$np" --mca pml ucx \
        --mca btl ^openib,vader,tcp --mca osc ^ucx --mca pml_ucx_tls any \
        --mca pml_ucx_devices any -x UCX_TLS=rc_v,self \
        -x UCX_NET_DEVICES="$devices" \
        $soft --session $session $options -- ./soft_alltoall "$@" \
        >"$tmp/out" 2>&1 || { fail "$np ranks, $options"; show "$tmp/out"; }
    grep -q 'data ok' "$tmp/out" || fail "$np ranks, $options: data"
}

four=soft0:1,soft1:1,soft2:1,soft3:1
job 4 "--nodes 2 --rails 4" $four 200000 5
gone
report 'four ranks, four devices, two nodes'
# With any transport, 32 ranks start slowly on two cores, so that case belongs
# to the long tier.
ranks=8
[ -n "${MRAIL_TEST_FULL:-}" ] && ranks=32
SOFT_OPTIONS="--rails 4"
hold
job $ranks "--rails 4" soft0:1 4096 3
drops=$(($(counter drop_kernel) + $(kernel_drops)))
[ "$drops" = 0 ] || fail "$drops packets dropped by the kernel"
release
gone
report "$ranks ranks, one device: no packet dropped by the kernel"
finish
