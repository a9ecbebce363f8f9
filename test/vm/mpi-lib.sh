# shellcheck shell=sh disable=SC2034
# Sourced after lib.sh by the checks that run MPI jobs.

: "${stage:?}" "${log:?}" "${vm:?}"
mrail=$stage/bin/mrail
# Ranks share two emulated processors, so they yield while they wait for each
# other.
export OMPI_MCA_mpi_yield_when_idle=1
# mpirun communicates with its ranks over an interface that stays up.
export OMPI_MCA_oob_tcp_if_include=lo

# job NAME SECONDS NP [RUN OPTION...] -- PROGRAM [ARG...]: runs an MPI job on
# the transport, on two nodes. Logs are in $log/NAME.{out,err}, and counters in
# $log/NAME.stats. The exit status is that of mpirun.
job()
{
    name=$1 seconds=$2 np=$3
    shift 3
    options=
    while [ "$1" != -- ]; do
        options="$options $1"
        shift
    done
    shift
    note "$name"
    rm -rf "$log/$name.stats"
    mkdir "$log/$name.stats"
    # shellcheck disable=SC2086 # word splitting is intended
    STATS=$log/$name.stats timeout -k 5 "$seconds" "$mrail" run -np "$np" \
        -x UCX_TLS=mrail,self -x UCX_MRAIL_UPLINKS=4 -x STATS \
        --oversubscribe $options -- "$vm/rank.sh" "$@" >"$log/$name.out" 2>"$log/$name.err"
}

# checked_job: like job, but for programs that print their own results. Also
# checks that stderr is empty and that the transport carried all ranks.
checked_job()
{
    status=0
    job "$@" || status=$?
    results "$log/$1.out"
    count=$(cat "$log/$1.stats"/*.json 2>/dev/null | grep -c '"counters"')
    if [ $status != 0 ]; then
        not_ok "$1" "exit status $status: $(last "$log/$1.err")"
    elif [ -s "$log/$1.err" ]; then
        not_ok "$1" "on stderr: $(last "$log/$1.err")"
    elif [ "$count" != "$3" ]; then
        not_ok "$1" "$count of $3 ranks left mrail's counters"
    else
        ok "$1: mrail carried all ranks"
    fi
}
