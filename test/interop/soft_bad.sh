#!/bin/bash
# Bad input: each gets one clear sentence and the right exit status; nothing is
# left behind, nothing crashes.
. "$(dirname "$0")/soft_lib.sh"

expect() { # status, words, command
    local want=$1 words=$2
    shift 2
    timeout 10 "$@" >"$TMP/out" 2>&1
    local got=$?
    [ $got = "$want" ] || fail "$*: exit status $got, not $want"
    [ -z "$words" ] || grep -q -- "$words" "$TMP/out" || { fail "$*: says not '$words'"; cat "$TMP/out"; }
}

s="--session $SESSION"
expect 0 Usage $SOFT --help
expect 0 Usage $SOFT ctl --help
expect 0 Usage $SOFT status --help
expect 2 "no command" $SOFT
expect 2 "mrail soft: .*--frob" $SOFT --frob -- true
expect 2 "unknown argument" $SOFT status extra
expect 2 "rate '0'" $SOFT $s --rate 0 -- true
expect 2 "rate '12x'" $SOFT $s --rate 12x -- true
expect 2 "2 rates for 4 rails" $SOFT $s --rails 4 --rate 1M,2M -- true
expect 2 "from 1 to 16" $SOFT $s --rails 17 -- true
expect 2 "more than 256 devices" $SOFT $s --rails 16 --nodes 100 -- true
expect 2 "expected on or off" $SOFT $s --icrc maybe -- true
expect 2 "expected 256, 512" $SOFT $s --mtu 1500 -- true
expect 2 "session name" $SOFT --session ../x -- true
expect 1 "nodes 0 to 0" $SOFT $s --node 3 -- true
[ "$(cat /proc/sys/net/ipv4/ip_nonlocal_bind)" = 1 ] ||
    expect 1 "has not all of the addresses" \
        $SOFT --session $SESSION-b --base 198.51 -- true
expect 127 "cannot run" $SOFT $s -- ./no-such-program
expect 7 "" $SOFT $s -- sh -c 'exit 7'
gone
expect 0 "" $SOFT $s --base 127.77 -- \
    sh -c "$SOFT $s --base 127.78 -- true; [ \$? = 1 ]"
gone
# A command that has just ended is not in the way of another topology.
expect 0 "" $SOFT $s --rails 2 -- true
expect 0 "" $SOFT $s --rails 1 --rate 5M -- true
expect 0 "" $SOFT $s --rails 1 --rate 6M -- true
gone
expect 1 "no session" $SOFT status $s
expect 1 "no session" $SOFT ctl $s down
expect 0 "does not exist" env MRAIL_SOFT=$SESSION \
    LD_PRELOAD=./.libs/libmrail-softroce.so sh -c 'ibv_devices; true'

hold
expect 2 "rate '0'" $SOFT ctl $s rate=0
expect 2 "is not an action" $SOFT ctl $s sideways
expect 2 "from 0 to 1000000" $SOFT ctl $s loss=2000000
expect 2 "mrail soft ctl: .*--json" $SOFT ctl $s --json down
expect 2 "mrail soft status: .*--node" $SOFT status $s --node 0
expect 0 " up .* 0us " $SOFT status $s
expect 0 "" $SOFT ctl $s --rail 2 write_delay=700us
expect 0 "soft2 .* 700us " $SOFT status $s
expect 0 '"soft2".*"write_delay_us": 700' $SOFT status $s --json
expect 0 "" $SOFT ctl $s write_delay=0us
expect 0 "" $SOFT ctl $s --rail 2 delay=1ms
expect 0 '"soft2".*"delay_us": 1000,' $SOFT status $s --json
expect 0 "" $SOFT ctl $s delay=0
expect 2 "'1x' is not a time" $SOFT ctl $s delay=1x
expect 2 "rails 0 to 3" $SOFT ctl $s --rail 4 down
expect 1 "has 1 nodes x 4 rails" $SOFT $s --rails 2 -- true
expect 1 "made with other rates" $SOFT $s --rate 5M -- true
expect 0 "" $SOFT $s --rate max -- true
expect 1 "has --icrc off" $SOFT $s --icrc on -- true

# Garbage, and packets of external hosts, are dropped and counted.
addr=$(status | grep -o '127\.[0-9.]*' | head -1)
soft ./soft_stress --procs 2 --seconds 1.5 >"$TMP/storm" 2>&1 &
storm=$!
sleep 0.7
for i in $(seq 50); do
    echo "x" >"/dev/udp/$addr/4791"
    head -c $((RANDOM % 2000 + 1)) /dev/urandom >"/dev/udp/$addr/4791"
    printf '\x06\x40\xff\xff\x00\x00\x00\x0%x' $((i % 8)) >"/dev/udp/$addr/4791"
done 2>/dev/null
wait $storm || { fail "garbage disturbed a job"; cat "$TMP/storm"; }
short=$(counter drop_short) wrong=$(counter drop_misrouted)
say "garbage: $short too short, $wrong for nobody"
[ "$short" -gt 0 ] || fail "short packets were not counted"

# More processes than a device has slots.
soft ./soft_processes 129 >"$TMP/out" 2>&1 && fail "129 opens of one device"
grep -q 'slots of the device are taken' "$TMP/out" ||
    { fail "no sentence about slots"; head -3 "$TMP/out"; }
soft ./soft_processes 128 || fail "128 opens of one device"
(ulimit -n 1024; soft ./soft_stress --procs 4 --rails 4 --seconds 0.3) ||
    fail "1024 descriptors are not enough"

# A session daemon that runs out of descriptors: the process that it turns away says
# what to do, and those that have a slot go on.
full=$SESSION-full
(ulimit -n 24; exec timeout 30 $SOFT --session $full -- sleep 30) &
filler=$!
await $SOFT status --session $full >/dev/null 2>&1 || fail "session $full"
timeout 20 $SOFT --session $full -- ./soft_processes 40 >"$TMP/out" 2>&1 &&
    fail "40 opens with a session daemon of 24 descriptors"
grep -q "raise the hard limit ('ulimit -Hn')" "$TMP/out" ||
    { fail "no sentence about the session daemon's limit"; head -3 "$TMP/out"; }
kill $filler; wait $filler 2>/dev/null
# The same in the process itself.
(ulimit -n 40; soft ./soft_processes 100) >"$TMP/out" 2>&1 &&
    fail "100 opens with 40 descriptors"

# A damaged file, another version, another mode.
file=/dev/shm/mrail-soft.$(id -u).$SESSION
cp "$file" "$TMP/good"
printf 'X' | dd of="$file" bs=1 seek=0 conv=notrunc 2>/dev/null
expect 1 "damaged" $SOFT status $s
dd if="$TMP/good" of="$file" bs=8 count=1 conv=notrunc 2>/dev/null
printf '\x63' | dd of="$file" bs=1 seek=8 conv=notrunc 2>/dev/null
expect 1 "another version" $SOFT status $s
dd if="$TMP/good" of="$file" bs=16 count=1 conv=notrunc 2>/dev/null
chmod 644 "$file"
expect 1 "mode 0600" $SOFT status $s
chmod 600 "$file"
expect 0 "soft3" $SOFT status $s
release
gone
# Without a session the library lets everything through.
n=$(LD_PRELOAD=./.libs/libmrail-softroce.so ibv_devices 2>&1 | grep -c soft)
[ "$n" = 0 ] || fail "devices without a session"
finish
