#!/bin/bash
# Checks fault scripts on live rails. The checks cover the effect of each action
# on other processes (counters, programs that continue or fail), the end of
# `for`, scripts that run with a command, invalid scripts, and cleanup. Word
# splitting is intended.
# shellcheck disable=SC2013,SC2034,SC2086,SC2154,SC2317
# shellcheck source=test/interop/soft_lib.sh
. "$(dirname "$0")/soft_lib.sh"
need ibv_rc_pingpong

# run_script LINE...: runs a script to its end. The output is in $tmp/script.
run_script() {
    printf '%s\n' "$@" |
        timeout 30 $soft ctl --session $session --script - >"$tmp/script" 2>&1
}

# Prints the sum of a protocol counter over the rails.
protocol() { status | json_sum "$1"; }

shows() { status 2>/dev/null | grep -q "$1"; }
says() { grep -q "$1" "$2" 2>/dev/null; }

# Waits briefly until every rail is in its initial state. Fails if one is not.
ILL='"up": false|_ppm": [1-9]|delay_us": [1-9]|write_delay_us": [1-9]|gress_bytes_per_s": [1-9]'
ILL="$ILL|\"(pause|drop_acks|blackhole_[tr]x)\": true"
is_healthy() { status >"$tmp/healthy" && ! grep -qE "$ILL" "$tmp/healthy"; }
healthy() { await 3 is_healthy || fail "$1: $(grep -oE "$ILL" "$tmp/healthy")"; }

# Waits until the job has sent more packets than at the time of the call.
sent=0
await_traffic() {
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        sleep 0.1
        [ "$(counter tx_packets)" -le $((sent + 50)) ] || return 0
    done
    echo "# the job is not sending yet"
}

stress() { soft ./soft_stress --procs 2 --rails 1 "$@" >"$tmp/stress" 2>&1; }

# try_during ACTION COUNTER: runs a job that checks all data, with the fault
# active for 0.3 s. Sets $moved to the increase of the counter.
try_during() {
    before=$(protocol "$2") sent=$(counter tx_packets)
    stress --seconds 1 &
    job=$!
    await_traffic
    run_script "at 0s for 300ms rail 0 $1" || { fail "$1"; show "$tmp/script"; }
    wait $job || { fail "a job under $1"; show "$tmp/stress"; }
    moved=$(($(protocol "$2") - before))
    [ "$moved" -gt 0 ]
}

# during ACTION COUNTER: checks that the job continues, that the counter
# changes, and that everything is restored afterwards. On a busy machine the job
# may end before the script begins, and is then repeated.
during() {
    try_during "$@" || try_during "$@" || try_during "$@" ||
        fail "$1: $2 did not increase"
    grep -q "over: at 0s for 300ms rail 0 $1" "$tmp/script" ||
        { fail "$1: the end is not shown"; show "$tmp/script"; }
    healthy "$1"
    report "$1: $2 $moved, the job continues, the fault is undone"
}

HOLD_S=200
SOFT_OPTIONS="--rails 2 --icrc on"
hold
during 'drop 2%' drop_loss
during 'duplicate 5%' fault_duplicate
during 'duplicate 20%' rx_dup
during 'reorder 5% 200us' fault_reorder
during 'reorder 5% 1ms' ooo
during 'corrupt 2%' fault_corrupt
during 'corrupt 5%' drop_icrc
during 'down' drop_down
during 'blackhole tx' drop_blackhole
during 'blackhole rx' drop_blackhole
during 'blackhole both' drop_blackhole
during 'drop_acks' drop_response
during 'delay 2ms' tx_packets
during 'rate 30M' wait_rate

# The other rail must be unaffected and lose no packet.
sent=$(counter tx_packets)
soft ./soft_stress --procs 2 --rails 2 --seconds 1 >"$tmp/stress" 2>&1 &
job=$!
await_traffic
run_script 'at 0s for 200ms rail 1 blackhole both' || fail "rail 1"
wait $job || fail "a job on two rails"
status | grep '"rail": 0' | grep -o '"drop_blackhole": [0-9]*' >"$tmp/0"
run_script 'at 0s for 10ms rail 1 blackhole both'
status | grep '"rail": 0' | grep -o '"drop_blackhole": [0-9]*' >"$tmp/1"
status | grep '"rail": 1' | grep -q '"drop_blackhole": [1-9]' ||
    fail "rail 1 lost nothing"
cmp -s "$tmp/0" "$tmp/1" || fail "rail 0 lost something"
report "only the target is affected"

# Prints the number of packets lost so far, not counting short packets.
drops() {
    status | sed 's/"protocol": {[^}]*}//' |
        grep -oE '"drop_[a-z]*": [0-9]*' | grep -v short
}

# While a rail is paused, it must neither move nor lose a packet. Afterwards,
# traffic must continue.
sent=$(counter tx_packets)
stress --seconds 2 &
job=$!
await_traffic
run_script 'at 0s pause' || { fail "the script"; show "$tmp/script"; }
shows '"pause": true' || fail "no pause"
sleep 0.3 # lets a round in progress finish
# A packet from another source must also wait until the pause ends.
short=$(counter drop_short)
addr=$(status | grep -o '127\.[0-9.]*' | head -1)
echo x >"/dev/udp/$addr/4791"
moved=$(counter rx_packets) sent=$(counter tx_packets)
lost=$(drops)
sleep 0.2
[ "$(counter rx_packets)" = "$moved" ] || fail "received while paused"
[ "$(counter tx_packets)" = "$sent" ] || fail "sent while paused"
[ "$(counter drop_short)" = "$short" ] || fail "a packet was processed while paused"
run_script 'at 0s clear' || { fail "the script"; show "$tmp/script"; }
wait $job || { fail "a job under pause"; show "$tmp/stress"; }
[ "$(counter drop_short)" -gt "$short" ] || fail "lost while paused"
[ "$(counter rx_packets)" -gt "$moved" ] || fail "no traffic after the pause"
[ "$lost" = "$(drops)" ] || fail "packets were lost"
healthy pause
report "pause: no packet moves, and none is lost"

# The measured throughput must stay below the rate.
run_script 'at 0s rail 0 rate 20M' || fail "rate"
before=$(counter rx_bytes) start=$(date +%s%N)
stress --seconds 1
bytes=$(($(counter rx_bytes) - before)) ns=$(($(date +%s%N) - start))
[ $((bytes * 1000 / (ns / 1000000))) -le 21000000 ] ||
    fail "20 MB/s rail carried $bytes bytes in $ns ns"
run_script 'at 0s clear'
healthy clear
report "rate"

# A delayed write must be reported while it lasts. The end of `for`, clear and
# the end of the script must undo it.
run_script 'at 0s rail 0 write_delay 3ms' 'at 20ms for 20ms rail 0 write_delay 5ms' ||
    { fail "write_delay"; show "$tmp/script"; }
shows '"write_delay_us": 3000' || fail "write_delay is not shown, or for is not undone"
run_script 'at 0s clear'
shows '"write_delay_us": [1-9]' && fail "clear does not undo write_delay"
$soft ctl --session $session write_delay=700us || fail "ctl write_delay"
shows '"write_delay_us": 700' || fail "ctl: write_delay is not shown"
$soft ctl --session $session clear || fail "clear"
shows '"write_delay_us": [1-9]' && fail "clear does not undo the change of ctl"
echo 'at 0s write_delay 5ms' >"$tmp/write_delay"
timeout 20 $soft --session $session --script "$tmp/write_delay" -- \
    sh -c "sleep 0.3; $soft status --session $session --json" \
    >"$tmp/out" 2>&1 || { fail "a command"; show "$tmp/out"; }
grep -q '"write_delay_us": 5000' "$tmp/out" || fail "no write_delay while a command runs"
healthy "the end of a script with write_delay"
# The caller may have ignored SIGCHLD.
echo 'at 0s write_delay 5ms' >"$tmp/write_delay"
timeout 20 env --ignore-signal=CHLD $soft --session $session \
    --script "$tmp/write_delay" -- true >"$tmp/out" 2>&1 ||
    { fail "a script with SIGCHLD ignored"; show "$tmp/out"; }
report "write_delay"

# Sets $us to the mean round-trip time in microseconds.
round_trip() {
    pair ibv_rc_pingpong -p $p -d soft0 -g 0 -n 20
    us=$(grep -o '[0-9.]* usec/iter' "$tmp/client" | cut -d. -f1)
}

# below_delay TRIES: succeeds if one of TRIES round trips is shorter than the
# delay allows. A busy machine may need several attempts. Sets $tries to the
# number of attempts.
DELAY_US=40000
below_delay() {
    tries=0
    while [ "$tries" -lt "$1" ]; do
        tries=$((tries + 1))
        round_trip
        [ "${us:-$DELAY_US}" -ge $DELAY_US ] || return 0
    done
    return 1
}

# A round trip takes 4 x 10 ms, because each packet is delayed at both ends. On
# a busy machine, a round trip may take as long without a delay. After `clear`,
# the test therefore allows more attempts than it needed before the delay.
below_delay 30 || bail_out "a round trip of ${us:-?} us without a delay"
run_script 'at 0s rail 0 delay 10ms'
round_trip
[ "${us:-0}" -ge $DELAY_US ] || fail "a round trip of ${us:-?} us"
run_script 'at 0s clear'
below_delay $((5 + 5 * tries)) ||
    fail "$tries round trips of ${us:-?} us or more after clear"
report "delay"

# The fault is permanent, so the program must fail with the error for an
# unresponsive peer.
for action in 'blackhole tx' 'blackhole rx' drop_acks down; do
    run_script "at 0s rail 0 $action"
    timeout 20 $soft --session $session -- \
        ibv_rc_pingpong -p $p -d soft0 -g 0 >"$tmp/server" 2>&1 &
    server=$!
    await_listener
    timeout 20 $soft --session $session -- \
        ibv_rc_pingpong -p $p -d soft0 -g 0 127.0.0.1 >"$tmp/client" 2>&1
    got=$?
    kill $server 2>/dev/null
    wait $server 2>/dev/null
    { [ $got != 0 ] && [ $got != 124 ]; } || fail "$action: exit status $got"
    grep -q 'transport retry counter exceeded' "$tmp/client" "$tmp/server" ||
        { fail "$action: no message about retries"; show "$tmp/client"; }
    run_script 'at 0s clear'
    pair ibv_rc_pingpong -p $p -d soft0 -g 0
    report "permanent $action: programs fail, but not after clear"
done

# Errors of queue pairs.
echo 'at 0s node 0 rail 0 qp_error 3' >"$tmp/third"
echo 'at 0s node 0 rail 0 qp_error' >"$tmp/all"
soft ./soft_errqp 7 2 "$soft ctl --script $tmp/third >/dev/null" ||
    fail "qp_error 3"
soft ./soft_errqp 5 5 "$soft ctl --script $tmp/all >/dev/null" || fail "all"
soft ./soft_errqp 5 0 "$soft ctl --rail 1 qp_error" || fail "qp_error on another rail"
[ "$(counter fault_qp)" = 7 ] || fail "fault_qp is $(counter fault_qp)"
report "qp_error"

# Triggers that count packets or bytes must start counting at the beginning of
# this job.
stress --seconds 0.3
printf '%s\n' 'at packet 200 for 50ms rail 0 delay 1ms' \
    'at byte 2M for 50ms rail 0 blackhole tx' >"$tmp/counts"
timeout 20 $soft ctl --session $session --script "$tmp/counts" \
    >"$tmp/script" 2>&1 &
injector=$!
await 3 says '2 steps' "$tmp/script"
sleep 0.1
grep -q 'packet 200' "$tmp/script" && fail "the script did not wait for the job's packets"
before=$(counter drop_blackhole)
stress --seconds 1.5 || { fail "a job"; show "$tmp/stress"; }
wait $injector || { fail "the script"; show "$tmp/script"; }
[ "$(counter drop_blackhole)" -gt "$before" ] || fail "the blackhole dropped nothing"
[ "$(grep -c '(node 0 rail 0)$' "$tmp/script")" = 4 ] ||
    { fail "the script did not print four lines"; show "$tmp/script"; }
healthy counts
report "packet and byte"

# While a script runs, a second one must be rejected. An interrupt must leave
# the rails unchanged and print a message.
echo 'at 0s down
at 60s up' >"$tmp/long"
$soft ctl --session $session --script "$tmp/long" >"$tmp/injector" 2>&1 &
injector=$!
await 3 says '0s down' "$tmp/injector"
busy() { # the only message must be that another script runs
    { grep -q "is already running a script: process $injector\$" "$1" &&
        [ "$(wc -l <"$1")" = 1 ]; } ||
        { fail "no message about the other script"; cat "$1"; }
}
run_script 'at 0s up' && fail "a second script was accepted"
busy "$tmp/script"
$soft --session $session --script "$tmp/long" -- touch "$tmp/ran" \
    >"$tmp/script" 2>&1
[ $? = 1 ] || fail "exit status of a job with a second script"
busy "$tmp/script"
[ ! -e "$tmp/ran" ] || fail "a command was run while another script was active"
kill -INT $injector
wait $injector
[ $? = 1 ] || fail "exit status after an interrupt"
grep -q 'the rails stay as they are' "$tmp/injector" ||
    { fail "no message"; show "$tmp/injector"; }
status | grep -q '"up": false' || fail "the interrupt cleared the fault"
$soft ctl --session $session clear
healthy interrupt
# A script process that was killed must not block the next script.
$soft ctl --session $session --script "$tmp/long" >"$tmp/injector" 2>&1 &
injector=$!
await 3 says '0s down' "$tmp/injector"
{ kill -9 $injector; wait $injector; } 2>/dev/null
run_script 'at 0s clear' || { fail "a script after a killed one"; show "$tmp/script"; }
report "one script at a time, an interrupt, a kill"

# Counts only the script processes of this test's session, because other
# sessions may run as well.
no_injector() {
    for comm in $(grep -ls '^mrail-softfault' /proc/[0-9]*/comm); do
        grep -q "mrail-soft.$(id -u).$session\$" "${comm%comm}maps" \
            2>/dev/null && return 1
    done
    return 0
}

# A script given with a command starts before the command, ends with it, and
# keeps its exit status.
echo 'at 0s rail 1 down
at 1s rail 0 drop 1%
at 60s up' >"$tmp/long"
timeout 20 $soft --session $session --script "$tmp/long" -- sh -c \
    "$soft status --session $session --json; sleep 1.5
     $soft status --session $session --json; exit 7" \
    >"$tmp/out" 2>"$tmp/err"
got=$?
[ $got = 7 ] || fail "exit status $got, not 7"
[ "$(grep -c '"up": false' "$tmp/out")" = 2 ] || fail "rail 1 was not down"
[ "$(grep -c '"loss_ppm": 10000' "$tmp/out")" = 1 ] || fail "no loss"
grep -q 'at 1s rail 0 drop 1%' "$tmp/err" ||
    { fail "steps are not shown"; show "$tmp/err"; }
healthy "the command's end"
await 3 no_injector || fail "the script's process is still running"
# The script also ends if the command is killed.
$soft --session $session --script "$tmp/long" -- sleep 60 2>/dev/null &
job=$!
await 3 shows '"up": false' || fail "rail 1 was not down"
no_injector && fail "no process runs the script"
kill -9 $job
wait $job 2>/dev/null
healthy "a killed command"
report "with a command"

# If the session ends, the script must end as well.
release
gone
hold
timeout 20 $soft ctl --session $session --script "$tmp/long" \
    >"$tmp/script" 2>&1 &
injector=$!
await 3 says '0s rail 1 down' "$tmp/script"
release
gone
wait $injector
[ $? = 1 ] || fail "exit status after the session"
grep -q 'ended before the script' "$tmp/script" ||
    { fail "no message"; show "$tmp/script"; }
echo 'at 0s for 5ms every 10ms down' >"$tmp/long"
timeout 20 $soft --session $session --rails 1 --script "$tmp/long" \
    -- sleep 0.3 2>/dev/null || fail "a script that never ends"
gone
await 3 no_injector || fail "the script's process is still running"
report "the session ends"

# Invalid input must produce one message with file and line, and status 2.
# Nothing may be executed.
SOFT_OPTIONS="--rails 2"
hold
invalid() { # invalid WORDS LINE...
    words=$1
    shift
    printf '%s\n' "$@" >"$tmp/invalid"
    for how in "ctl --session $session --script $tmp/invalid" \
        "--session $session --script $tmp/invalid -- touch $tmp/ran"; do
        timeout 10 $soft $how >"$tmp/out" 2>&1
        got=$?
        [ $got = 2 ] || fail "$how: exit status $got"
        { [ "$(wc -l <"$tmp/out")" = 1 ] && grep -q "$words" "$tmp/out"; } ||
            { fail "the message does not contain '$words'"; show "$tmp/out"; }
    done
    healthy "$*"
}
invalid "invalid:2: 'sideways' is not an action: down, up" 'at 0s down' \
    'at 1ms sideways'
invalid "invalid:2: steps must be in chronological order" 'at 10ms down' 'at 5ms up'
invalid "invalid:1: there is no rail 2: valid numbers are 0 to 1" 'at 0s rail 2 down'
invalid "invalid:1: there is no node 1: valid numbers are 0 to 0" 'at 0s node 0,1 down'
invalid "invalid:1: '1.5' is too large for a probability" 'at 0s drop 1.5'
invalid "invalid:1: '99999999999s' is too large" 'at 99999999999s down'
invalid "invalid:2: 'corrupt' requires a session with --icrc on" 'at 0s down' \
    'at 1ms corrupt 1%'
[ ! -e "$tmp/ran" ] || fail "a command was run"
gives 2 'No such file' $soft ctl --session $session --script "$tmp/none"
gives 2 'Is a directory' $soft ctl --session $session --script "$tmp"
gives 2 'in the script' $soft ctl --session $session --script "$tmp/long" down
gives 2 'in the script' $soft ctl --session $session --rail 1 --script "$tmp/long"
gives 2 "standard input belongs to the command" $soft --session $session --script - -- true
gives 2 "'corrupt' requires" $soft ctl --session $session corrupt=1%
gives 2 'is not a probability[^;]*$' $soft ctl --session $session drop=much
gives 2 'is not an action:.* also egress' $soft ctl --session $session sideways
gives 2 'is not an action:.* also egress' $soft ctl --session $session =
long=$(printf '%0200d' 0)
gives 2 "'drop=0.010*...' is too long for an action" $soft \
    ctl --session $session "drop=0.01$long"
mkdir -p "$tmp/$long/$long"
echo 'at 0s down sideways' >"$tmp/$long/$long/drill"
gives 2 "drill:1: unexpected word 'sideways'; the syntax is 'down'" $soft \
    ctl --session $session --script "$tmp/$long/$long/drill"
gives 2 "drill1': No such file" $soft \
    ctl --session $session --script "$tmp/$long/$long/drill1"
gives 0 '0 steps' $soft ctl --session $session --script -
gives 1 'no session' $soft ctl --session $session-x --script "$tmp/long"
healthy "invalid input"
report "invalid input"
release
gone
report 'the session ends'
finish
