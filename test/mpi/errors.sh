#!/bin/sh
# Checks invalid input and failures that a user of an MPI job may encounter.
# Each must produce a message that names the cause, and the correct exit status.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_exchange

program=$build/mpi_exchange

run="timeout -k 5 60 $mrail run -np 2 --soft 2x2 --session $session"
# shellcheck disable=SC2086 # word splitting is intended
{
    expect_run 'an unknown device' failure \
        "UCX_MRAIL_DEVICES: there is no port 'nosuch'; devices of this host: soft0" \
        env UCX_MRAIL_DEVICES=nosuch $run -- "$program"
    expect_run 'a parameter out of range' failure \
        'UCX_MRAIL_LANES_PER_RAIL=77: expected 1 to 32' \
        env UCX_MRAIL_LANES_PER_RAIL=77 $run -- "$program"
    expect_run 'one QP per peer suffices' 0 '^ok - ' \
        env UCX_MRAIL_MAX_QPS=5 timeout -k 5 60 \
        "$mrail" run -np 6 --soft 2x2 -- "$program"
    expect_run 'fewer QPs than peers' failure \
        'UCX_MRAIL_MAX_QPS=4 is too small.*number of processes in the job' \
        env UCX_MRAIL_MAX_QPS=4 timeout -k 5 60 \
        "$mrail" run -np 6 --soft 2x2 -- "$program"
    expect_run 'UCX_NET_DEVICES that excludes mrail' failure \
        'UCX_NET_DEVICES=mlx5_0:1 excludes its device; add mrail:1' \
        env UCX_NET_DEVICES=mlx5_0:1 $run -- "$program"
    expect_run 'segments of different sizes' failure \
        'UCX_MRAIL_SEG_SIZE=1[26][0-9]*, but this process uses 1[26]' \
        $run -- sh -c "UCX_MRAIL_SEG_SIZE=\$((12288 + 4096 * OMPI_COMM_WORLD_RANK)) exec '$program'"
    expect_run 'a rate of zero' 2 "rate '0'" $run --rate 0 -- "$program"
    expect_run 'a session with other settings' failure "$session" \
        timeout -k 5 60 \
        "$mrail" soft --session "$session" --rails 2 --nodes 2 -- \
        "$mrail" soft --session "$session" --rails 3 --nodes 2 -- true
    expect_run 'a command that does not exist' 127 'nosuchprogram' \
        $run -- "$tmp/nosuchprogram"
    expect_run "the program's own exit status" 7 '' $run -- sh -c 'exit 7'
    expect_run 'an inactive device' failure "soft1" \
        env UCX_MRAIL_DEVICES=soft0,soft1 timeout -k 5 60 \
        "$mrail" soft --session "$session" --nodes 2 --rails 2 -- sh -c '
        "$0" soft ctl --session "$1" --rail 1 down && "$0" info' \
        "$mrail" "$session"
}
if [ -d /sys/class/infiniband ] && [ -n "$(ls /sys/class/infiniband)" ]; then
    skip "no rail at all" "this machine has RDMA devices"
else
    expect_run 'no rail at all' 1 'no rail: this machine has no RDMA device' \
        "$mrail" info
fi
nothing_left 'trouble'
finish
