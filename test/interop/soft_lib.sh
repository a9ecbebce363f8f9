# shellcheck shell=bash
# Helpers of the software-rail tests; they run in the build directory.
# A test is a shell script: exit status 0 passed, 77 skipped, else failed.
set -u
SOFT=./mrail-soft
SESSION=t$$
TMP=$(mktemp -d)
FAILED=0

soft_cleanup() {
    # Only what this test started.
    for pid in $(jobs -p); do kill -9 "$pid" 2>/dev/null; done
    rm -rf "$TMP"
}
trap soft_cleanup EXIT

say() { echo "$*"; }
fail() { echo "FAILED: $*"; FAILED=1; }
skip() { echo "SKIPPED: $*"; exit 77; }
finish() { [ $FAILED = 0 ] && say "ok"; exit $FAILED; }

need() {
    for tool in "$@"; do
        command -v "$tool" >/dev/null 2>&1 || skip "$tool is not installed"
    done
}

# Runs "$@" in the test's session.  SOFT_OPTIONS: more options of mrail soft.
soft() {
    timeout ${LIMIT_S:-40} $SOFT --session $SESSION ${SOFT_OPTIONS:-} -- "$@"
}

status() { $SOFT status --session $SESSION --json; }

# Sum of a counter over all devices of the session.
counter() {
    status | sed 's/"protocol": {[^}]*}//' | grep -o "\"$1\": [0-9]*" | awk '{n += $2} END {printf "%.0f\n", n}'
}

# await COMMAND...: until it succeeds, for some seconds on a busy machine.
await() {
    for _ in $(seq 60); do
        "$@" && return 0
        sleep 0.05
    done
    return 1
}

# A TCP port of this test's own.
port() { echo $((20000 + $$ % 20000)); }
p=$(port)

# Waits until somebody listens on the TCP port $p.
await_listener() {
    local hex i
    hex=$(printf '%04X' "$p")
    for ((i = 0; i < 100; ++i)); do
        grep -qE "^ *[0-9]+: [0-9A-F]+:$hex [0-9A-F]+:0000 0A" \
            /proc/net/tcp /proc/net/tcp6 2>/dev/null && return 0
        sleep 0.05
    done
    fail "nobody listens on port $p"
}

# The kernel's count of drops at the session's receive sockets (port 4791 = 12B7
# of 127.S.x.y).
kernel_drops() {
    local s
    s=$(status | grep -o '127\.[0-9]*' | head -1)
    awk -v a="$(printf '%02X7F:12B7$' "${s#127.}")" \
        '$2 ~ a {n += $NF} END {printf "%.0f\n", n}' /proc/net/udp
}

# Server and client of a verbs program: pair NAME ARGS...; the client gets
# 127.0.0.1 at the end.  Output in $TMP/server and $TMP/client.
pair() {
    soft "$@" >"$TMP/server" 2>&1 &
    server=$!
    await_listener
    if soft "$@" 127.0.0.1 >"$TMP/client" 2>&1; then
        :
    else
        fail "$*: client exit status $?"; tail -5 "$TMP/client"
        kill $server 2>/dev/null
    fi
    wait $server || { fail "$*: server"; tail -5 "$TMP/server"; }
}

# Keeps the session alive between jobs, so that its counters can be read.
hold() {
    timeout ${HOLD_S:-80} $SOFT --session $SESSION ${SOFT_OPTIONS:-} \
        -- sleep ${HOLD_S:-80} &
    holder=$!
    for _ in $(seq 100); do
        status >/dev/null 2>&1 && return 0
        sleep 0.1
    done
    fail "session $SESSION did not start"
}
release() { kill $holder; wait $holder 2>/dev/null; }

# The session must be gone a moment after its last process.
gone() {
    for _ in $(seq 100); do
        ls /dev/shm/mrail-soft.*."$SESSION"* >/dev/null 2>&1 || return 0
        sleep 0.1
    done
    fail "session $SESSION was left behind"
}
