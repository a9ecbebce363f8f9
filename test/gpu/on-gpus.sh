#!/bin/sh
# Runs a test program of test/gpu on software GPUs. automake uses this script as
# the LOG_COMPILER of tests whose names end in ".gpu".
# usage: on-gpus.sh PROGRAM
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need_built mrail-soft
program=$1
session=t$$-$(basename -- "$program" .gpu)

# run PREFIX [OPTION of mrail soft...]: runs the program in a session with 4 GPUs
# and these options.
run()
{
    prefix=$1
    shift
    run_program "$prefix" timeout 120 "$soft" --session "$session" --rails 1 \
        --gpus 4 "$@" -- "$program"
}

# Low rates make copies last long enough to overlap.
case $(basename -- "$program" .gpu) in
api | ipc) run '' --gpu-memory 64M ;;
copy)
    run 'mesh: ' --gpu-link mesh:50M --pcie 50M
    run 'switch: ' --gpu-link switch:50M --pcie 50M
    ;;
nvml)
    run 'mesh: ' --gpu-link mesh:240M
    run 'switch: ' --gpu-link switch:400M
    ;;
rdma)
    run 'dma-buf: '
    run 'peermem: ' --peermem --gpu-fault no_dmabuf
    ;;
order)
    run 'no limit: '
    run 'slow: ' --gpu-link mesh:20M --pcie 20M
    ;;
rail)
    export MRAIL_TEST_SOFT="$soft"
    run '' --nodes 2 --rails 4 --node 0
    run 'peermem: ' --nodes 2 --rails 4 --node 0 --peermem --gpu-fault no_dmabuf
    ;;
relay) run '' --gpu-link mesh:50M --gpu-memory 64M ;;
*) run '' ;;
esac
finish
