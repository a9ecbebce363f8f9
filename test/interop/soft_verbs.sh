#!/bin/bash
# rdma-core's own programs run unmodified: four devices, RC, UD, SRQ, polled
# and by completion channel, with and without ICRC.
. "$(dirname "$0")/soft_lib.sh"
need ibv_devinfo ibv_rc_pingpong ibv_ud_pingpong ibv_srq_pingpong

n=$(soft ibv_devinfo | grep -c 'hca_id:.soft[0-3]$')
[ "$n" = 4 ] || fail "ibv_devinfo shows $n devices, not 4"
soft ibv_devinfo -v -d soft3 | grep -q 'RoCE v2' || fail "no RoCE v2 GID"
for icrc in off on; do
    SESSION=t$$-$icrc
    SOFT_OPTIONS="--icrc $icrc"
    pair ibv_rc_pingpong -p $p -d soft0 -g 0 -c
    pair ibv_rc_pingpong -p $p -d soft1 -g 0 -e -n 200 -s 100000
    pair ibv_rc_pingpong -p $p -d soft1 -g 0 -m 256 -n 100
    pair ibv_ud_pingpong -p $p -d soft2 -g 0
    pair ibv_ud_pingpong -p $p -d soft2 -g 0 -e -n 200
    pair ibv_srq_pingpong -p $p -d soft3 -g 0
    pair ibv_srq_pingpong -p $p -d soft3 -g 0 -e -n 200
    gone
done
finish
