#!/bin/sh
# Tests mrail soft with GPUs: options, the displayed state, mismatched sessions,
# and leftover files.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need_built mrail-info mrail-soft mrail-run gpu_tool

tool=$build/gpu_tool

# gpus OPTION... -- COMMAND...: runs the command in the session of the test.
gpus()
{
    timeout 30 "$soft" --session "$session" --rails 1 "$@"
}

# files: prints the names of the session's files.
files()
{
    ls "/dev/shm/mrail-soft.$(id -u).$session"* 2>/dev/null || true
}

no_files()
{
    [ -z "$(files)" ]
}

# alone OPTION... -- COMMAND...: like gpus, but in a separate session. An
# earlier session may have different GPUs, and outlives its last process for a
# moment.
alone()
{
    await 10 no_files || return 1
    gpus "$@"
}

# Options.
for options in '--gpus 0' '--gpus 17' '--gpu-link mesh:1G' '--pcie 1G' \
    '--gpu-memory 1G' '--gpus 2 --gpu-link ring:1G' '--gpus 2 --gpu-link none:1G' \
    '--gpus 2 --gpu-link mesh:' '--gpus 2 --pcie fast' \
    '--nodes 32 --gpus 16'; do
    # shellcheck disable=SC2086 # several words
    expect_run "rejected: $options" 2 'mrail soft: .*(gpu|GPU|rate|pcie)' \
        gpus $options -- true
done
expect_run 'mrail run: rejected without --soft' 2 'require --soft' \
    "$build/mrail-run" --gpus 2 true
expect_run 'mrail run: forwards the options' 0 \
    '--gpus 4 --gpu-link mesh:240M --pcie 200M --gpu-memory 1048576 ' \
    "$build/mrail-run" --print --soft 2x2 --gpus 4 --gpu-link mesh:240M \
    --pcie 200M --gpu-memory 1M true

# Without GPUs, nothing changes.
unset CUDA_VISIBLE_DEVICES
LD_LIBRARY_PATH=$build/src/softgpu/.libs
export LD_LIBRARY_PATH
expect_run 'outside a session there is no device' 0 '^init 100$' "$tool" count
expect_run 'a session without GPUs has no device' 0 '^init 100$' \
    gpus -- "$tool" count
unset LD_LIBRARY_PATH
expect_run 'a session without GPUs has no driver' failure '' \
    gpus -- sh -c 'test -n "${MRAIL_SOFT_GPUS-}"'
expect_run 'mrail info: no driver' 0 '^no GPU: no CUDA driver \(libcuda.so.1\)$' \
    gpus -- "$build/mrail-info"

# Faults from the beginning.
expect_run 'rejected: an unknown fault' 2 "--gpu-fault: 'rate' is not one of" \
    alone --gpus 1 --gpu-fault no_peer,rate -- true
expect_run 'rejected: faults without GPUs' 2 'require --gpus' \
    alone --gpu-fault no_peer -- true
expect_run 'a driver without a device' 0 '^init 100$' \
    alone --gpus 2 --gpu-fault no_device -- "$tool" count
expect_run 'mrail run: forwards faults' 0 '--gpu-fault no_dmabuf,no_peer ' \
    "$build/mrail-run" --print --soft 2x2 --gpus 4 \
    --gpu-fault no_dmabuf,no_peer true

# Faults of scripts.
printf 'at 0s gpu 0,2 no_device\n' >"$tmp/missing"
expect_run 'a script hides GPUs' 0 '^devices 1$' \
    alone --gpus 3 --script "$tmp/missing" -- "$tool" count
printf 'at 0s gpu 3 down\n' >"$tmp/wrong"
expect_run 'rejected: a GPU that does not exist' 2 'there is no gpu 3' \
    alone --gpus 3 --script "$tmp/wrong" -- true
expect_run 'rejected: GPUs in a session without GPUs' 2 'there are no GPUs' \
    "$soft" --session "$session-none" --rails 1 --script "$tmp/wrong" -- true
printf 'at 0s gpu 0 peer 1 down\n' >"$tmp/pair"
expect_run 'rejected: a pair on a switch' 2 "'peer' requires --gpu-link mesh" \
    alone --gpus 2 --gpu-link switch --script "$tmp/pair" -- true

# 4 MiB at 20 MB/s take 0.2 s.
printf 'at byte 1M gpu 0 peer 1 down\n' >"$tmp/cut"
expect_run 'a script cuts a link after some bytes' 0 '^error 220$' \
    alone --gpus 2 --gpu-link mesh:20M --script "$tmp/cut" -- "$tool" copy
printf 'at byte 1M gpu 0 peer 1 rate 40M\n' >"$tmp/rate"
expect_run 'a script changes the rate of a link' 0 '^copied$' \
    alone --gpus 2 --gpu-link mesh:20M --script "$tmp/rate" -- "$tool" copy

# nvidia-peermem.
expect_run 'rejected: --peermem without GPUs' 2 'require --gpus' \
    alone --peermem -- true
check 'peermem: registration by address' alone --gpus 1 --peermem -- \
    sh -c 'test "$MRAIL_SOFT_PEERMEM" = 1'
expect_run 'another session has no peermem' failure '' env MRAIL_SOFT_PEERMEM=1 \
    "$soft" --session "$session-none" --rails 1 --gpus 1 -- \
    sh -c 'test -n "${MRAIL_SOFT_PEERMEM-}"'
expect_run 'mrail run: forwards peermem' 0 '--peermem ' \
    "$build/mrail-run" --print --soft 2x2 --gpus 1 --peermem true

# Devices.
expect_run 'devices' 0 '^devices 0 1 2$' alone --gpus 3 -- "$tool" count
expect_run "the user's library path is kept" 0 '/softgpu.*:/some/folder$' \
    env LD_LIBRARY_PATH=/some/folder "$soft" --session "$session" --rails 1 \
    --gpus 1 -- sh -c 'echo "$LD_LIBRARY_PATH"'
expect_run 'mrail info: GPUs' 0 \
    '^1 +mrail software GPU 1 +0000:41:00.0 +dma-buf +0, 2 +soft0:1$' \
    alone --gpus 3 -- "$build/mrail-info"
expect_run 'mrail info: GPUs, JSON' 0 \
    '"pci": "0000:41:00.0", "memory": 67108864, "peers": "0", "registered_by": "dma-buf"' \
    alone --gpus 2 --gpu-memory 64M -- "$build/mrail-info" --json
export CUDA_VISIBLE_DEVICES
CUDA_VISIBLE_DEVICES=
expect_run 'mrail info: no device' 0 '^no GPU: the CUDA driver has no device$' \
    alone --gpus 2 -- "$build/mrail-info"
CUDA_VISIBLE_DEVICES=2,0
expect_run 'visible devices, in a different order' 0 '^devices 2 0$' \
    alone --gpus 3 -- "$tool" count
CUDA_VISIBLE_DEVICES=1,7,0
expect_run 'a wrong number ends the list' 0 '^devices 1$' \
    alone --gpus 3 -- "$tool" count
CUDA_VISIBLE_DEVICES=
expect_run 'an empty list' 0 '^init 100$' alone --gpus 3 -- "$tool" count
unset CUDA_VISIBLE_DEVICES

# The state. Two processes hold memory and have copied; each called an
# unsupported function.
mkfifo "$tmp/hold"
gpus --nodes 2 --node 1 --gpus 2 --gpu-link switch:500M --pcie 300M \
    --gpu-memory 32M -- sh -c '
    "$0" work 0 <"$1" >"$2/0" & "$0" work 1 <"$1" >"$2/1" & wait' \
    "$tool" "$tmp/hold" "$tmp" &
exec 9>"$tmp/hold"
await 20 grep -q ready "$tmp/0" && await 20 grep -q ready "$tmp/1" ||
    bail_out 'the programs did not start'
check 'the state as JSON' "$soft" status --session "$session" --json
cp "$tmp/out" "$tmp/json"
is 'memory in use' 8388608 "$(json_sum memory_used_bytes "$tmp/json")"
is 'copies from the host' 2 "$(json_sum copies_in "$tmp/json")"
is 'bytes to the host' 2097152 "$(json_sum bytes_out "$tmp/json")"
is 'copies between GPUs' 2 "$(json_sum copies_peer "$tmp/json")"
is 'kernels' 2 "$(json_sum launches "$tmp/json")"
is 'kernels by process' 2 "$(json_sum own_launches "$tmp/json")"
is 'the time of kernels by process' "$(json_sum sm_ns "$tmp/json")" \
    "$(json_sum own_sm_ns "$tmp/json")"
is 'copies by process' 2 "$(json_sum own_copies_peer "$tmp/json")"
is 'unsupported calls' 6 "$(json_sum cuModuleLoad "$tmp/json")"
expect 'the kind of links' "$tmp/json" '"gpu_link": "switch"'
check 'the state as a table' "$soft" status --session "$session"
expect 'a table of GPUs' "$tmp/out" \
    '^2 GPUs per node, links switch 500MB/s, PCIe 300MB/s$'
expect_count 'a row for each GPU' "$tmp/out" '^ *[01] gpu[01] ' 4
expect_count 'a row for each process and GPU' "$tmp/out" \
    '^ *[0-9]+ +1 gpu[01] +2\.000 +[01] +[0-9.]+ +[0-3]$' 4
expect 'unsupported functions' "$tmp/out" \
    '^not supported: cuModuleLoad, 6 calls$'
expect_run 'the file is private' 0 '^-rw-------' ls -l \
    "/dev/shm/mrail-soft.$(id -u).$session+gpu"

# Faults of a running session.
ctl() { "$soft" ctl --session "$session" "$@"; }
check 'ctl: a GPU' ctl --node 1 --gpu 0 no_memory copy_error=3
check 'ctl: links' ctl --gpu all rate=5M
check 'ctl: a cut link' ctl --node 0 --gpu 1 down
expect_run 'ctl: rejected: an action on rails' 2 "'drop' is not an action" \
    ctl --gpu 0 no_peer drop=1%
expect_run 'ctl: rejected: no such GPU' 2 'has GPUs 0 to 1$' ctl --gpu 2 down
expect_run 'ctl: rejected: a pair on a switch' 2 'links of kind mesh' \
    ctl --gpu 0 --peer 1 down
expect_run 'ctl: rejected: a GPU as its own peer' 2 'requires another' \
    ctl --gpu 1 --peer 1 down
check 'faults in the table' "$soft" status --session "$session"
expect 'a fault of a GPU' "$tmp/out" '^fault: node 1 gpu0: no_memory$'
expect 'copies that will fail' "$tmp/out" \
    '^fault: node 1 gpu0: the next 3 copies fail$'
expect 'a slow link' "$tmp/out" \
    '^fault: node 0 gpu0: link to the switch is limited to 5MB/s$'
expect 'a cut link' "$tmp/out" \
    '^fault: node 0 gpu1: link from the switch is down$'
check 'faults as JSON' "$soft" status --session "$session" --json
expect 'a fault as JSON' "$tmp/out" '"no_memory": true'
is 'copies that will fail, as JSON' 3 "$(json_sum copy_error "$tmp/out")"
expect_count 'cut links as JSON' "$tmp/out" '"down": true' 1
printf 'at 0s node 0 gpu 0 no_dmabuf\n' >"$tmp/old"
expect_run 'a script while a command runs' 0 '^fault: node 0 gpu0: no_dmabuf$' \
    gpus --nodes 2 --gpus 2 --script "$tmp/old" -- "$soft" status --session "$session"
undone() { ! "$soft" status --session "$session" | grep -q no_dmabuf; }
if await 5 undone; then
    ok 'the fault of a script is undone when the command ends'
else
    not_ok 'the fault of a script is undone when the command ends' 'the fault is still active'
fi
check 'ctl: clear' ctl --gpu all clear
"$soft" status --session "$session" >"$tmp/out"
expect_count 'no fault is left' "$tmp/out" '^fault: ' 0

# Options that differ from those of the session.
expect_run 'another number of GPUs' 1 'was created with 2 GPUs per node' \
    gpus --nodes 2 --gpus 3 -- true
expect_run 'another rate' 1 'links, memory or faults other than requested' \
    gpus --nodes 2 --gpus 2 --pcie 100M -- true
expect_run 'a command with the same options joins' 0 '^devices 0 1$' \
    gpus --nodes 2 --gpus 2 --gpu-link switch:500MB/s -- "$tool" count
expect_run 'a command without options joins' 0 '^devices 0 1$' gpus -- "$tool" count
exec 9>&-
wait
gone() { [ -z "$(files)" ]; }
if await 5 gone; then
    ok 'nothing is left behind'
else
    not_ok 'nothing is left behind' "$(files)"
fi
finish
