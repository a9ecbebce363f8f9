#!/bin/sh
# Checks that the kernel's device completes a READ with success only when all of
# its bytes have arrived. No code from this tree is used. The check does not run
# by default, because it fails with a kernel that has the defect described in
# docs/troubleshooting.md. Linux 6.1 fails in the last case, Linux 6.12 in all.
set -u
# shellcheck source=test/vm/lib.sh
. "${top:?}/test/vm/lib.sh"
port=7200

# reads NAME OPTION...: reads from host 3 into host 1.
reads()
{
    name=$1
    shift
    note "$name"
    port=$((port + 1))
    timeout 60 "$build/vm_read" rxe3 listen $port "$@" >"$log/$name.listen" \
        2>&1 &
    server=$!
    status=0
    timeout 60 "$build/vm_read" rxe1 127.0.0.1 $port "$@" \
        >"$log/$name.read" 2>&1 || status=$?
    end $server
    echo "# $(last "$log/$name.read")"
    result "each READ that succeeds has all bytes: $name" \
        "exit status $status: $(last "$log/$name.read")" [ $status = 0 ]
}

# Responses pass through the queue of r3.
queue()
{
    tc qdisc replace dev r3 root netem "$@"
}

queue delay 0 loss 0.5%
reads 'responses are lost' --sends --timeout 18
queue delay 10ms 9ms
reads 'responses are late and overtake each other' --sends
# The queue drops packets. rdma_rxe in Linux 6.1 then sends an RNR NAK in the
# middle of the READ.
queue delay 1ms limit 10
reads 'the queue of the responses is full' --sends --timeout 18 --bytes 4096 \
    --depth 16
tc qdisc del dev r3 root
finish
