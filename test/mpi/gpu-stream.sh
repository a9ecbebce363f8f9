#!/bin/sh
# Communication in CUDA streams (libmrail-stream) on software GPUs.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_enqueue
[ -z "${MRAIL_TEST_MPIRUN-}" ] || skip_all 'only coll/mrail moves device memory'
topology=2x2
options=${MRAIL_TEST_RUN-}

MRAIL_TEST_RUN="$options --gpus 2"
for test in order unordered streams messages host errors threads; do
    run $test 4 "$build/mpi_enqueue" $test
done
# A host function blocks the stream.
export MRAIL_STREAM_HOLD=function
for test in order host; do
    run "$test, by a function" 4 "$build/mpi_enqueue" $test
done
unset MRAIL_STREAM_HOLD
# Relays in device memory. Each case has its own session, because the faults of
# a session outlive a job.
topology=1x1
base=$session
for test in pair refused; do
    MRAIL_TEST_RUN="$options --gpus 4 --gpu-link mesh:160MB/s"
    session=$base-$test
    run "$test" 4 "$build/mpi_enqueue" $test
done
session=$base
topology=2x2
MRAIL_TEST_RUN=$options
run 'no GPU' 2 "$build/mpi_enqueue" no-gpu
nothing_left 'streams'
finish
