# shellcheck shell=sh disable=SC2034
# Sourced by the scripts in this directory. Adds MPI jobs on software rails to
# test/lib.sh.
#
# MRAIL                 the command (default: build/stage/bin/mrail)
# MRAIL_BUILD           directory of the programs (default: build)
# MRAIL_LIBEXECDIR      directory of the commands, and MRAIL_MANDIR, of their
#                       manual pages (default: those in build/stage)
# MRAIL_TEST_RUN        further options for mrail run, for example --stock
# MRAIL_TEST_MPIRUN     options for plain mpirun, which then replaces mrail run,
#                       for example "--mca pml ob1" to test the programs themselves

# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
mrail=${MRAIL:-$build/stage/bin/mrail}
libexec=${MRAIL_LIBEXECDIR:-$build/stage/libexec/mrail}
man=${MRAIL_MANDIR:-$build/stage/share/man}
topology=${MRAIL_TEST_SOFT:-2x4}
# With no limit on planning time, the tests can plan demands so small that a
# plan costs more time than it saves.
export OMPI_MCA_coll_mrail_plan_budget=${OMPI_MCA_coll_mrail_plan_budget-0}
[ -x "$mrail" ] || bail_out "no $mrail: run make install first"

# launch NP [OPTION...] -- COMMAND...: launches COMMAND on NP ranks. With
# become=exec in a subshell, the subshell itself becomes the launcher.
launch()
{
    np=$1
    shift
    if [ -n "${MRAIL_TEST_MPIRUN-}" ]; then
        while [ "$1" != -- ]; do shift; done
        shift
        # shellcheck disable=SC2086 # word splitting is intended
        ${become-} mpirun $MRAIL_TEST_MPIRUN --oversubscribe -np "$np" "$@"
    else
        # shellcheck disable=SC2086 # word splitting is intended
        ${become-} "$mrail" run -np "$np" --soft "$topology" \
            --session "$session" ${MRAIL_TEST_RUN-} "$@"
    fi
}

# require_env PROGRAM...: checks for the MPI programs that the script needs. If
# configure did not find the libraries of a program, the environment counts as
# absent. Any other missing program is an error.
require_env()
{
    if [ -z "${MRAIL_TEST_MPIRUN-}" ] && [ ! -x "$libexec/mrail-soft" ]; then
        bail_out "no mrail-soft in $libexec"
    fi
    have=$(sed -n "s/^HAVE_MPICC='\(.*\)'/\1/p" "$build/test/ucx/env.sh")
    [ $# = 0 ] || [ "$have" = yes ] ||
        skip_all 'configure found no Open MPI to build with'
    for program in "$@"; do
        [ -x "$build/$program" ] || case $program in
        mpi_fft) skip_all 'configure found no FFTW-MPI' ;;
        *) bail_out "$program is not built in $build" ;;
        esac
    done
}

# run NAME NP PROGRAM [ARGUMENT...]: runs a program that prints its own results.
# If the program fails, prints its stderr afterwards.
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
    results "$tmp/out"
    if [ $status != 0 ]; then
        not_ok "$name" "exit status $status" "$tmp/err"
    elif [ -s "$tmp/err" ]; then
        not_ok "$name" "unexpected lines on stderr" "$tmp/err"
    elif ! has_results "$tmp/out"; then
        not_ok "$name" "the program printed no result"
    else
        carried_by_mrail "$name" "$np"
    fi
}

# run_on NAME TOPOLOGY NP RUN-OPTIONS [ARGUMENT...]: runs $test_program on software
# rails of this topology, with further options for mrail run.
run_options=${MRAIL_TEST_RUN-}
run_on()
{
    topology=$2
    MRAIL_TEST_RUN="$run_options $4"
    run_name=$1 run_np=$3
    shift 4
    run "$run_name" "$run_np" "$test_program" "$@"
    MRAIL_TEST_RUN=$run_options
}

# carried_by_mrail: Open MPI silently falls back to its own transports. Checks
# that every rank of the last `run` has written the transport's counters.
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
        not_ok "$1: mrail carried all ranks" "$count of $2 ranks wrote counters"
    fi
}

# Prints the names in /dev/shm that belong to this user. It leaves out software
# rails of other sessions and telemetry pages of other jobs, which come and go
# while other tests run.
shm_names()
{
    find /dev/shm -maxdepth 1 -user "$(id -u)" ! -name 'mrail-t*' \
        \( -name "*$session*" -o ! -name 'mrail-soft.*' \) | sort
}
shm_names >"$tmp/shm.before"

# Prints the files that exist now, did not exist when the script began, and are
# mapped by no live process. Files of another running job do not count.
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

none_left()
{
    left=$(shm_left)
    [ -z "$left" ]
}

# nothing_left NAME: checks that the files of this script's jobs disappear from
# /dev/shm within three seconds.
nothing_left()
{
    if await 3 none_left; then
        ok "$1: no shared memory is left"
    else
        not_ok "$1: no shared memory is left" "$left"
    fi
}

# seconds_since START: prints the seconds since START (from date +%s).
seconds_since()
{
    echo $(($(date +%s) - $1))
}

# await_under_way [FILE [PATTERN]]: waits until FILE has the line that the job
# prints when it starts to work. Without that line the test fails.
await_under_way()
{
    await 60 grep -q "${2-under way}" "${1-$tmp/out}" || {
        excerpt "${1-$tmp/out}"
        bail_out 'the job is not under way after 60 s'
    }
}
