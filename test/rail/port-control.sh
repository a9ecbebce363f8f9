#!/bin/sh
# Checks the source ports that `mrail info` reports: as requested, as stored by
# the device, and as changed on a connected QP. Faulty devices must be reported
# in plain text.
set -u
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need_built mrail-soft mrail-info mrail-run

# info FAULT [OPTION]: saves mrail info's output for a device with this fault.
info()
{
    # shellcheck disable=SC2086 # at most one option
    MRAIL_TEST_LABELS=$1 UCX_MRAIL_UPLINKS=8 UCX_MRAIL_LANES_PER_RAIL=4 \
        "$soft" --session "$session" --rails 2 -- \
        sh -c "$before_device" "$build/.libs/libtest-label.so" \
        "$build/mrail-info" ${2-} >"$tmp/out" 2>"$tmp/err"
    status=$?
    [ $status = 0 ] && [ ! -s "$tmp/err" ] ||
        not_ok "mrail info, fault '$1'" "exit status $status: $(cat "$tmp/err")"
}

info none
expect 'a port is set by the flow label' "$tmp/out" \
    '^ *source ports [0-9]+ [0-9]+ [0-9]+ [0-9]+, set by flow label at connect$'
expect 'a connected QP changes its port in SQD' "$tmp/out" \
    '^ *a port changes in a connected QP, drained \(SQD\)$'
info none --json
expect 'the device uses the requested ports' "$tmp/out" \
    '"source_ports": (\[[0-9, ]+\]), "source_ports_got": \1, "driver": "software rails"'

info ignored
expect 'no port: the text reports it' "$tmp/out" \
    ', not set: the device ignores flow labels, and its ports are a hash$'
expect 'no port: the reported ports are 0' "$tmp/out" \
    '^ *the device uses 0 0 0 0 instead \(0 stands for a hash\)$'
info fixed
expect 'another port: the text names it' "$tmp/out" \
    '^ *the device uses (58181 ?){4} instead'
info no-sqd
expect 'without SQD, only a new lane changes the port' "$tmp/out" \
    '^ *a port changes only with a new lane$'
info unknown
expect 'an unknown driver: the text gives no guarantee' "$tmp/out" \
    'not known whether this driver complies'
info mlx5
expect "mlx5: the port is documented in the driver's source" "$tmp/out" \
    "set by flow label at connect \\(according to the driver's source"
expect 'mlx5: a call changes the port, and LAG has its own ports' "$tmp/out" \
    '^ *a port changes in a connected QP \(mlx5dv\); with RoCE LAG, .* physical port 2$'
info mlx5 --json
expect 'mlx5: the same as JSON' "$tmp/out" \
    '"driver": "mlx5_core", .*"in a connected QP \(mlx5dv\)", "lag_port": 2'
info mlx5-old
expect 'an old libmlx5: the port changes in SQD' "$tmp/out" \
    '^ *a port changes in a connected QP, drained \(SQD\)$'

# ---- Values that yield no ports ----

# with STATUS NAME PATTERN VARIABLE...: runs mrail info with these variables.
with()
{
    wanted=$1 name=$2 pattern=$3
    shift 3
    expect_run "$name" "$wanted" "$pattern" "$soft" --session "$session" \
        --rails 3 -- env "$@" "$build/mrail-info"
}

with 2 'no uplinks' 'UCX_MRAIL_UPLINKS=0: expected 1 to 256' UCX_MRAIL_UPLINKS=0
with 2 'more uplinks than ports' 'UCX_MRAIL_SPINE_UPLINKS=65: expected 1 to 64' \
    UCX_MRAIL_UPLINKS=256 UCX_MRAIL_SPINE_UPLINKS=65
with 2 'an index that is not a number' \
    'UCX_MRAIL_NIC_INDEX=1,b: expected -1, a number' UCX_MRAIL_NIC_INDEX=1,b
with 2 'an address without an index' \
    'soft0:1: port rules need a NIC index, which its address does not provide' \
    UCX_MRAIL_UPLINKS=4 UCX_MRAIL_SUBNET_BITS=31
with 2 'an index for another device only' \
    'soft0:1: UCX_MRAIL_NIC_INDEX has no number for this rail' \
    UCX_MRAIL_NIC_INDEX=soft9:1=3
with 2 'a device that does not exist' \
    "UCX_MRAIL_DEVICES: there is no port 'soft9'" UCX_MRAIL_DEVICES=soft9
with 2 'a GID index that does not exist' \
    'soft0:1: UCX_MRAIL_GID_INDEX is not the index of a routable RoCEv2 GID' \
    UCX_MRAIL_GID_INDEX=200
expect_run 'a job reports the reason if it has no rail' 0 \
    'no rail: soft0:1 \(port rules need a NIC index, .* will not use mrail' \
    "$soft" --session "$session" --rails 3 -- env UCX_MRAIL_UPLINKS=4 \
    UCX_MRAIL_SUBNET_BITS=31 "$build/mrail-run" -- true
with 0 'a different index for each rail' '^soft1:1 .* 6  -$' \
    UCX_MRAIL_UPLINKS=4 UCX_MRAIL_SUBNET_BITS=31 UCX_MRAIL_NIC_INDEX=1,6
with 0 'a rail without an index' \
    '^  soft2:1: UCX_MRAIL_NIC_INDEX has no number for this rail$' \
    UCX_MRAIL_NIC_INDEX=1,6
with 0 'an index by device name' '^soft1:1 .* 6  -$' \
    UCX_MRAIL_UPLINKS=4 UCX_MRAIL_NIC_INDEX=soft2=7,soft1=6,soft0=5
with 0 'more numbers than rails' \
    'UCX_MRAIL_NIC_INDEX has 4 numbers for 3 rails; if a port is down' \
    UCX_MRAIL_NIC_INDEX=1,6,7,8
finish
