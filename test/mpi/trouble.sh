#!/bin/sh
# Bad input and trouble, as a user of an MPI job meets it: a sentence that
# names the cause, and the right exit status.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_exchange

program=$build/mpi_exchange

# expect NAME STATUS SENTENCE COMMAND...: STATUS "bad" is any but 0 and those
# of timeout.
expect()
{
    name=$1
    want=$2
    sentence=$3
    shift 3
    status=0
    timeout -k 5 60 "$@" >"$tmp/out" 2>&1 </dev/null || status=$?
    if [ "$want" = bad ] && [ $status != 0 ] && [ $status != 124 ] && [ $status != 137 ]; then
        want=$status
    fi
    if [ $status != "$want" ]; then
        head -n 20 "$tmp/out"
        not_ok "$name" "exit status $status, not $want"
    elif ! grep -q -- "$sentence" "$tmp/out"; then
        head -n 20 "$tmp/out"
        not_ok "$name" "no line says '$sentence'"
    else
        ok "$name"
    fi
}

run="$mrail run -np 2 --soft 2x2 --session $session"
# shellcheck disable=SC2086 # words are wanted
{
    expect 'an unknown device' bad \
        "UCX_MRAIL_DEVICES: there is no port 'nosuch'; devices here: soft0" \
        env UCX_MRAIL_DEVICES=nosuch $run -- "$program"
    expect 'a param out of range' bad \
        'UCX_MRAIL_LANES_PER_RAIL=77: expected 1 to 32' \
        env UCX_MRAIL_LANES_PER_RAIL=77 $run -- "$program"
    expect 'a QP for each peer suffices' 0 '^ok - ' \
        env UCX_MRAIL_MAX_QPS=5 "$mrail" run -np 6 --soft 2x2 -- "$program"
    expect 'fewer QPs than peers' bad \
        'UCX_MRAIL_MAX_QPS=4 does not suffice.*number of processes in the job' \
        env UCX_MRAIL_MAX_QPS=4 "$mrail" run -np 6 --soft 2x2 -- "$program"
    expect 'UCX_NET_DEVICES that excludes mrail' bad \
        'UCX_NET_DEVICES=mlx5_0:1 leaves its device out: add mrail:1' \
        env UCX_NET_DEVICES=mlx5_0:1 $run -- "$program"
    expect 'segments of different sizes' bad \
        'UCX_MRAIL_SEG_SIZE=1[26][0-9]*, this process 1[26]' \
        $run -- sh -c "UCX_MRAIL_SEG_SIZE=\$((12288 + 4096 * OMPI_COMM_WORLD_RANK)) exec '$program'"
    expect 'a rate of zero' 2 "rate '0'" $run --rate 0 -- "$program"
    expect 'a session with other settings' bad "$session" \
        "$mrail" soft --session "$session" --rails 2 --nodes 2 -- \
        "$mrail" soft --session "$session" --rails 3 --nodes 2 -- true
    expect 'a command that is not there' 127 'nosuchprogram' \
        $run -- "$tmp/nosuchprogram"
    expect "the program's own exit status" 7 '' $run -- sh -c 'exit 7'
    expect 'an inactive device' bad "soft1" \
        env UCX_MRAIL_DEVICES=soft0,soft1 "$mrail" soft --session "$session" \
        --nodes 2 --rails 2 -- sh -c '
        "$0" soft ctl --session "$1" --rail 1 down && "$0" info' \
        "$mrail" "$session"
}
if [ -d /sys/class/infiniband ] && [ -n "$(ls /sys/class/infiniband)" ]; then
    echo "skip - no rail at all: this machine has RDMA devices"
else
    expect 'no rail at all' 1 'no rail: this machine has no RDMA device' \
        "$mrail" info
fi
nothing_left 'trouble'
exit $failed
