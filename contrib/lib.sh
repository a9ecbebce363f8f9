# shellcheck shell=sh disable=SC2034
# Sourced by the scripts in contrib/. Provides locations, progress output, and
# functions that build the tree. POSIX sh. All files that a script creates are
# in build/.
#
# Callers run set -eu first. Sets: top, build, stage, jobs.

# mawk reads and writes numbers in the format of the locale. In many locales, it
# would read 0.5 as 0.
export LC_ALL=C

top=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
build=$top/build
stage=$build/stage
jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
prog=contrib/${0##*/}
started=$(date +%s)
load_at_start=$(cut -d ' ' -f 1 /proc/loadavg 2>/dev/null || echo 0)

# Open MPI refuses to run as root unless two variables allow it.
if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi

elapsed()
{
    echo $(($(date +%s) - started))
}

# Prints a line of progress with the seconds since the script started.
say()
{
    printf '[%4ds] %s\n' "$(elapsed)" "$*"
}

die()
{
    printf '%s: %s\n' "$prog" "$*" >&2
    exit 1
}

usage_error()
{
    printf '%s: %s\nTry: %s --help\n' "$prog" "$1" "$prog" >&2
    exit 2
}

# If the path of the tree contains any of these characters, configure and
# libtool fail with obscure messages.
need_plain_path()
{
    case $top in
    *[[:space:]\\\"\#\$\&\'\`]*)
        die "the path of this tree, '$top', contains a space or one of \\ \" # \$ &" \
            "' \` in it; autoconf and libtool cannot build there: move the tree"
        ;;
    esac
}

# Prints the processes that have the lock open as descriptor 8. Call it in a
# subshell, because it closes that descriptor. It prints neither the subshell
# nor the calling script.
tree_users()
{
    exec 8>&-
    for process in /proc/[0-9]*; do
        if [ "$(readlink "$process/fd/8" 2>/dev/null)" = "$build/.lock" ] &&
            [ "${process#/proc/}" != $$ ]; then
            printf ' %s' "${process#/proc/}"
        fi
    done
}

# Locks build/ until this script and all processes that it started have exited.
# Scripts that it started may use build/.
hold_tree()
{
    need_plain_path
    [ "${MRAIL_HOLDS_TREE-}" != "$build" ] || return 0
    mkdir -p "$build"
    exec 8>>"$build/.lock"
    if ! flock -n 8; then
        die "build/ is in use by $(cat "$build/.lock"), running as" \
            "process$(tree_users): let it end, or use another copy of the tree"
    fi
    printf '%s (process %s, since %s)\n' "$prog" $$ "$(date +%T)" \
        >"$build/.lock"
    export MRAIL_HOLDS_TREE="$build"
}

# quietly LOG WHAT COMMAND...: runs the command with its output in LOG. If the
# command fails, shows the end of the log.
quietly()
{
    quiet_log=$1
    quiet_what=$2
    shift 2
    say "$quiet_what"
    mkdir -p "$(dirname "$quiet_log")"
    if "$@" >"$quiet_log" 2>&1 </dev/null; then
        return 0
    fi
    printf '%s: %s failed; the end of %s:\n' "$prog" "$quiet_what" \
        "$quiet_log" >&2
    tail -n 30 "$quiet_log" >&2
    return 1
}

# Prints a note if other work will disturb the measurements. Uses the load that
# was read before this script started its own compilers.
note_load()
{
    echo "$load_at_start" | awk -v cpus="$jobs" '$1 > cpus / 2 {
        printf "note: load average %s on %d processors at the start: other " \
            "work disturbs these figures\n", $1, cpus
    }'
}

# configure_args: prints on one line the options that configure needs for this
# tree. If the line changes, configure must run again.
configure_args()
{
    printf '%s' "--prefix=$stage --enable-werror"
    if [ -d "$build/ucx-src/src/uct/api" ]; then
        printf ' %s' "--with-ucx-src=$build/ucx-src"
    fi
}

newer_frame()
{
    find "$top/configure.ac" "$top/Makefile.am" "$top/m4" "$top/src" \
        "$top/test" "$top/docs" "$top/contrib" \( -name 'configure.ac' -o -name '*.am' -o -name '*.m4' \
        -o -name '*.mk' \) -newer "$top/configure" 2>/dev/null | head -n 1
}

# wait_for_memory WORD...: must be called before a job with these options is
# measured. A job with stock UCX (--stock) frees more than a GB. A virtual
# machine returns that memory to its host 2 s later, and then stalls for 30 ms
# out of every 100 for half a second. The next job without stock UCX therefore
# waits. A job with stock UCX does not have to wait, because it allocates the memory
# again before the stall begins.
last_job=
wait_for_memory()
{
    case " $* " in
    *' --stock'*) last_job=stock ;;
    *)
        [ "$last_job" != stock ] || sleep 3
        last_job= ;;
    esac
}

# Optional packages that configure looks for: names of Debian packages and of
# pkg-config modules. contrib/setup installs some of them only for some tiers of
# tests.
probed_packages="libibverbs-dev libisal-dev libcjson-dev libhwloc-dev libcmocka-dev
libglpk-dev libmicrohttpd-dev libarchive-dev libucx-dev ucx-utils libopenmpi-dev openmpi-bin libpmix-dev
libfftw3-dev libfftw3-mpi-dev libclang-rt-dev"
probed_modules="libibverbs libisal libcjson hwloc libmicrohttpd libarchive cmocka ucx ompi-c pmix fftw3"

# Prints the state of the installed libraries, on which the results of configure
# depend.
configure_key()
{
    configure_args
    printf '\n'
    cat "$build/ucx-src/.version" 2>/dev/null || true
    # shellcheck disable=SC2086 # one word per package
    dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n' \
        $probed_packages 2>/dev/null | sort || true
    for module in $probed_modules; do
        echo "$module $(pkg-config --modversion "$module" 2>/dev/null)"
    done
    cksum <"$top/configure"
}

# Builds the tree into build/ and installs it into build/stage.
build_all()
{
    hold_tree
    mkdir -p "$build/log"
    if [ ! -x "$top/configure" ] || [ -n "$(newer_frame)" ]; then
        quietly "$build/log/autogen.log" "autogen" "$top/autogen.sh" ||
            return 1
    fi
    if [ ! -f "$build/Makefile" ] ||
        [ "$(configure_key)" != "$(cat "$build/.configured" 2>/dev/null)" ]
    then
        # shellcheck disable=SC2046 # words are wanted
        quietly "$build/log/configure.log" "configure" \
            env -C "$build" "$top/configure" $(configure_args) || return 1
        configure_key >"$build/.configured"
    fi
    quietly "$build/log/make.log" "make -j$jobs" \
        make -C "$build" -j"$jobs" || return 1
    quietly "$build/log/install.log" "make install into build/stage" \
        make -C "$build" install || return 1
    # GNU make continues after a failed install hook with a warning. The mrail
    # command proves that the staged tree is usable.
    if [ ! -x "$stage/bin/mrail" ]; then
        echo "$prog: build/stage/bin/mrail is missing after make install" >&2
        return 1
    fi
}
