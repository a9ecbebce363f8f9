#!/bin/bash
# Checks the effects of `mrail soft ctl` on a running job: loss, delay, rates,
# and ports that go down and up with events. In all cases, the data must be
# correct.
. "$(dirname "$0")/soft_lib.sh"

ctl() { $soft ctl --session $session "$@" || fail "ctl $*"; }
stress() { soft ./soft_stress --procs 3 --rails 2 "$@" || fail "soft_stress $*"; }

SOFT_OPTIONS="--rails 2"
hold
soft ./soft_events $soft || fail "port events"
report 'port events'
ctl loss=10000
stress --seconds 1 --op write
stress --seconds 1 --op send
stress --seconds 1 --op read
[ "$(counter drop_loss)" -gt 10 ] || fail "no packet was lost"
report 'loss: the data remains correct'
ctl loss=0 delay=2000
stress --seconds 1
ctl delay=0
report 'delay: the data remains correct'
# Both ports are down for 0.4 s. All traffic stops, and then continues.
soft ./soft_stress --procs 3 --rails 2 --seconds 3 >"$tmp/out" 2>&1 &
job=$!
sleep 1; ctl --rail 0 down; sleep 0.4; ctl --rail 0 up
wait $job || { fail "port down and up"; show "$tmp/out"; }
[ "$(counter drop_down)" -gt 0 ] || fail "nothing was discarded while down"
report 'ports down and up: the job continues'

# Two processes on one rail together stay below its rate. A rate change takes
# effect while they run.
ctl rate=40M
before=$(counter rx_bytes) start=$(date +%s%N)
stress --procs 3 --rails 1 --seconds 2
bytes=$(($(counter rx_bytes) - before)) ns=$(($(date +%s%N) - start))
rate=$((bytes * 1000 / (ns / 1000000)))
echo "# 40 MB/s cap: $((rate / 1000)) kB/s over the whole run"
[ $rate -le 41000000 ] || fail "40 MB/s rail carried $rate bytes per second"
ctl rate=max
release
gone
report 'a rate limits traffic immediately'
finish
