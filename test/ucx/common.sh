# Read by the scripts of this folder: where things are, how to run a command
# on software rails, how to report.
# shellcheck shell=sh
set -u
# shellcheck disable=SC1091
. ./test/ucx/env.sh

libs=$abs_top_builddir/.libs
guard=$libs/libuct_mrail.so.0
ucx_info=$UCX_BINDIR/ucx_info
ucx_perftest=$UCX_BINDIR/ucx_perftest
session=test-ucx-$$
tmp=$(mktemp -d)
failed=0
trap 'rm -rf "$tmp"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset UCX_TLS UCX_NET_DEVICES UCX_MRAIL_DEVICES UCX_LOG_LEVEL

ok()
{
    echo "ok - $1"
}

# not_ok NAME WHY [LOG]
not_ok()
{
    echo "not ok - $1: $2"
    failed=1
    if [ $# -gt 2 ]; then
        sed 's/^/    | /' "$3" | tail -n 40
    fi
}

# on_rails NODES RAILS NODE CMD...: CMD on software rails, limited in time.
on_rails()
{
    nodes=$1 rails=$2 node=$3
    shift 3
    timeout 60 "$abs_top_builddir/mrail-soft" --session "$session" \
        --nodes "$nodes" --rails "$rails" --node "$node" -- "$@"
}

# with_transport CMD...: CMD with the transport preloaded; the software
# device, if there is one, stays in front.
with_transport()
{
    # shellcheck disable=SC2016
    sh -c 'LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$0 exec "$@"' "$guard" "$@"
}

# expect NAME LOG PATTERN: LOG has a line with PATTERN (basic expression).
expect()
{
    if grep -q -e "$3" "$2"; then
        ok "$1"
    else
        not_ok "$1" "no line with '$3'" "$2"
    fi
}

# expect_none NAME LOG PATTERN
expect_none()
{
    if grep -q -e "$3" "$2"; then
        not_ok "$1" "there is '$3'" "$2"
    else
        ok "$1"
    fi
}

# complaints LOG...: errors and warnings, except those of stock UCX on the same
# rails.  UCX 1.22, for one, reports a kernel without netlink sockets for RDMA.
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

# expect_quiet NAME LOG
expect_quiet()
{
    if complaints "$2" >"$tmp/complaints"; then
        not_ok "$1" 'UCX complains' "$tmp/complaints"
    else
        ok "$1"
    fi
}

# expect_count NAME LOG PATTERN N: exactly N lines.
expect_count()
{
    n=$(grep -c -e "$3" "$2")
    if [ "$n" = "$4" ]; then
        ok "$1"
    else
        not_ok "$1" "$n lines with '$3', not $4" "$2"
    fi
}
