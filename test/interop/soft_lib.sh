# shellcheck shell=bash
# Helpers for the software-rail tests, in addition to those in test/lib.sh. Some
# results depend on several conditions. `fail` names a condition that does not
# hold, and `report` then prints the result.
# shellcheck source=test/lib.sh
. "$(dirname "$0")/../lib.sh"
cd "$build" || bail_out "no directory $build"
need_built mrail-soft
unmet=0

fail() { echo "# FAILED: $*"; unmet=1 failed=1; }

# show FILE: prints the output of a program after a failure.
show() { excerpt "$1"; }

# report NAME: prints one result for all checks since the last report.
report() {
    if [ $unmet = 0 ]; then
        ok "$1"
    else
        not_ok "$1" 'see above'
        unmet=0
    fi
}

# gives STATUS PATTERN COMMAND...: runs the command, and prints one result named
# after the command.
gives() {
    local want=$1 pattern=$2 name
    shift 2
    name=${*//"$session"/NAME}
    name=${name//"$tmp"/TMP}
    name=${name//"$soft"/mrail soft}
    expect_run "${name:0:120}" "$want" "$pattern" timeout 10 "$@"
}

# Runs "$@" in the session of the test. SOFT_OPTIONS holds further options of
# mrail soft.
soft() {
    timeout ${LIMIT_S:-40} $soft --session $session ${SOFT_OPTIONS:-} -- "$@"
}

status() { $soft status --session $session --json; }

# Prints the sum of a counter over all devices of the session.
counter() { status | sed 's/"protocol": {[^}]*}//' | json_sum "$1"; }

p=$(free_port)

# Waits until a process listens on the TCP port $p.
await_listener() { await 5 listens "$p" || fail "no process listens on port $p"; }

# Prints the number of drops that the kernel counted at the receive sockets of
# the session. In the kernel's table, port 4791 is 12B7, and the addresses are
# 127.S.x.y.
kernel_drops() {
    local s
    s=$(status | grep -o '127\.[0-9]*' | head -1)
    awk -v a="$(printf '%02X7F:12B7$' "${s#127.}")" \
        '$2 ~ a {n += $NF} END {printf "%.0f\n", n}' /proc/net/udp
}

# pair NAME ARGS...: runs the server and the client of a verbs program. The
# client's last argument is 127.0.0.1. Their output is in $tmp/server and
# $tmp/client.
pair() {
    soft "$@" >"$tmp/server" 2>&1 &
    server=$!
    await_listener
    if ! soft "$@" 127.0.0.1 >"$tmp/client" 2>&1; then
        fail "$*: client exit status $?"; show "$tmp/client"
        kill $server 2>/dev/null
    fi
    wait $server || { fail "$*: server"; show "$tmp/server"; }
}

# Keeps the session alive between jobs, so that its counters can be read.
hold() {
    timeout ${HOLD_S:-80} $soft --session $session ${SOFT_OPTIONS:-} \
        -- sleep ${HOLD_S:-80} &
    holder=$!
    await 10 is_there || bail_out "session $session did not start"
}
is_there() { status >/dev/null 2>&1; }
release() { kill $holder; wait $holder 2>/dev/null; }

# The session must disappear shortly after its last process has exited.
gone() { await 10 is_gone || fail "session $session was left behind"; }
is_gone() { ! ls /dev/shm/mrail-soft.*."$session"* >/dev/null 2>&1; }
