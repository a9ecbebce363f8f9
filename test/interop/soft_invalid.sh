#!/bin/bash
# Checks invalid input. Each case must produce one clear message and the correct
# exit status, without a crash and without leftover files.
. "$(dirname "$0")/soft_lib.sh"

s="--session $session"
gives 0 Usage $soft --help
gives 0 Usage $soft ctl --help
gives 0 Usage $soft status --help
gives 2 "missing command" $soft
gives 2 "mrail soft: .*--frob" $soft --frob -- true
gives 2 "unknown argument" $soft status extra
gives 2 "rate '0'" $soft $s --rate 0 -- true
gives 2 "'12x' is not a rate" $soft $s --rate 12x -- true
gives 2 "2 rates for 4 rails" $soft $s --rails 4 --rate 1M,2M -- true
gives 2 "from 1 to 16" $soft $s --rails 17 -- true
gives 2 "at most 256 rails are supported" $soft $s --rails 16 --nodes 100 -- true
gives 2 "expected on or off" $soft $s --icrc maybe -- true
gives 2 "expected 256, 512" $soft $s --mtu 1500 -- true
gives 2 "session name" $soft --session ../x -- true
gives 1 "nodes 0 to 0" $soft $s --node 3 -- true
[ "$(cat /proc/sys/net/ipv4/ip_nonlocal_bind)" = 1 ] ||
    gives 1 "does not have all addresses" \
        $soft --session $session-b --base 198.51 -- true
gives 127 "cannot run" $soft $s -- ./no-such-program
gives 7 "" $soft $s -- sh -c 'exit 7'
gone
gives 0 "" $soft $s --base 127.77 -- \
    sh -c "$soft $s --base 127.78 -- true; [ \$? = 1 ]"
gone
# A session whose command has just ended must not prevent a new session of the
# same name with another topology.
gives 0 "" $soft $s --rails 2 -- true
gives 0 "" $soft $s --rails 1 --rate 5M -- true
gives 0 "" $soft $s --rails 1 --rate 6M -- true
gone
gives 1 "no session" $soft status $s
gives 1 "no session" $soft ctl $s down
gives 0 "does not exist" env MRAIL_SOFT=$session \
    LD_PRELOAD=./.libs/libmrail-softroce.so sh -c 'ibv_devices; true'

hold
gives 2 "rate '0'" $soft ctl $s rate=0
gives 2 "is not an action" $soft ctl $s sideways
gives 2 "from 0 to 1000000" $soft ctl $s loss=2000000
gives 2 "mrail soft ctl: .*--json" $soft ctl $s --json down
gives 2 "mrail soft status: .*--node" $soft status $s --node 0
gives 0 " up .* 0us " $soft status $s
gives 0 "" $soft ctl $s --rail 2 write_delay=700us
gives 0 "soft2 .* 700us " $soft status $s
gives 0 '"soft2".*"write_delay_us": 700' $soft status $s --json
gives 0 "" $soft ctl $s write_delay=0us
gives 0 "" $soft ctl $s --rail 2 delay=1ms
gives 0 '"soft2".*"delay_us": 1000,' $soft status $s --json
gives 0 "" $soft ctl $s delay=0
gives 2 "'1x' is not a time" $soft ctl $s delay=1x
gives 2 "rails 0 to 3" $soft ctl $s --rail 4 down
gives 1 "has 1 nodes x 4 rails" $soft $s --rails 2 -- true
gives 1 "created with different rates" $soft $s --rate 5M -- true
gives 0 "" $soft $s --rate max -- true
gives 1 "has --icrc off" $soft $s --icrc on -- true

# Garbage and packets from external hosts must be dropped and counted.
addr=$(status | grep -o '127\.[0-9.]*' | head -1)
soft ./soft_stress --procs 2 --seconds 1.5 >"$tmp/stress" 2>&1 &
stress=$!
sleep 0.7
for i in $(seq 50); do
    echo "x" >"/dev/udp/$addr/4791"
    head -c $((RANDOM % 2000 + 1)) /dev/urandom >"/dev/udp/$addr/4791"
    printf '\x06\x40\xff\xff\x00\x00\x00\x0%x' $((i % 8)) >"/dev/udp/$addr/4791"
done 2>/dev/null
wait $stress || { fail "garbage disturbed a job"; show "$tmp/stress"; }
short=$(counter drop_short) wrong=$(counter drop_misrouted)
echo "# garbage: $short too short, $wrong for unknown QPs"
[ "$short" -gt 0 ] || fail "short packets were not counted"
report 'garbage is dropped and counted, and a job continues'

# Opens one device in more processes than it has slots.
soft ./soft_processes 129 >"$tmp/out" 2>&1 && fail "129 opens of one device"
grep -q 'slots of the device are taken' "$tmp/out" ||
    { fail "no message about slots"; show "$tmp/out"; }
soft ./soft_processes 128 || fail "128 opens of one device"
(ulimit -n 1024; soft ./soft_stress --procs 4 --rails 4 --seconds 0.3) ||
    fail "1024 descriptors are not enough"
report 'as many processes as a device has slots, and one too many'

# The session daemon runs out of descriptors. A rejected process must print the
# remedy, and processes that already have a slot must continue.
full=$session-full
(ulimit -n 24; exec timeout 30 $soft --session $full -- sleep 30) &
filler=$!
await 3 $soft status --session $full >/dev/null 2>&1 || fail "session $full"
timeout 20 $soft --session $full -- ./soft_processes 40 >"$tmp/out" 2>&1 &&
    fail "40 opens with a session daemon of 24 descriptors"
grep -q "raise the hard limit ('ulimit -Hn')" "$tmp/out" ||
    { fail "no message about the session daemon's limit"; show "$tmp/out"; }
kill $filler; wait $filler 2>/dev/null
# Here, the process itself runs out of descriptors.
(ulimit -n 40; soft ./soft_processes 100) >"$tmp/out" 2>&1 &&
    fail "100 opens with 40 descriptors"
report 'too few descriptors in the session daemon, and in the process'

# The session file is damaged, was written by another version, or has a different
# mode.
file=/dev/shm/mrail-soft.$(id -u).$session
cp "$file" "$tmp/good"
printf 'X' | dd of="$file" bs=1 seek=0 conv=notrunc 2>/dev/null
gives 1 "damaged" $soft status $s
dd if="$tmp/good" of="$file" bs=8 count=1 conv=notrunc 2>/dev/null
printf '\x63' | dd of="$file" bs=1 seek=8 conv=notrunc 2>/dev/null
gives 1 "another version" $soft status $s
dd if="$tmp/good" of="$file" bs=16 count=1 conv=notrunc 2>/dev/null
chmod 644 "$file"
gives 1 "mode 0600" $soft status $s
chmod 600 "$file"
gives 0 "soft3" $soft status $s
release
gone
# Without a session, the library must pass all calls through.
n=$(LD_PRELOAD=./.libs/libmrail-softroce.so ibv_devices 2>&1 | grep -c soft)
[ "$n" = 0 ] || fail "devices without a session"
report 'without a session, the library passes all calls through'
finish
