# shellcheck shell=sh disable=SC2034
# Sourced by the scripts here.  Each runs MPI programs on software rails and
# prints "ok - NAME", "not ok - NAME: WHY" or "skip - NAME: WHY" lines.
#
# MRAIL                 the front door (default: build/stage/bin/mrail)
# MRAIL_BUILD           where the programs are (default: build)
# MRAIL_LIBEXECDIR      where the verbs are, and MRAIL_MANDIR, where their manual
#                       pages are (default: those of build/stage)
# MRAIL_TEST_RUN        more options for mrail run, for example --stock
# MRAIL_TEST_MPIRUN     instead: options for plain mpirun, for example
#                       "--mca pml ob1", to try the programs themselves

export LC_ALL=C # awk's numbers
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
build=${MRAIL_BUILD:-$here/../../build}
mrail=${MRAIL:-$build/stage/bin/mrail}
libexec=${MRAIL_LIBEXECDIR:-$build/stage/libexec/mrail}
man=${MRAIL_MANDIR:-$build/stage/share/man}
topology=${MRAIL_TEST_SOFT:-2x4}
session=mpitest-$$
failed=0

if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# launch NP [option...] -- COMMAND...; with become=exec in a subshell, the
# subshell becomes the launcher.
launch()
{
    np=$1
    shift
    if [ -n "${MRAIL_TEST_MPIRUN-}" ]; then
        while [ "$1" != -- ]; do shift; done
        shift
        # shellcheck disable=SC2086 # words are wanted
        ${become-} mpirun $MRAIL_TEST_MPIRUN --oversubscribe -np "$np" "$@"
    else
        # shellcheck disable=SC2086 # words are wanted
        ${become-} "$mrail" run -np "$np" --soft "$topology" \
            --session "$session" ${MRAIL_TEST_RUN-} "$@"
    fi
}

ok()
{
    echo "ok - $1"
}

not_ok()
{
    echo "not ok - $1: $2"
    failed=1
}

# The whole script is skipped if a ground or a program is absent.
require_env()
{
    if [ -z "${MRAIL_TEST_MPIRUN-}" ] &&
        [ ! -x "$libexec/mrail-soft" ]; then
        echo "software rails are not built (no mrail-soft in $libexec)"
        exit 77
    fi
    for program in "$@"; do
        if [ ! -x "$build/$program" ]; then
            echo "$program is not built (is Open MPI's, or FFTW-MPI's," \
                "development package installed?)"
            exit 77
        fi
    done
}

# run NAME NP PROGRAM [argument...]: the program prints its own results; what
# it says on stderr follows if it failed.
run()
{
    name=$1
    np=$2
    shift 2
    status=0
    rm -rf "$tmp/stats"
    mkdir "$tmp/stats"
    UCX_MRAIL_STATS_FILE=$tmp/stats/%p \
        launch "$np" -- "$@" >"$tmp/out" 2>"$tmp/err" || status=$?
    grep -E '^(not )?ok - ' "$tmp/out" || true
    if [ $status != 0 ]; then
        grep -vE '^(not )?ok - ' "$tmp/out" | head -n 20
        head -n 40 "$tmp/err"
        not_ok "$name" "exit status $status"
    elif [ -s "$tmp/err" ]; then
        head -n 40 "$tmp/err"
        not_ok "$name" "unexpected lines on stderr"
    elif ! grep -q '^ok - ' "$tmp/out"; then
        not_ok "$name" "it printed no result"
    else
        carried_by_mrail "$name" "$np"
    fi
}

# Open MPI falls back to its own transports in silence: so every rank of the
# last `run` must have left the transport's counters.
carried_by_mrail()
{
    case "${MRAIL_TEST_MPIRUN-} ${MRAIL_TEST_RUN-}" in
    " " | *--bind-rails*) ;;
    *) return 0 ;;
    esac
    count=$(grep -l '"counters"' "$tmp/stats"/* 2>/dev/null | wc -l)
    if [ "$count" = "$2" ]; then
        ok "$1: mrail carried all ranks"
    else
        not_ok "$1: mrail carried all ranks" "$count of $2 left its counters"
    fi
}

# Names in /dev/shm that are this user's, except other sessions' of software
# rails: those come and go while other tests run.
# Telemetry is there to be read when a rank was killed; top.sh looks at it.
shm_names()
{
    find /dev/shm -maxdepth 1 -user "$(id -u)" ! -name "mrail-telemetry.*" \
        \( -name "*$session*" -o ! -name 'mrail-soft.*' \) | sort
}
shm_names >"$tmp/shm.before"

# Files that exist now, did not exist when the script began, and are mapped by no
# live process: those of another running job do not count.
shm_left()
{
    shm_names | comm -13 "$tmp/shm.before" - >"$tmp/shm.new"
    [ -s "$tmp/shm.new" ] || return 0
    cat /proc/[0-9]*/maps 2>/dev/null | grep -o '/dev/shm/[^ ]*$' |
        sort -u >"$tmp/shm.mapped" || true
    awk -v session="$session" '
        FILENAME == ARGV[1] { mapped[$0]; next }
        index($0, session) || !($0 in mapped)
    ' "$tmp/shm.mapped" "$tmp/shm.new" | paste -sd ' '
}

# nothing_left NAME: of this script's jobs nothing is in /dev/shm, at the
# latest three seconds from now.
nothing_left()
{
    for try in 1 2 3 4 5 6; do
        left=$(shm_left)
        [ -n "$left" ] || break
        sleep 0.5
    done
    if [ -z "$left" ]; then
        ok "$1: no shared memory is left"
    else
        not_ok "$1: no shared memory is left" "$left"
    fi
}

# processes TOKEN: ids of processes whose command line has TOKEN.
processes()
{
    for dir in /proc/[0-9]*; do
        tr '\0' ' ' 2>/dev/null <"$dir/cmdline" | grep -qF -- "$1" &&
            [ "${dir#/proc/}" != $$ ] && echo "${dir#/proc/}"
    done 2>/dev/null
    return 0
}

# seconds_since START
seconds_since()
{
    echo $(($(date +%s) - $1))
}

# Waits until mpi_exchange has said in $tmp/out that it is under way.
await_under_way()
{
    tries=0
    while ! grep -q 'under way' "$tmp/out" && [ $tries -lt 300 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
}
