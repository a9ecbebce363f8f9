#!/bin/sh
# Checks the test environment itself, by running perftest between two of the
# kernel's devices, across the spines.
set -u
# shellcheck source=test/vm/lib.sh
. "${top:?}/test/vm/lib.sh"
port=18515

# pair PROGRAM OPTION...: runs both ends of a perftest program.
pair()
{
    port=$((port + 1))
    name=$1
    shift
    timeout 20 "$name" -d rxe3 -x 1 -F -p $port "$@" \
        >"$log/$name.server" 2>&1 &
    server=$!
    if await 10 listens $port &&
        timeout 20 "$name" -d rxe1 -x 1 -F -p $port "$@" 127.0.0.1 \
            >"$log/$name" 2>&1 && wait $server; then
        ok "$name on the kernel's devices"
        awk 'NF >= 4 && $1 + 0 > 0 { print "# " $0 }' "$log/$name"
    else
        not_ok "$name on the kernel's devices" "$(last "$log/$name")"
    fi
}

pair ib_write_bw -s 65536 -n 200
pair ib_send_lat -s 64 -n 300
finish
