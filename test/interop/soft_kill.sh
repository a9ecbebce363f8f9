#!/bin/bash
# Processes start, exit and are killed while others send. The other processes
# must continue and receive their packets, and nothing may be left behind. The
# same must hold if the session daemon is killed.
. "$(dirname "$0")/soft_lib.sh"

SOFT_OPTIONS="--nodes 2 --rails 2"
hold
# A third of the processes kill themselves halfway.
soft ./soft_stress --procs 9 --nodes 2 --rails 2 --kill 3 --seconds 2 \
    >"$tmp/out" 2>&1 || { fail "survivors"; show "$tmp/out"; }
show "$tmp/out"
# Processes join, exit and are killed during a long job, which must not be
# affected.
soft ./soft_stress --procs 4 --nodes 2 --rails 2 --seconds 3 >"$tmp/long" 2>&1 &
long=$!
for _ in 1 2; do
    soft ./soft_stress --procs 6 --nodes 2 --rails 2 --kill 3 --seconds 0.5 \
        >/dev/null 2>&1
    soft ./soft_stress --procs 3 --nodes 2 --rails 2 --seconds 0.3 --cleanup \
        >/dev/null 2>&1 || fail "a job next to the long one"
done
wait $long || { fail "the long job"; show "$tmp/long"; }
show "$tmp/long"
lost=$(counter drop_misrouted)
[ "$lost" = 0 ] || fail "$lost packets reached the wrong process"
report 'processes are killed: the others continue and receive their packets'
# The session daemon reclaims the slots the next time it runs.
slots_free() { status >"$tmp/slots" && ! grep -q '"processes": [1-9]' "$tmp/slots"; }
await 3 slots_free || fail "dead processes still have slots"
release
gone
report 'processes are killed: nothing is left behind'

# Kill the session daemon while a job runs.
session=$session-k
hold
soft ./soft_stress --procs 4 --seconds 2 >"$tmp/alone" 2>&1 &
alone=$!
sleep 0.7
for p in /proc/[0-9]*; do
    [ "$(cat "$p/comm" 2>/dev/null)" = mrail-softd ] || continue
    if grep -q "mrail-soft.$(id -u).$session\$" "$p/maps" 2>/dev/null; then
        kill -9 "${p#/proc/}"
        killed=1
    fi
done
[ -n "${killed:-}" ] || fail "the session daemon was not found"
# The kernel closes the files of the killed session daemon after a delay.
for _ in 1 2 3 4 5 6 7 8 9 10; do
    sleep 0.2
    timeout 5 $soft status --session $session >/dev/null 2>&1 || break
done
timeout 5 $soft status --session $session >/dev/null 2>&1 &&
    fail "a session without a session daemon is listed"
release
wait $alone || { fail "a job without a session daemon"; show "$tmp/alone"; }
# The name can be reused immediately.
soft ./soft_stress --procs 2 --seconds 0.2 >/dev/null || fail "new session"
gone
report 'the session daemon is killed'
finish
