# shellcheck shell=sh disable=SC2034
# Sourced by the scripts in this directory. Provides test/lib.sh, the results of
# configure, and checks of UCX's log.
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
# shellcheck disable=SC1091
. "$build/test/ucx/env.sh"
need_built mrail-soft

libs=$build/.libs
shim=$libs/libuct_mrail.so.0
ucx_info=$UCX_BINDIR/ucx_info
ucx_perftest=$UCX_BINDIR/ucx_perftest
unset UCX_TLS UCX_NET_DEVICES UCX_MRAIL_DEVICES UCX_LOG_LEVEL

# complaints LOG...: prints errors and warnings, except those of stock UCX on
# the same rails. UCX 1.22, for example, reports a kernel without netlink
# sockets for RDMA.
complaints()
{
    if [ ! -f "$tmp/stock-complaints" ]; then
        on_rails 1 2 0 "$ucx_info" -d 2>&1 |
            sed -n 's/.*UCX  *\(ERROR\|WARN\)  *//p' |
            sort -u >"$tmp/stock-complaints"
    fi
    grep -h 'ERROR\|WARN\|ssertion' "$@" |
        grep -vF -f "$tmp/stock-complaints"
}

# expect_quiet NAME LOG: checks that the log contains neither errors nor
# warnings.
expect_quiet()
{
    if complaints "$2" >"$tmp/complaints"; then
        not_ok "$1" 'UCX logged errors or warnings' "$tmp/complaints"
    else
        ok "$1"
    fi
}
