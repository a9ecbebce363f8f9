#!/bin/bash
# Runs stock UCX on one and on four devices, with rc_verbs and ud_verbs.
. "$(dirname "$0")/soft_lib.sh"
need ucx_perftest ucx_info

export UCX_WARN_UNUSED_ENV_VARS=n UCX_LOG_LEVEL=error
soft ucx_info -d | grep -q 'Transport: rc_verbs' || skip_all "this UCX has no ib"

# A ucx_perftest that was built with MPI (Debian 13) would run as a job of one
# rank.
no_mpi=
ucx_perftest -h 2>/dev/null </dev/null | grep -q '^ *-P <0|1>' && no_mpi=yes
export OMPI_MCA_pml=ob1

ucx_pair() {
    soft ucx_perftest ${no_mpi:+-P 0} -p $p "$@" >"$tmp/server" 2>&1 &
    server=$!
    await_listener
    soft ucx_perftest ${no_mpi:+-P 0} -p $p 127.0.0.1 "$@" \
        >"$tmp/client" 2>&1 ||
        { fail "$UCX_TLS $UCX_NET_DEVICES $*"; show "$tmp/client"; }
    wait $server || fail "$UCX_TLS $*: server"
    report "$UCX_TLS, $UCX_NET_DEVICES: $*"
}

one=soft0:1 four=soft0:1,soft1:1,soft2:1,soft3:1
for tls in rc_v,self ud_v,self; do
    export UCX_TLS=$tls UCX_NET_DEVICES=$one
    ucx_pair -t tag_lat -s 8 -n 500
    ucx_pair -t tag_bw -s 65536 -n 200
done
export UCX_TLS=rc_v,self UCX_NET_DEVICES=$four
ucx_pair -t tag_bw -s 4194304 -n 10
ucx_pair -t ucp_get -s 100000 -n 50
ucx_pair -t ucp_put_bw -s 100000 -n 50
finish
