#!/bin/sh
# Runs jobs on software rails under a real Slurm: a controller and two node
# daemons, all on this machine, for this test alone. contrib/check --full runs this
# test. It needs neither root nor a running Slurm.
set -u
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"

PATH=$PATH:/usr/sbin:/sbin
need slurmctld slurmd srun scancel munged
mrail=$build/stage/bin/mrail
[ -x "$mrail" ] || bail_out "$mrail is not installed"
# If this test runs inside a Slurm job, that job must not be visible to the
# test's own Slurm.
for name in $(env | grep -oE '^SLURM_[A-Z_0-9]+'); do
    unset "$name"
done

# ---- the cluster ----

export SLURM_CONF="$tmp/slurm.conf"
me=$(id -un)
controller=$(free_port)
first=$(free_port $((controller + 1)))
second=$(free_port $((first + 1)))

write_conf()
{
    cat <<END
ClusterName=mrail
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=$controller
SlurmUser=$me
SlurmdUser=$me
AuthType=auth/munge
AuthInfo=socket=$tmp/munge.socket
CredType=cred/munge
StateSaveLocation=$tmp/state
SlurmdSpoolDir=$tmp/%n
TmpFS=$tmp/%n/tmp
SlurmctldPidFile=$tmp/slurmctld.pid
SlurmdPidFile=$tmp/%n.pid
SlurmctldLogFile=$tmp/slurmctld.log
SlurmdLogFile=$tmp/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
KillWait=2
MpiDefault=none
SlurmdParameters=config_overrides
NodeName=node0 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$first CPUs=8
NodeName=node1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$second CPUs=8
PartitionName=main Nodes=ALL Default=YES MaxTime=10 State=UP
END
}

munge_starts()
{
    (umask 077 && head -c 1024 /dev/urandom >"$tmp/munge.key") &&
        munged --force --key-file="$tmp/munge.key" --socket="$tmp/munge.socket" \
            --pid-file="$tmp/munged.pid" --log-file="$tmp/munge.log" \
            --seed-file="$tmp/munge.seed"
}

nodes_are_idle()
{
    [ "$(sinfo -h -N -o %T 2>/dev/null | grep -c idle)" = 2 ]
}

# Stops the daemons, and waits because they write files until they exit.
end_cluster()
{
    for daemon in node0 node1 slurmctld munged; do
        [ ! -s "$tmp/$daemon.pid" ] || daemons="$daemons $(cat "$tmp/$daemon.pid")"
    done
    # shellcheck disable=SC2086 # a list
    kill $daemons 2>/dev/null
    for pid in $daemons; do
        await 5 [ ! -e "/proc/$pid" ]
    done
    tap_cleanup
}
daemons=
trap end_cluster EXIT

write_conf >"$SLURM_CONF"
mkdir -p "$tmp/state" "$tmp/node0/tmp" "$tmp/node1/tmp"
chmod 755 "$tmp" # munged's clients must reach its socket
munge_starts >"$tmp/out" 2>&1 || bail_out "munged: $(tail -n 1 "$tmp/out")"
{ slurmctld && slurmd -N node0 && slurmd -N node1; } >"$tmp/out" 2>&1 ||
    bail_out "the Slurm daemons did not start: $(tail -n 1 "$tmp/out")"
await 30 nodes_are_idle || bail_out "the nodes are not idle: $(sinfo 2>&1 | tail -n 1)"
if ! srun --mpi=list 2>&1 | grep -q pmix; then
    skip_all "this Slurm has no PMIx"
fi

# step ARGS...: srun with two nodes, and two ranks on each.
step()
{
    timeout 100 srun --quiet --mpi=pmix -N 2 --ntasks-per-node=2 "$@"
}

# ---- srun starts the ranks ----

# A rank's emulated node must be its Slurm node.
# shellcheck disable=SC2016 # expanded by the ranks
step "$mrail" run --soft 2x2 -- \
    sh -c 'echo "node $SLURM_NODEID $MRAIL_SOFT_NODE"' >"$tmp/nodes" 2>&1
is 'ranks on a Slurm node are on one emulated node' \
    '2 node 0 0;2 node 1 1' \
    "$(sort "$tmp/nodes" | uniq -c | awk '{$1 = $1; print}' | paste -sd ';')"

step "$mrail" run --soft 2x2 --rate 50MB/s --bind-rails -- \
    "$mrail" bench alltoallv --sizes 4m --hotspot 0.7 --iterations 3 \
    >"$tmp/job" 2>&1
succeeded 'srun: MPI_Alltoallv on software rails'
cp "$tmp/job" "$tmp/out"
expect 'all data is correct' "$tmp/job" ' ok$'
expect 'coll/mrail planned the exchange' "$tmp/job" '4194304 .* [1-9][0-9.]* % .* ok$'
expect 'mrail carried the exchange' "$tmp/job" '4 ranks, mrail,'

# mpirun, started inside an allocation, starts its daemons with srun.
timeout 100 salloc --quiet -N 2 --ntasks-per-node=2 \
    "$mrail" run -np 4 --soft 2x2 -- \
    "$mrail" bench alltoallv --sizes 1m --iterations 3 >"$tmp/out" 2>&1
succeeded 'mrail run in an allocation'
expect 'all data is correct' "$tmp/out" ' ok$'

# ---- a running step ----

# is_seen: succeeds if the telemetry of all four ranks names the step's job.
is_seen()
{
    "$mrail" top --json >"$tmp/top" 2>/dev/null &&
        [ "$(grep -oE '"job": "slurm\.pmix\.[0-9]+\.0"' "$tmp/top" | wc -l)" = 4 ]
}

iterations=$((500000 + $$ % 500000)) # also identifies the processes

is_gone()
{
    [ -z "$(processes "$iterations")" ] &&
        [ ! -e "/dev/shm/mrail-soft.$(id -u).$session" ]
}

step "$mrail" run --soft 2x2 --session "$session" -- \
    "$mrail" bench alltoallv --sizes 1m --iterations $iterations \
    >"$tmp/killed" 2>&1 &
check 'telemetry names the job and its step' await 30 is_seen
if is_gone; then
    not_ok 'the step runs' 'there is no process of the step' "$tmp/killed"
fi
timeout 60 srun --quiet --mpi=none --jobid="$(squeue -h -o %i | head -n 1)" \
    --overlap -N 2 --ntasks-per-node=1 --label "$mrail" top --count 1 \
    >"$tmp/out" 2>&1
expect 'srun --overlap runs mrail top on each node' "$tmp/out" '^1: .*slurm\.pmix'
SLURM_JOB_ID=$(squeue -h -o %i | head -n 1) timeout 100 "$mrail" collect --srun \
    -o "$tmp/archive.tar.gz" node0 node1 >"$tmp/out" 2>&1
expect 'mrail collect --srun gathers both nodes' "$tmp/out" ' 2 of 2 hosts, '
"$mrail" diagnose --archive "$tmp/archive.tar.gz" >"$tmp/out" 2>&1
expect 'the archive names the hosts' "$tmp/out" ' node1$'
step=$(squeue -h -s -o %i | grep -E '\.0$')
check 'the step is killed' scancel -s KILL "$step"
check 'no process and no session is left' await 20 is_gone
is 'no file of the step is left' '' \
    "$(find "$tmp/node0/tmp" "$tmp/node1/tmp" ! -type d)"
"$mrail" top --clean >"$tmp/out" 2>&1
is 'mrail top --clean removes the telemetry of the step' '' "$(ls "$tap_pages")"

# ---- user errors ----

expect_run 'tasks without PMIx are rejected' failure 'add --mpi=pmix' \
    timeout 60 srun --quiet --mpi=none -N 2 "$mrail" run --soft 2x2 -- true
expect_run '-np is rejected under srun' failure 'already started the ranks' \
    step "$mrail" run --soft 2x2 -np 4 -- true
expect_run 'an mpirun option is rejected under srun' failure \
    'map-by cannot be used: it is an option of mpirun' step "$mrail" run --soft 2x2 --map-by node -- true
finish
