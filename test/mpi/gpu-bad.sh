#!/bin/sh
# Device memory that cannot be exchanged: the call must print a one-sentence
# message and return an error on all ranks.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_gpu_bad mpi_gpu_pair
[ -z "${MRAIL_TEST_MPIRUN-}" ] || skip_all 'only coll/mrail moves device memory'
topology=2x2
options=${MRAIL_TEST_RUN-}
MRAIL_TEST_RUN="$options --gpus 2 --bind-rails"

# fails CASE SENTENCE: the call fails on all ranks, and one of them prints the
# reason.
fails()
{
    status=0
    launch 4 -- "$build/mpi_gpu_bad" "$1" >"$tmp/out" 2>"$tmp/err" || status=$?
    results "$tmp/out"
    if [ $status != 0 ]; then
        not_ok "$1: the exit status is 0" "exit status $status" "$tmp/err"
    elif [ "$(grep -c . "$tmp/err")" = 1 ] && grep -q "$2" "$tmp/err"; then
        ok "$1: one message states the reason"
    else
        not_ok "$1: one message states the reason" "not '$2'" "$tmp/err"
    fi
}

fails half 'one part of the buffer is host memory, another device memory'
fails freed 'neither host memory nor device memory; was it freed?'

# Without an agreement round, the error of one rank ends the job.
status=0
launch 4 -- "$build/mpi_gpu_bad" late >"$tmp/out" 2>"$tmp/err" || status=$?
expect 'late: small calls are correct' "$tmp/out" '^ok - small calls are correct'
expect 'late: one message states the reason' "$tmp/err" 'was it freed?'
if [ $status != 0 ] && ! grep -q hangs "$tmp/err"; then
    ok 'late: the job ends'
else
    not_ok 'late: the job ends' "exit status $status" "$tmp/err"
fi
run again 4 "$build/mpi_gpu_bad" again

# Faults of relays in device memory, on one node with four GPUs. Each case has
# its own session, because the faults of a session outlive a job.
topology=1x1
base=$session
MRAIL_TEST_RUN="$options --gpus 4 --gpu-link mesh:40MB/s"

# The ranks detect these faults before the first byte moves. All of them then
# plan without such relays.
for fault in no_memory ipc_error; do
    session=$base-$fault
    run "$fault" 4 "$build/mpi_gpu_pair" --fault $fault
done

# Later faults end the job with a message, and no rank hangs.
for fault in copy_error cut reset kill; do
    session=$base-$fault
    status=0
    launch 4 -- "$build/mpi_gpu_pair" --mib 24 --fault $fault >"$tmp/out" \
        2>"$tmp/err" || status=$?
    if [ $status = 0 ] || grep -q hangs "$tmp/err"; then
        not_ok "$fault: the job ends" "exit status $status" "$tmp/err"
    else
        ok "$fault: the job ends"
    fi
    [ $fault = kill ] || expect "$fault: a message states the reason" "$tmp/err" \
        'a planned exchange has failed on rank [0-9]* \(|a copy of .* failed'
done
session=$base
nothing_left 'bad memory'
finish
