#!/bin/sh
# Checks the software device and the kernel's device on one wire: softroce in
# the namespace "soft" at 10.99.1.1, and rdma_rxe as rxew at 10.99.1.2. In each
# test, at least one end does not use code from this tree.
set -u
# shellcheck source=test/vm/lib.sh
. "${top:?}/test/vm/lib.sh"
port=7100

ip netns add soft
ip -batch - <<'END'
link add w0 mtu 4200 address 02:00:00:00:09:02 type veth peer name s0 mtu 4200 address 02:00:00:00:09:01 netns soft
addr add 10.99.1.2/24 dev w0
link set w0 up
rule add pref 5 iif w0 lookup local
neigh replace 10.99.1.1 dev w0 lladdr 02:00:00:00:09:01
neigh replace 10.99.1.2 dev w0 lladdr 02:00:00:00:09:02
END
# Without this, a burst would be captured as one packet. The sender's stack
# splits it before the wire, as a NIC does.
ip -n soft -batch - <<'END'
addr add 10.99.1.1/24 dev s0
link set s0 up
link set lo up
neigh replace 10.99.1.2 dev s0 lladdr 02:00:00:00:09:02
link set s0 gso_max_segs 1
END
rdma link add rxew type rxe netdev w0
# rdma_rxe has up to 512 KB in flight, because it does not know the software
# device's credit. The socket buffer must hold that much.
echo 4194304 >/proc/sys/net/core/rmem_max

# soft COMMAND...: runs COMMAND on a software rail, with ICRC as set by $icrc.
icrc=on
soft()
{
    ip netns exec soft timeout -k 5 90 "$stage/bin/mrail" soft \
        --session "wire-$icrc" --base 10.99 --nodes 1 --rails 1 --icrc $icrc \
        -- "$@"
}

# ends NAME SERVER CLIENT: runs two shell commands with a new $port. Succeeds if
# both commands do. Logs are in $log/NAME.server and $log/NAME.client.
ends()
{
    eval "$2" >"$log/$1.server" 2>&1 &
    ends_server=$!
    ends_status=0
    eval "$3" >"$log/$1.client" 2>&1 || ends_status=$?
    [ $ends_status = 0 ] || kill $ends_server 2>/dev/null
    wait $ends_server || ends_status=$?
    return $ends_status
}

# data NAME OPTION...: runs vm_data. The kernel's end listens, and the software
# end prints.
data()
{
    data_name=$1
    shift
    note "$data_name"
    port=$((port + 1))
    timeout -k 5 90 "$build/vm_data" rxew listen $port "$@" \
        >"$log/$data_name.rxe" 2>&1 &
    data_rxe=$!
    data_status=0
    soft "$build/vm_data" soft0 10.99.1.2 $port "$@" \
        --name "soft and kernel, $data_name" --sl 2 >"$log/$data_name.soft" \
        2>"$log/$data_name.err" || data_status=$?
    end $data_rxe
    results "$log/$data_name.soft"
    [ $data_status = 0 ] || not_ok "soft and kernel, $data_name" \
        "exit status $data_status: $(last "$log/$data_name.err");$(
            last "$log/$data_name.rxe")"
}

"$build/vm_wire" --icrc w0 >"$log/wire" 2>&1 &
wire=$!
await 5 grep -q ready "$log/wire"
data 'all data' --rc --max 1048576
data 'datagrams' --ud
end $wire
for side in '10.99.1.1 the software device' '10.99.1.2 the kernel'; do
    line=$(grep "^icrc ${side%% *} " "$log/wire")
    result "the ICRC of ${side#* }'s packets, by our function" "$line" \
        awk -v line="$line" 'BEGIN {
            split(line, f, " ")
            exit !(f[4] > 1000 && f[6] == 0 && f[8] > 50 && f[8] == f[10])
        }'
done
ip -n soft link set s0 gso_max_segs 64
# Sends messages in bursts. The first run tested small messages.
data 'up to 16 MB' --rc --min 65535 --timeout 15

note 'third-party programs'
port=$((port + 1))
if ends pingpong "timeout 30 ibv_rc_pingpong -d rxew -g 1 -p $port" \
    "await 10 listens $port && soft ibv_rc_pingpong -d soft0 -g 0 -p $port \
        10.99.1.2"; then
    ok 'ibv_rc_pingpong, soft to kernel'
else
    not_ok 'ibv_rc_pingpong, soft to kernel' "$(last "$log/pingpong.client")"
fi
for program in ib_write_bw ib_read_bw; do
    settings='-s 4096 -n 200'
    # ib_read_bw mistakes the other end's READ limit for its own.
    [ $program != ib_read_bw ] || settings="$settings -o 8"
    port=$((port + 1))
    options="-F -p $port $settings"
    if ends $program-kernel "timeout 30 $program -d rxew -x 1 $options" \
        "await 10 listens $port && soft $program -d soft0 -x 0 $options \
            10.99.1.2"; then
        ok "$program, server on the kernel's device"
    else
        not_ok "$program, server on the kernel's device" \
            "$(last "$log/$program-kernel.client")"
    fi
    port=$((port + 1))
    options="-F -p $port $settings"
    if ends $program-soft "soft $program -d soft0 -x 0 $options" \
        "await 10 listens_in soft $port && \
            timeout 30 $program -d rxew -x 1 $options 10.99.1.1"; then
        ok "$program, server on the software device"
    else
        not_ok "$program, server on the software device" \
            "$(last "$log/$program-soft.client")"
    fi
done

# 1 % of the packets are lost, in both directions.
tc qdisc add dev w0 root netem loss 1%
tc -n soft qdisc add dev s0 root netem loss 1%
data '1 % loss' --rc --max 1048576 --timeout 15
# 1 % of the packets have a flipped bit, which only the ICRC can detect.
tc qdisc change dev w0 root netem corrupt 1%
tc -n soft qdisc change dev s0 root netem corrupt 1%
data '1 % damaged' --rc --max 1048576 --timeout 15
tc qdisc del dev w0 root
tc -n soft qdisc del dev s0 root

# Without ICRCs, the kernel must reject all packets, which proves that it checks
# ICRCs.
icrc=off
port=$((port + 1))
options='--rc --max 64 --timeout 14'
# shellcheck disable=SC2086 # word splitting is intended
{
    timeout 40 "$build/vm_data" rxew 10.99.1.1 $port $options >/dev/null 2>&1 &
    other=$!
    soft "$build/vm_data" soft0 listen $port $options --name none \
        >"$log/off" 2>"$log/off.err"
}
end $other
result 'without ICRCs, the kernel accepts no packet' \
    "$(last "$log/off")$(last "$log/off.err")" \
    grep -q 'retry counter exceeded' "$log/off.err"
finish
