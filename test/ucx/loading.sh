#!/bin/sh
# Tests the ways to load the transport into a process, and the conditions under
# which it is not loaded.
# shellcheck source=test/ucx/common.sh
. "$(dirname -- "$0")/common.sh"

other=$libs/other_ucx.so

# ---- any program: LD_PRELOAD ----

on_rails 1 2 0 env UCX_TLS=mrail,self LD_PRELOAD="$other:$shim" \
    "$ucx_info" -d -t mrail >"$tmp/log" 2>&1
status=$?
expect_count 'another UCX: one message names both versions' "$tmp/log" \
    "built for UCX $UCX_VERSION, but UCX 0.99.7 is loaded" 1
expect_none 'another UCX: no transport' "$tmp/log" 'Transport: mrail$'
if [ $status = 0 ]; then
    ok 'another UCX: the process continues'
else
    not_ok 'another UCX: the process continues' "exit status $status" "$tmp/log"
fi
LD_PRELOAD="$other:$shim" "$ucx_info" -v >"$tmp/log" 2>&1 ||
    echo 'ucx_info failed with mrail' >>"$tmp/log"
expect_none 'another UCX: silent unless mrail is requested' "$tmp/log" mrail

mkdir "$tmp/copy"
cp "$shim" "$tmp/copy/libuct_mrail.so.0"
LD_PRELOAD="$tmp/copy/libuct_mrail.so.0" UCX_TLS=mrail,self "$ucx_info" -v \
    >"$tmp/log" 2>&1
expect_count 'a missing transport file is named' "$tmp/log" \
    'cannot find or read mrail-uct.so' 1
cp "$libs/mrail-uct.so" "$tmp/copy"
on_rails 1 2 0 sh -c '
    LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$0:$1; shift; exec "$@"' \
    "$shim" "$tmp/copy/libuct_mrail.so.0" "$ucx_info" -d -t mrail \
    >"$tmp/log" 2>&1
expect_count 'two copies in a process: one transport' "$tmp/log" \
    'Transport: mrail$' 1

# ---- any program: UCX's own list of directories ----

if "$ucx_info" -c -f | grep -q '^UCX_PLUGIN_PATH='; then
    on_rails 1 2 0 env UCX_PLUGIN_PATH="$libs" UCX_TLS=mrail,self \
        "$ucx_info" -d -t mrail >"$tmp/log" 2>&1
    expect_count 'UCX_PLUGIN_PATH: the transport is loaded' "$tmp/log" \
        'Transport: mrail$' 1
fi

# ---- Open MPI: the hook ----

if [ -z "$MPIRUN" ] || [ ! -x "$build/mpi_sendrecv" ]; then
    skip_all 'built without Open MPI'
fi

seconds=0
# As `mrail run` does it: run_plan.c.
to_mpirun="--mca mca_base_component_path SYSTEM_DEFAULT:$libs:USER_DEFAULT"
if [ "$MPIRUN_FEEDS_PMIX" = 1 ]; then
    mkdir "$tmp/none"
    to_mpirun="$to_mpirun --pmixmca mca_base_component_path $tmp/none"
fi
# job LOG ARGS...: runs two ranks on two emulated nodes. ARGS go to mpirun.
# Sets status.
job()
{
    log=$1
    shift
    # shellcheck disable=SC2086 # word splitting is intended
    timeout 60 "$MPIRUN" --oversubscribe -np 2 $to_mpirun "$@" \
        "$build/mrail-soft" --session "$session-mpi" \
        --nodes 2 --rails 2 -- "$build/mpi_sendrecv" "$seconds" \
        >"$log" 2>&1
    status=$?
}

job "$tmp/log" -x UCX_TLS=mrail,self -x UCX_LOG_LEVEL=info
expect 'UCX_TLS alone: the job runs' "$tmp/log" '^ring ok'
expect 'UCX_TLS alone: mrail carries the messages' "$tmp/log" \
    'mrail/mrail:1'
expect_none 'UCX_TLS alone: no other transport is on the wire' "$tmp/log" \
    'tcp/|sysv/|posix/|cma/'

job "$tmp/log" --mca pml ucx -x UCX_TLS=mrail,self -x LD_PRELOAD="$other"
expect_count 'another UCX: one message per node' "$tmp/log" \
    "built for UCX $UCX_VERSION, but UCX 0.99.7 is loaded" 1
expect 'another UCX: the job continues' "$tmp/log" '^ring ok'
if [ $status = 0 ]; then
    ok 'another UCX: exit status 0'
else
    not_ok 'another UCX: exit status 0' "it was $status" "$tmp/log"
fi

job "$tmp/log" -x UCX_TLS=mrail,self -x MRAIL_UCT_PATH=/nonexistent
expect_count 'a wrong MRAIL_UCT_PATH is reported' "$tmp/log" \
    'set MRAIL_UCT_PATH' 1
expect 'a wrong MRAIL_UCT_PATH: the job continues' "$tmp/log" '^ring ok'

job "$tmp/log" --mca pml ob1 -x UCX_TLS=mrail,self -x UCX_LOG_LEVEL=info
expect 'the user'"'"'s pml is respected' "$tmp/log" '^ring ok'
expect_none 'the user'"'"'s pml is respected: no mrail' "$tmp/log" 'ep_cfg'

job "$tmp/log" -x UCX_LOG_LEVEL=info
expect 'without UCX_TLS, the hook does nothing' "$tmp/log" '^ring ok'
expect_none 'without UCX_TLS, the hook prints nothing' "$tmp/log" 'mrail: '

job "$tmp/log" -x UCX_TLS=mrail,self -x UCX_NET_DEVICES=eth77
expect_count 'UCX_NET_DEVICES: reported once per node' "$tmp/log" \
    'UCX_NET_DEVICES=eth77 excludes its device' 1

# ---- a lost peer aborts the job ----

seconds=40
job "$tmp/log" -x UCX_TLS=mrail,self &
job=$!
# The rails must not go down before the job uses them. A busy machine may be
# slow to start a job, so the number of packets shows when the job uses them.
is_under_way()
{
    "$soft" status --session "$session-mpi" --json 2>&1 |
        grep -q '"tx_packets": [0-9]\{4\}'
}
await 20 is_under_way || bail_out 'the job is not under way after 20 s'
"$build/mrail-soft" ctl --session "$session-mpi" down
start=$(date +%s)
wait $job
took=$(($(date +%s) - start))
expect 'all rails down: one message states why the job aborts' "$tmp/log" \
    'mrail: rank [01] on .* permanently lost a peer .*, peer [0-9a-f]* at 127[0-9.]*: soft[01]:1 \([a-z ]*\), soft[01]:1 \([a-z ]*\); the job aborts'
expect 'all rails down: the message names the cause' "$tmp/log" \
    'permanently lost a peer .*soft[01]:1 \((port down|requests failed)\)'
expect_none 'all rails down: no rail is reported as unused' \
    "$tmp/log" 'permanently lost a peer .*\(never used\)'
if [ $took -lt 25 ]; then
    ok 'all rails down: the job aborts within seconds'
else
    not_ok 'all rails down: the job aborts within seconds' "it took $took s" \
        "$tmp/log"
fi
expect_none 'all rails down: success is not reported' "$tmp/log" '^ring ok'
finish
