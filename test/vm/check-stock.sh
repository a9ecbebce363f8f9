#!/bin/sh
# Checks the baseline: Open MPI on stock UCX (rc_v) on the same devices. If this
# test fails, the test environment is the cause, not the transport.
set -u
# shellcheck source=test/vm/lib.sh
. "${top:?}/test/vm/lib.sh"

# rdma_rxe sets no network type in UD completions, so UCX must not read the
# type. rdma_rxe's GID 0 is link-local, so the test uses another GID. Receive
# queues are short, because registering long ones takes too long in the emulated
# machine.
status=0
timeout 60 mpirun -np 2 --oversubscribe --mca btl ^openib --mca pml ucx \
    --mca pml_ucx_tls any --mca pml_ucx_devices any \
    --mca mpi_yield_when_idle 1 -x UCX_TLS=rc_v,self \
    -x UCX_UD_VERBS_ETH_DGID_CHECK=n -x UCX_IB_GID_INDEX=1 \
    -x UCX_RC_RX_QUEUE_LEN=512 -x UCX_UD_RX_QUEUE_LEN=512 \
    "$vm/rank.sh" "$build/mpi_coll" >"$log/out" 2>"$log/err" || status=$?
result "stock UCX rc_v carries the collectives" \
    "exit status $status: $(last "$log/err")" \
    [ $status = 0 -a "$(grep -c '^ok - ' "$log/out")" -ge 5 ]
finish
