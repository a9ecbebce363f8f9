#!/bin/sh
# Checks how the transport appears in the output of ucx_info, and its message
# when it will not be used.
# shellcheck source=test/ucx/common.sh
. "$(dirname -- "$0")/common.sh"

# info LOG ARGS...: runs ucx_info on one node with four rails.
info()
{
    log=$1
    shift
    on_rails 1 4 0 sh -c "$behind_device" "$shim" \
        "$ucx_info" "$@" >"$log" 2>&1 </dev/null
}

info "$tmp/d" -d -t mrail
expect 'ucx_info -d shows the transport' "$tmp/d" 'Transport: mrail$'
expect 'READs begin where a PCIe payload does' "$tmp/d" \
    'get_opt_zcopy_align: <= 512'
expect 'WRITEs begin where a PCIe payload does' "$tmp/d" 'put_opt_zcopy_align: <= 512'
expect 'ucx_info -d shows the device' "$tmp/d" 'Device: mrail:1$'
expect 'it connects to interfaces' "$tmp/d" 'connection: to iface'
expect 'it handles peer failure' "$tmp/d" 'error handling:.*peer failure'
expect_none 'it advertises no atomics' "$tmp/d" 'atomic'
expect_quiet 'ucx_info -d reports no errors' "$tmp/d"

info "$tmp/cf" -cf
for param in $(sed -n 's/^    X(\([A-Z_]*\),.*/\1/p' \
    "$top/src/rail/params.h"); do
    expect "ucx_info -cf shows UCX_MRAIL_$param" "$tmp/cf" "^UCX_MRAIL_$param="
done
expect 'ucx_info -cf shows UCX_MRAIL_RCACHE' "$tmp/cf" '^UCX_MRAIL_RCACHE='

# Every variable that UCX shows must be known to mrail info.
# shellcheck disable=SC2046 # word splitting is intended
on_rails 1 4 0 env $(sed -n 's/^\(UCX_MRAIL_[A-Z_]*=[^ ]*\)$/\1/p' "$tmp/cf") \
    "$build/mrail-info" >"$tmp/known" 2>&1
expect 'mrail info accepts every UCX_MRAIL_* of ucx_info -cf' "$tmp/known" \
    '^4 rails'
expect_none 'mrail info knows every parameter' "$tmp/known" 'no variable'
UCX_MRAIL_DEVICE=soft0 on_rails 1 4 0 "$build/mrail-info" \
    >"$tmp/unknown" 2>&1
expect 'mrail info names a variable that does not exist' "$tmp/unknown" \
    'no variable UCX_MRAIL_DEVICE; did you mean UCX_MRAIL_DEVICES?'

UCX_MRAIL_SEG_SIZE=4k info "$tmp/seg" -d -t mrail
bcopy=$(sed -n 's/.*am_bcopy: <= //p' "$tmp/seg")
bcopy8=$(sed -n 's/.*am_bcopy: <= //p' "$tmp/d")
if [ -n "$bcopy" ] && [ "$bcopy" != "$bcopy8" ]; then
    ok 'a parameter in the environment takes effect'
else
    not_ok 'a parameter in the environment takes effect' \
        "am_bcopy is $bcopy with SEG_SIZE=4k, $bcopy8 without" "$tmp/seg"
fi

# rendezvous PROCESSES: prints the size from which UCP would send by rendezvous
# if that many processes shared a node. Writes the protocols for smaller
# messages to $tmp/tag.
rendezvous()
{
    UCX_TLS=mrail UCX_PROTO_ENABLE=y info "$tmp/e" -e -u t -P inter -n "$1" -N "$1"
    awk -F '|' '
        /tagged message by/ { on = /tag_send\*(\(\))? from/; next }
        on && /\.\./ { print $2 $3 }' "$tmp/e" >"$tmp/tag"
    sed -n 's/^ *\([0-9]*\)\(K*\)\.\.inf .*rendezvous.*/\1 \2/p' "$tmp/tag" |
        awk '{ print ($2 == "K") ? $1 * 1024 : $1 }'
}

# Four rails together are faster than a memory copy if one process uses them,
# but slower if many processes share them. UCX must start rendezvous at about
# the same size in either case.
for processes in 1 8 32; do
    from=$(rendezvous $processes)
    name="processes of a node: $processes"
    if [ "${from:-0}" -gt 8192 ] && [ "$from" -lt 131072 ]; then
        ok "$name; rendezvous from about 10 KB"
    else
        not_ok "$name; rendezvous from about 10 KB" "${from:-never}" "$tmp/e"
    fi
    expect "$name; small messages are eager" "$tmp/tag" ' eager short'
    expect_none "$name; no eager message is called zero-copy" "$tmp/tag" \
        'eager zero-copy'
done

# The older protocols compute that size from the overhead. Rendezvous is faster
# from about 64 KB on, for any number of processes.
for processes in 1 2 8 32; do
    UCX_TLS=mrail,self UCX_PROTO_ENABLE=n info "$tmp/old" -e -u t -D net \
        -n $processes -N $processes
    from=$(sed -n 's/.* tag_send: .*\.\.\([0-9]*\)\.\.<rndv>.*/\1/p' "$tmp/old")
    name="older protocols, processes of a node: $processes; rendezvous"
    if [ "${from:-0}" -ge 32768 ] && [ "$from" -le 65536 ]; then
        ok "$name from about 64 KB"
    else
        not_ok "$name from about 64 KB" "${from:-never}" "$tmp/old"
    fi
done

UCX_TLS=mrail,self UCX_MRAIL_RETRY_COUNT=7 info "$tmp/invalid" -d -t mrail
expect 'an invalid param is named' "$tmp/invalid" 'ERROR.*RETRY_COUNT'
expect_none 'an invalid param leaves no transport' "$tmp/invalid" 'Transport: mrail$'

UCX_TLS=mrail,self UCX_MRAIL_DEVICES=nosuch info "$tmp/dev" -d -t mrail
expect 'an unknown device is named' "$tmp/dev" 'ERROR.*nosuch'
expect_none 'an unknown device leaves no transport' "$tmp/dev" \
    'Transport: mrail$'

UCX_TLS=mrail,self UCX_MRAIL_UPLINKS=4 UCX_MRAIL_SUBNET_BITS=31 \
    info "$tmp/no_index" -d -t mrail
expect_count 'addresses without a NIC index: one line gives the reason' \
    "$tmp/no_index" \
    'this node has no rail: soft0:1 \(port rules need a NIC index' 1

UCX_TLS=mrail,self UCX_NET_DEVICES=mlx5_0:1 info "$tmp/net" -d -t mrail
expect_count 'UCX_NET_DEVICES that excludes the device is reported once' \
    "$tmp/net" 'UCX_NET_DEVICES=mlx5_0:1 excludes its device' 1
UCX_TLS=mrail,self UCX_NET_DEVICES=lo,mrail:1 info "$tmp/net2" -d -t mrail
expect_none 'UCX_NET_DEVICES that names the device causes no message' "$tmp/net2" 'leaves its'
UCX_TLS=tcp,self UCX_NET_DEVICES=lo info "$tmp/net3" -d -t mrail
expect_none 'UCX_NET_DEVICES causes no message unless mrail is requested' \
    "$tmp/net3" 'leaves its'

# Without software rails, this test needs a machine that has no RDMA port at
# all.
if [ -d /sys/class/infiniband ] && [ -n "$(ls /sys/class/infiniband)" ]; then
    skip 'no rails' 'this machine has RDMA devices'
else
    UCX_TLS=mrail,self LD_PRELOAD="$shim" "$ucx_info" -d -t mrail \
        >"$tmp/none" 2>&1
    expect_count 'no rails: one line says so' "$tmp/none" \
        'names mrail, but this node has no rail: there is no RDMA device' 1
    expect_none 'no rails: no transport' "$tmp/none" 'Transport: mrail$'
    LD_PRELOAD="$shim" "$ucx_info" -d -t mrail >"$tmp/silent" 2>&1
    expect_none 'no rails: silent unless mrail is requested' \
        "$tmp/silent" 'mrail.*rail|ERROR'
fi
finish
