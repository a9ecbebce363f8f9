# shellcheck shell=sh disable=SC2034
# Sourced by every shell test. Writes results in TAP (testanything.org), which
# automake's driver counts, and provides functions that many tests need. POSIX
# sh, which also runs inside the virtual machine.
#
#   ok NAME                   a check holds
#   not_ok NAME WHY [LOG]     a check does not hold; the end of LOG follows
#   skip NAME WHY             a tool or an environment is absent; WHY names it
#   skip_all WHY              like skip, but for the whole script
#   bail_out WHY              the set-up fails, which counts as a failure
#   finish                    prints the plan; the exit status is that of the test
#
# The caller may first set top (the source tree) and build (the build tree). The
# following are also set: tmp (a directory for this script alone), session (a
# name for software rails), soft (mrail-soft of the build tree), and failed.

set -u
export LC_ALL=C # sets the number format of awk
top=${top:-$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)}
if [ -z "${build-}" ]; then
    build=$top/build
    [ ! -f config.status ] || build=$PWD
    build=${MRAIL_BUILD:-$build}
fi
soft=$build/mrail-soft
session=$(basename -- "$0" .sh)
session=t$$-$(printf '%.20s' "$session")
failed=0
tap_count=0

# Open MPI refuses to run as root unless two variables permit it.
if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

# ---- results ----

ok()
{
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1"
}

not_ok()
{
    tap_count=$((tap_count + 1))
    failed=1
    echo "not ok $tap_count - $1: $2"
    [ $# -lt 3 ] || excerpt "$3"
}

skip()
{
    tap_count=$((tap_count + 1))
    echo "ok $tap_count - $1 # SKIP $2"
}

skip_all()
{
    if [ "$tap_count" = 0 ]; then
        echo "1..0 # SKIP $1"
        exit 0
    fi
    skip 'all that follows' "$1"
    finish
}

bail_out()
{
    echo "Bail out! $1"
    exit 1
}

# A script without any result tests nothing, so it must not pass.
finish()
{
    [ "$tap_count" -gt 0 ] || bail_out 'no check has a result'
    echo "1..$tap_count"
    exit "$failed"
}

# excerpt FILE: prints the last lines of FILE as a diagnostic.
excerpt()
{
    tail -n 40 "$1" 2>/dev/null | sed 's/^/#   | /'
}

# results FILE [PREFIX]: repeats the result lines of a program as results of
# this script, with PREFIX before their names. Other lines become diagnostics.
results()
{
    while IFS= read -r tap_line; do
        case $tap_line in
        'ok '*) tap_result "${tap_line#ok }" "${2-}" '' ;;
        'not ok '*) tap_result "${tap_line#not ok }" "${2-}" 'not ' ;;
        'Bail out!'*) bail_out "${tap_line#Bail out! }" ;;
        1..[0-9]*) ;;
        '#'* | '') printf '%s\n' "$tap_line" ;;
        *) printf '# %s\n' "$tap_line" ;;
        esac
    done <"$1"
}

# tap_result TEXT PREFIX NOT: replaces the program's number in TEXT.
tap_result()
{
    tap_name=${1#"${1%%[!0-9]*}"}
    tap_name=${tap_name# }
    tap_count=$((tap_count + 1))
    [ -z "$3" ] || failed=1
    echo "${3}ok $tap_count - $2${tap_name#- }"
}

# has_results FILE: succeeds if a program wrote at least one line "ok".
has_results()
{
    grep -q '^ok ' "$1"
}

# run_program PREFIX COMMAND...: runs a program that writes result lines and
# must succeed.
run_program()
{
    tap_prefix=$1
    shift
    tap_status=0
    "$@" >"$tmp/out" 2>&1 </dev/null || tap_status=$?
    results "$tmp/out" "$tap_prefix"
    if [ $tap_status != 0 ]; then
        not_ok "${tap_prefix}the program succeeds" "exit status $tap_status"
    elif ! has_results "$tmp/out"; then
        not_ok "${tap_prefix}the program succeeds" 'the program wrote no result'
    fi
}

# ---- checks ----

# succeeded NAME: reports the exit status of the previous command. With "set
# -e", that command must be a list that ends with "&& true". The log is
# $tmp/out.
succeeded()
{
    tap_status=$?
    if [ $tap_status = 0 ]; then
        ok "$1"
    else
        not_ok "$1" "exit status $tap_status" "$tmp/out"
    fi
}

# check NAME COMMAND...: the command must succeed. Its output is in $tmp/out.
check()
{
    tap_name=$1
    shift
    tap_status=0
    "$@" >"$tmp/out" 2>&1 </dev/null || tap_status=$?
    if [ $tap_status = 0 ]; then
        ok "$tap_name"
    else
        not_ok "$tap_name" "exit status $tap_status of: $*" "$tmp/out"
    fi
}

# is NAME WANTED GOT: GOT must equal WANTED.
is()
{
    if [ "$2" = "$3" ]; then
        ok "$1"
    else
        not_ok "$1" "wanted '$2', got '$3'"
    fi
}

# expect NAME LOG PATTERN: LOG must have a line that matches (extended
# expression).
expect()
{
    if grep -qE -e "$3" "$2"; then
        ok "$1"
    else
        not_ok "$1" "no line with '$3'" "$2"
    fi
}

# expect_none NAME LOG PATTERN: no line of LOG, which must exist, may match.
expect_none()
{
    if ! [ -f "$2" ]; then
        not_ok "$1" "there is no file $2"
    elif grep -qE -e "$3" "$2"; then
        not_ok "$1" "there is '$3'" "$2"
    else
        ok "$1"
    fi
}

# expect_count NAME LOG PATTERN N: exactly N lines must match.
expect_count()
{
    tap_lines=$(grep -cE -e "$3" "$2" || true)
    if [ "$tap_lines" = "$4" ]; then
        ok "$1"
    else
        not_ok "$1" "$tap_lines lines with '$3', not $4" "$2"
    fi
}

# expect_run NAME STATUS PATTERN COMMAND...: checks the exit status. If PATTERN
# is not empty, a line of the output (in $tmp/out) must match it. STATUS
# "failure" stands for any status except 0 and those of a timeout.
expect_run()
{
    tap_name=$1 tap_want=$2 tap_pattern=$3
    shift 3
    tap_status=0
    "$@" >"$tmp/out" 2>&1 </dev/null || tap_status=$?
    case $tap_want$tap_status in
    failure0 | failure124 | failure137) ;;
    failure*) tap_want=$tap_status ;;
    esac
    if [ "$tap_status" != "$tap_want" ]; then
        not_ok "$tap_name" "exit status $tap_status, not $tap_want" "$tmp/out"
    elif [ -n "$tap_pattern" ] && ! grep -qE -e "$tap_pattern" "$tmp/out"; then
        not_ok "$tap_name" "no line with '$tap_pattern'" "$tmp/out"
    else
        ok "$tap_name"
    fi
}

# ---- set-up and waiting ----

# need TOOL...: skips the script if one of these programs, which are not part of
# this tree, is missing.
need()
{
    for tap_tool in "$@"; do
        command -v "$tap_tool" >/dev/null 2>&1 ||
            skip_all "$tap_tool is not installed"
    done
}

# need_built PROGRAM...: bails out if one of these programs, which every build of
# this tree makes, is missing.
need_built()
{
    for tap_tool in "$@"; do
        [ -x "$build/$tap_tool" ] ||
            bail_out "$tap_tool is not built in $build"
    done
}

# await SECONDS COMMAND...: waits until the command succeeds. Fails if the time
# limit is exceeded.
await()
{
    tap_tries=$(($1 * 20))
    shift
    while ! "$@"; do
        [ "$tap_tries" -gt 0 ] || return 1
        tap_tries=$((tap_tries - 1))
        sleep 0.05
    done
}

# free_port [FROM]: prints a TCP port, FROM or above, that no socket in this
# network namespace uses. The default depends on the process. It is below the
# ports that the kernel assigns to connecting sockets.
free_port()
{
    port_=${1:-$((10000 + $$ % 20000))}
    while grep -qi "^ *[0-9]*: [0-9a-f]*:$(printf '%04X' "$port_") " \
        /proc/net/tcp /proc/net/tcp6 2>/dev/null; do
        port_=$((port_ + 1))
    done
    echo "$port_"
}

# listens PORT: succeeds if a process in this network namespace listens on the
# TCP port.
listens()
{
    grep -qE "^ *[0-9]+: [0-9A-F]+:$(printf '%04X' "$1") [0-9A-F]+:0000 0A" \
        /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

# processes WORD: prints the ids of processes with WORD in an argument. A single
# grep reads all command lines, because a busy machine starts only a few
# programs per second.
processes()
{
    # The glob matches file names; grep reads its pattern from stdin.
    # shellcheck disable=SC2062
    printf '%s\n' "$1" | grep -laFf - /proc/[0-9]*/cmdline 2>/dev/null |
        sed 's|/proc/\([0-9]*\)/.*|\1|' | grep -vx $$ || true
}

# json_sum NAME [FILE...]: prints the sum of all members with that name. Reads
# stdin by default.
json_sum()
{
    tap_name=$1
    shift
    cat "$@" | grep -o "\"$tap_name\": [0-9]*" |
        awk '{ n += $2 } END { printf "%.0f\n", n }'
}

# ---- software rails ----

# on_rails NODES RAILS NODE COMMAND...: runs the command on software rails,
# with a time limit.
on_rails()
{
    tap_nodes=$1 tap_rails=$2 tap_node=$3
    shift 3
    timeout 60 "$soft" --session "$session" --nodes "$tap_nodes" \
        --rails "$tap_rails" --node "$tap_node" -- "$@"
}

# For sh -c: runs a command with a library preloaded before or after the
# software device.
# shellcheck disable=SC2016 # expanded by the inner shell
before_device='LD_PRELOAD=$0:$LD_PRELOAD exec "$@"'
# shellcheck disable=SC2016
behind_device='LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$0 exec "$@"'

# ---- cleanup ----

# Kills the processes that this script started, and removes its directories.
tap_cleanup()
{
    jobs -p >"$tmp/jobs" 2>/dev/null
    while read -r tap_job; do
        kill "$tap_job" 2>/dev/null || true
    done <"$tmp/jobs"
    rm -rf "$tmp" "$tap_pages"
}

tap_pages=
tmp=$(mktemp -d) || bail_out 'cannot create a temporary directory'
trap tap_cleanup EXIT
trap 'exit 143' HUP INT TERM
# Holds only the telemetry pages of this script's jobs. They are in memory, as
# by default.
tap_pages=$(mktemp -d /dev/shm/mrail-test.XXXXXX) ||
    bail_out 'cannot create a directory in /dev/shm'
export UCX_MRAIL_TELEMETRY_DIR="$tap_pages"
