#!/bin/bash
# Checks packets as tshark decodes them: all opcodes of RC and UD, NAKs and
# immediate data, with ICRC enabled. They are captured on the loopback device of
# a separate network namespace, where the kernel splits all super-packets. Word
# splitting is intended, and soft_lib.sh uses some of the variables.
# shellcheck disable=SC2034,SC2086
# shellcheck source=test/interop/soft_lib.sh
. "$(dirname "$0")/soft_lib.sh"

python=${PYTHON3:-/usr/bin/python3}
folder=$(dirname "$0")/verbs

# Inside the namespace, captures packets until `run` has ended.
inside() {
    local i
    # Limits each packet to one segment, so that the kernel splits super-packets
    # before the tap captures them.
    ip link set lo up gso_max_segs 1 || skip_all "ip link cannot set gso_max_segs"
    dumpcap -q -i lo -f 'udp port 4791' -w "$tmp/packets" 2>"$tmp/dumpcap" &
    capture=$!
    for ((i = 0; i < 100; ++i)); do
        grep -q '^File:' "$tmp/dumpcap" && break
        kill -0 $capture 2>/dev/null ||
            bail_out "dumpcap: $(head -1 "$tmp/dumpcap")"
        sleep 0.1
    done
    sleep 0.2
    SOFT_OPTIONS='--icrc on'
    PYTHONDONTWRITEBYTECODE=1 MRAIL_TEST_SOFT=$soft \
        soft "$python" "$folder/capture.py" run "$tmp/expected" ||
        fail "capture.py run: exit status $?"
    sleep 0.5
    kill -INT $capture
    wait $capture
    dissect
    gone
    report 'the capture and the session end'
    finish
}

# The payload belongs to no known protocol, but tshark would guess one.
dissect() {
    local args='' field
    for field in $("$python" "$folder/capture.py" fields); do
        args="$args -e $field"
    done
    # HOME is changed so that the user's tshark settings have no effect.
    HOME=$tmp XDG_CONFIG_HOME=$tmp \
        tshark -r "$tmp/packets" --disable-protocol rpcordma \
        --disable-protocol smb_direct --disable-protocol iser \
        -T fields $args >"$tmp/seen" 2>"$tmp/tshark" ||
        fail "tshark: exit status $?: $(tail -1 "$tmp/tshark")"
    PYTHONDONTWRITEBYTECODE=1 "$python" "$folder/capture.py" check \
        "$tmp/expected" "$tmp/seen" >"$tmp/out" 2>&1 ||
        fail "capture.py check: exit status $?"
    results "$tmp/out"
}

if [ "${1:-}" = inside ]; then
    inside
fi
need tshark dumpcap unshare ip
"$python" -c 'import pyverbs.qp' 2>/dev/null ||
    skip_all "python3-pyverbs is not installed"
unshare -Urn true 2>/dev/null || skip_all "no user namespaces (unshare -Urn)"
timeout 100 unshare -Urn "$0" inside
exit
