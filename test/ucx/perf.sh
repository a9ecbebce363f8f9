#!/bin/sh
# Runs ucx_perftest between two emulated nodes with four rails. Covers every
# kind of UCP operation, with mrail as the only transport.
# shellcheck source=test/ucx/common.sh
. "$(dirname -- "$0")/common.sh"

port=$(free_port)
export UCX_TLS=mrail,self UCX_LOG_LEVEL=warn

[ -x "$ucx_perftest" ] || skip_all 'this UCX has no ucx_perftest'

# A ucx_perftest that was built with MPI (Debian 13) would run as a job of one
# rank, so the script disables MPI.
no_mpi=
if "$ucx_perftest" -h 2>/dev/null </dev/null | grep -q '^ *-P <0|1>'; then
    no_mpi=yes
fi
export OMPI_MCA_pml=ob1

# side NODE LOG ARGS...: runs one end of ucx_perftest on the node.
side()
{
    node_=$1 log_=$2
    shift 2
    on_rails 2 4 "$node_" sh -c "$behind_device" "$shim" \
        "$ucx_perftest" ${no_mpi:+-P 0} -p "$port" -f -w 10 "$@" \
        >"$log_" 2>&1 </dev/null
}

# pair NAME ARGS...: runs both ends of a test, and prints the result.
pair()
{
    name=$1
    shift
    port=$(free_port $((port + 1)))
    side 0 "$tmp/server" "$@" &
    server=$!
    await 5 listens "$port" || excerpt "$tmp/server"
    side 1 "$tmp/client" 127.0.0.1 "$@"
    wait "$server"
    status=$?
    if [ $status != 0 ]; then
        not_ok "$name" "the server's exit status is $status" "$tmp/server"
    elif ! grep -q '^Final\|^ *[0-9]' "$tmp/client"; then
        not_ok "$name" 'no figures' "$tmp/client"
    else
        cat "$tmp/server" "$tmp/client" >"$tmp/both"
        expect_quiet "$name" "$tmp/both"
    fi
}

# uct NAME ARGS...: runs a single operation of UCT.
uct()
{
    name_=$1
    shift
    pair "$name_" -d mrail:1 -x mrail "$@"
}

# refused TEST...: checks that UCT rejects operations that mrail does not
# support.
refused()
{
    for test in "$@"; do
        on_rails 2 4 0 sh -c "$behind_device" "$shim" \
            "$ucx_perftest" ${no_mpi:+-P 0} -l -f -d mrail:1 -x mrail \
            -t "$test" -s 8 -n 10 >"$tmp/refused" 2>&1 </dev/null &&
            echo "exit status 0" >"$tmp/refused"
        expect "UCT $test is rejected" "$tmp/refused" 'not support'
    done
}

# alone NAME ARGS...: a process communicates with itself, over mrail instead of
# "self".
alone()
{
    name=$1
    shift
    UCX_TLS=mrail on_rails 2 4 0 sh -c "$behind_device" "$shim" \
        "$ucx_perftest" ${no_mpi:+-P 0} -l -f -w 10 "$@" \
        >"$tmp/alone" 2>&1 </dev/null
    status=$?
    if [ $status != 0 ]; then
        not_ok "$name" "exit status $status" "$tmp/alone"
    else
        expect_quiet "$name" "$tmp/alone"
    fi
}

pair 'tag latency, 8 bytes' -t tag_lat -s 8 -n 500
pair 'tag latency, 0 bytes' -t tag_lat -s 0 -n 500
pair 'tag bandwidth, 4 KB' -t tag_bw -s 4096 -n 2000
pair 'tag bandwidth, 64 KB' -t tag_bw -s 65536 -n 500
pair 'tag bandwidth, 4 MB' -t tag_bw -s 4194304 -n 20
pair 'synchronous tag' -t tag_sync_lat -s 1000 -n 300
pair 'two buffers per message' -t tag_lat -s 4096,100000 -n 50
pair 'AM latency, 8 bytes' -t ucp_am_lat -s 8 -n 500
pair 'AM bandwidth, 64 KB' -t ucp_am_bw -s 65536 -n 300
pair 'AM bandwidth, 1 MB' -t ucp_am_bw -s 1048576 -n 50
pair 'stream latency' -t stream_lat -s 100 -n 500
pair 'stream bandwidth' -t stream_bw -s 65536 -n 300
pair 'put latency' -t ucp_put_lat -s 8 -n 500
pair 'put bandwidth, 4 KB' -t ucp_put_bw -s 4096 -n 1000
pair 'put bandwidth, 1 MB' -t ucp_put_bw -s 1048576 -n 50
pair 'get, 8 bytes' -t ucp_get -s 8 -n 300
pair 'get, 1 MB' -t ucp_get -s 1048576 -n 50
pair 'emulated atomics: add' -t ucp_add -s 8 -n 200
pair 'emulated atomics: fetch and add' -t ucp_fadd -s 8 -n 200
pair 'emulated atomics: swap' -t ucp_swap -s 4 -n 200
pair 'emulated atomics: compare and swap' -t ucp_cswap -s 8 -n 200
pair 'synchronous tag bandwidth' -t tag_sync_bw -s 65536 -n 200
pair 'unexpected messages' -t tag_lat -U -s 2048 -n 300
pair 'scattered buffers' -t tag_bw -D iov,iov -s 1000,30000,5 -n 200
pair 'stream, data as it arrives' -t stream_bw -r recv_data -s 4096 -n 500
pair 'error handling' -t tag_bw -e -s 65536 -n 300
pair 'sleeping: tag latency' -t tag_lat -E sleep -s 8 -n 300
pair 'sleeping: AM bandwidth' -t ucp_am_bw -E sleep -s 65536 -n 200
# "put" is left out, because its target sleeps forever with every transport.
for layout in short shortiov bcopy zcopy; do
    uct "UCT AM latency, $layout" -t am_lat -D $layout -s 64 -n 300
    uct "UCT AM bandwidth, $layout" -t am_bw -D $layout -s 128 -n 1000
done
for layout in short bcopy zcopy; do
    uct "UCT put latency, $layout" -t put_lat -D $layout -s 16 -n 300
    uct "UCT put bandwidth, $layout" -t put_bw -D $layout -s 256 -n 1000
done
uct 'UCT get, bcopy' -t get -D bcopy -s 4096 -n 300
uct 'UCT get, zcopy' -t get -D zcopy -s 65536 -n 200
refused add_lat add_mr fadd swap cswap
# UCX 1.13 uses one option for this, and later versions use another.
UCX_WARN_UNUSED_ENV_VARS=n UCX_MRAIL_RCACHE=n
export UCX_WARN_UNUSED_ENV_VARS UCX_MRAIL_RCACHE
pair 'registered at each use: UCX_MRAIL_RCACHE=n' -t tag_bw -s 1048576 -n 50
UCX_RCACHE_ENABLE=n
export UCX_RCACHE_ENABLE
pair 'registered at each use: UCX_RCACHE_ENABLE=n' -t tag_bw -s 1048576 -n 50
unset UCX_WARN_UNUSED_ENV_VARS UCX_MRAIL_RCACHE UCX_RCACHE_ENABLE
pair 'several threads' -t tag_bw -s 8192 -n 300 -T 2 -M multi
alone 'to itself: 8 bytes' -t tag_bw -s 8 -n 500
alone 'to itself: 64 KB' -t tag_bw -s 65536 -n 200
UCX_PROTO_ENABLE=y
export UCX_PROTO_ENABLE
pair 'new protocols: tag latency' -t tag_lat -s 8 -n 300
pair 'new protocols: tag bandwidth, 1 MB' -t tag_bw -s 1048576 -n 30
pair 'new protocols: put, 1 MB' -t ucp_put_bw -s 1048576 -n 30
pair 'new protocols: get, 1 MB' -t ucp_get -s 1048576 -n 30
finish
