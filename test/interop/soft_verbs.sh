#!/bin/bash
# Runs the programs of rdma-core unmodified, on four devices: RC, UD and SRQ,
# with polling and with completion channels, with and without ICRC. Word
# splitting is intended, and soft_lib.sh uses some of the variables.
# shellcheck disable=SC2034,SC2086
# shellcheck source=test/interop/soft_lib.sh
. "$(dirname "$0")/soft_lib.sh"
need ibv_devinfo ibv_rc_pingpong ibv_ud_pingpong ibv_srq_pingpong \
    ibv_devices ibv_asyncwatch ibv_uc_pingpong ibv_xsrq_pingpong

# refused PROGRAM...: the program must print an error and exit.
refused() {
    soft "$@" >"$tmp/out" 2>&1
    status=$?
    # 255 is exit(-1); a signal gives 128 or more, and a timeout 124.
    if [ $status = 0 ] || { [ $status -ge 124 ] && [ $status != 255 ]; } ||
        [ ! -s "$tmp/out" ]; then
        fail "$*: exit status $status"
        show "$tmp/out"
    fi
}

n=$(soft ibv_devinfo | grep -c 'hca_id:.soft[0-3]$')
[ "$n" = 4 ] || fail "ibv_devinfo shows $n devices, not 4"
soft ibv_devinfo -v -d soft3 | grep -q 'RoCE v2' || fail "no RoCE v2 GID"
soft ibv_devinfo -v -d soft3 >"$tmp/info"
for line in 'state: *PORT_ACTIVE' 'link_layer: *Ethernet' 'max_qp: *[1-9]' \
    'atomic_cap: *ATOMIC_HCA' 'max_mtu: *4096' 'phys_port_cnt: *1$' \
    'GID\[ *0\]: *::ffff:127' 'SRQ_RESIZE' 'PORT_ACTIVE_EVENT'; do
    tr -s '\t' ' ' <"$tmp/info" | grep -q "$line" ||
        fail "ibv_devinfo -v has no '$line'"
done
refused ibv_devinfo -d soft9
refused ibv_devinfo -d soft0 -i 2
report ibv_devinfo
n=$(soft ibv_devices | grep -cE '^ *soft[0-3][[:space:]]+02[0-9a-f]{14}$')
[ "$n" = 4 ] || fail "ibv_devices shows $n devices, not 4"
report ibv_devices

# These features are missing from the device.
refused ibv_uc_pingpong -d soft0 -g 0
report "ibv_uc_pingpong is rejected"
refused ibv_xsrq_pingpong -d soft0 -g 0
report "ibv_xsrq_pingpong is rejected"

# The program must print port events and nothing else until it is killed.
hold
timeout 40 $soft --session $session -- stdbuf -o0 ibv_asyncwatch -d soft1 \
    >"$tmp/watch" 2>&1 &
watch=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do
    grep -q 'async event FD' "$tmp/watch" && break
    sleep 0.1
done
for state in down up; do
    $soft ctl --session $session --rail 1 $state
    sleep 0.2
done
kill $watch
wait $watch 2>/dev/null
grep -q 'event_type.*(10), port 1$' "$tmp/watch" || fail "no port error"
grep -q 'event_type.*(9), port 1$' "$tmp/watch" || fail "no port active"
[ "$(grep -c event_type "$tmp/watch")" = 2 ] || fail "other events"
[ $unmet = 0 ] || show "$tmp/watch"
release
gone
report ibv_asyncwatch
for icrc in off on; do
    session=t$$-$icrc
    SOFT_OPTIONS="--icrc $icrc"
    pair ibv_rc_pingpong -p $p -d soft0 -g 0 -c
    pair ibv_rc_pingpong -p $p -d soft1 -g 0 -e -n 200 -s 100000
    pair ibv_rc_pingpong -p $p -d soft1 -g 0 -m 256 -n 100
    pair ibv_ud_pingpong -p $p -d soft2 -g 0
    pair ibv_ud_pingpong -p $p -d soft2 -g 0 -e -n 200
    pair ibv_srq_pingpong -p $p -d soft3 -g 0
    pair ibv_srq_pingpong -p $p -d soft3 -g 0 -e -n 200
    gone
    report "pingpong of RC, UD and SRQ, ICRC $icrc"
done
finish
