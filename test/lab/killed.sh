#!/bin/sh
# Kills processes of mrail lab with SIGKILL at random times, and terminates the
# lab with SIGTERM and SIGHUP. No process, namespace, mount or file may be left
# behind. LAB_KILL_SEED sets the seed, and LAB_KILLS the number of kills.
set -u
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
# shellcheck source=test/lab/lib.sh
. "$top/test/lab/lib.sh"
need_built mrail-lab mrail-soft
need pgrep setsid
lab=$build/mrail-lab
need_lab
spread_fabric
export lab soft
seed=${LAB_KILL_SEED:-$$}
kills=${LAB_KILLS:-8}
token=$tmp/spread.fabric # occurs in the command line of each process in the lab
end_s=5

# Starts a session of software rails with its daemon, and an orphan process.
cat >"$tmp/work" <<'END'
"$lab" exec h1 -- "$soft" --addresses /dev/shm/mrail-lab/addresses \
    --session lab -- sleep 1000 &
(setsid sleep 1000 &)
touch "$2"
sleep 1000
: "$1"
END

# left: prints the remains of a lab, one item per line.
left()
{
    processes "$token" | sed 's/^/process /'
    grep mrail-lab /proc/self/mountinfo
    find /dev/shm -maxdepth 1 \( -name 'mrail-lab*' -o -name 'mrail-soft.*.lab*' \)
    ip -o link 2>/dev/null | grep -E ' (rail|up|down|m)[0-9]+@'
    ! pgrep -f 'sleep 1000 '"$$" >/dev/null || echo 'a sleeping process'
}

is_clean()
{
    [ -z "$(left)" ]
}

# Prints the process ID of the victim: the process that the user started, the
# first process of the lab, or CMD.
victim_of()
{
    case $1 in
    outer) echo "$2" ;;
    inner) pgrep -P "$2" | head -n 1 ;;
    command)
        inner=$(pgrep -P "$2" | head -n 1)
        [ -z "$inner" ] || pgrep -P "$inner" -f "^sh $tmp/work" | head -n 1
        ;;
    esac
}

# Marks the sleep processes of this script.
sed -i "s/sleep 1000/sleep 1000 $$/" "$tmp/work"
for kill in $(seq "$kills"); do
    awk -v seed="$((seed * 100 + kill))" 'BEGIN { srand(seed)
        split("outer inner command", victims)
        print int(rand() * 900), victims[1 + int(rand() * 3)] }' >"$tmp/plan"
    read -r delay_ms whom <"$tmp/plan"
    rm -f "$tmp/started"
    env -u UCX_MRAIL_TELEMETRY_DIR "$lab" "$tmp/spread.fabric" --quiet \
        --routing rules -- sh "$tmp/work" "$token" "$tmp/started" \
        >"$tmp/out" 2>&1 &
    pid=$!
    # Half of the kills happen while the lab is still being set up.
    [ $((kill % 2)) = 0 ] || await 20 test -e "$tmp/started" || :
    sleep "$(awk -v ms="$delay_ms" 'BEGIN { print ms / 1000 }')"
    victim=$(victim_of "$whom" "$pid")
    [ -z "$victim" ] || kill -9 "$victim" 2>/dev/null
    # Before the command has started, the lab has no process of that kind.
    [ -n "$victim" ] || kill -9 "$pid"
    wait "$pid" 2>/dev/null
    if await $end_s is_clean; then
        ok "kill $kill of $whom after $delay_ms ms leaves nothing"
    else
        left >"$tmp/left"
        not_ok "kill $kill of $whom after $delay_ms ms leaves nothing" \
            "LAB_KILL_SEED=$seed $0" "$tmp/left"
    fi
done

# Signals during the set-up end the lab, so the command never starts. The
# command would run for longer than this test waits.
for case in 'TERM 143 0' 'HUP 129 0.1' 'TERM 143 0.3'; do
    # shellcheck disable=SC2086 # three words
    set -- $case
    rm -f "$tmp/started"
    env -u UCX_MRAIL_TELEMETRY_DIR "$lab" "$tmp/spread.fabric" --quiet \
        --routing rules -- sh "$tmp/work" "$token" "$tmp/started" \
        >"$tmp/out" 2>&1 &
    pid=$!
    await 20 pgrep -P "$pid" >/dev/null || :
    sleep "$3"
    kill "-$1" "$pid"
    name="SIG$1 ends the lab $3 s after the start of its set-up"
    if await $end_s is_clean; then
        wait "$pid"
        is "$name" "$2" $?
    else
        left >"$tmp/left"
        not_ok "$name" 'there are remains' "$tmp/left"
        kill -9 "$pid"
        wait "$pid"
    fi
done

# Terminates the lab by a signal, as a terminal or a batch system does.
env -u UCX_MRAIL_TELEMETRY_DIR "$lab" "$tmp/spread.fabric" --quiet \
    -- sh "$tmp/work" "$token" "$tmp/term" >"$tmp/out" 2>&1 &
pid=$!
await 20 test -e "$tmp/term" || not_ok 'the lab starts' 'the command did not start' "$tmp/out"
kill -TERM "$pid"
wait "$pid"
is 'SIGTERM terminates the lab' 143 $?
if await $end_s is_clean; then
    ok 'SIGTERM leaves nothing'
else
    left >"$tmp/left"
    not_ok 'SIGTERM leaves nothing' 'there are remains' "$tmp/left"
fi
finish
