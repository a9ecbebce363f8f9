# shellcheck shell=bash
# Helpers of the software-rail tests, beside those of test/lib.sh.  Some results are of
# several conditions: `fail` says which one does not hold, `report` gives the result.
# shellcheck source=test/lib.sh
. "$(dirname "$0")/../lib.sh"
cd "$build" || bail_out "no folder $build"
need_built mrail-soft
unmet=0

fail() { echo "# FAILED: $*"; unmet=1 failed=1; }

# show FILE: the output of a program, for a failure.
show() { excerpt "$1"; }

# report NAME: one result for all checks since the last report.
report() {
    if [ $unmet = 0 ]; then
        ok "$1"
    else
        not_ok "$1" 'see above'
        unmet=0
    fi
}

# gives STATUS PATTERN COMMAND...: one result, which has the name of the command.
gives() {
    local want=$1 pattern=$2 name
    shift 2
    name=${*//"$session"/NAME}
    name=${name//"$tmp"/TMP}
    name=${name//"$soft"/mrail soft}
    expect_run "${name:0:120}" "$want" "$pattern" timeout 10 "$@"
}

# Runs "$@" in the test's session.  SOFT_OPTIONS: more options of mrail soft.
soft() {
    timeout ${LIMIT_S:-40} $soft --session $session ${SOFT_OPTIONS:-} -- "$@"
}

status() { $soft status --session $session --json; }

# Sum of a counter over all devices of the session.
counter() { status | sed 's/"protocol": {[^}]*}//' | json_sum "$1"; }

# A TCP port of this test's own.
port() { echo $((20000 + $$ % 20000)); }
p=$(port)

# Waits until somebody listens on the TCP port $p.
await_listener() { await 5 listens "$p" || fail "nobody listens on port $p"; }

# The kernel's count of drops at the session's receive sockets (port 4791 = 12B7
# of 127.S.x.y).
kernel_drops() {
    local s
    s=$(status | grep -o '127\.[0-9]*' | head -1)
    awk -v a="$(printf '%02X7F:12B7$' "${s#127.}")" \
        '$2 ~ a {n += $NF} END {printf "%.0f\n", n}' /proc/net/udp
}

# pair NAME ARGS...: server and client of a verbs program. The client gets
# 127.0.0.1 as its last argument. Their output is in $tmp/server and
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

# The session must be gone a moment after its last process.
gone() { await 10 is_gone || fail "session $session was left behind"; }
is_gone() { ! ls /dev/shm/mrail-soft.*."$session"* >/dev/null 2>&1; }
