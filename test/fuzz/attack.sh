#!/bin/sh
# A job on software rails and an attacker on the same network, in a network
# namespace of its own.  attacker.c has the attacks, docs/security.md their limits.
set -eu
if [ ! -x ./attacker ] || [ ! -x ./attack_job ]; then
    echo "attacker and attack_job are not built"
    exit 77
fi
if [ "${1-}" != inside ]; then
    command -v unshare >/dev/null 2>&1 || { echo "no unshare"; exit 77; }
    command -v ip >/dev/null 2>&1 || { echo "no ip (iproute2)"; exit 77; }
    if ! unshare -Urn ip link set lo up 2>/dev/null; then
        echo "no network namespace here: unshare -Urn is not permitted"
        exit 77
    fi
    exec unshare -Urn "$0" inside
fi
# One packet at a time: the attacker sees, and replays, what is on a wire, and not
# the runs that the stack cuts later.
ip link set lo up gso_max_segs 1
seconds=5
[ -z "${MRAIL_TEST_FULL-}" ] || seconds=30
export MRAIL_ATTACK_SECONDS=$seconds
export MRAIL_TEST_SOFT="$PWD/mrail-soft"
log=$(mktemp)
trap 'kill "$attacker" 2>/dev/null || true; rm -f "$log"' EXIT
./attacker $((seconds + 3)) >"$log" 2>&1 &
attacker=$!
status=0
# shellcheck disable=SC2016 # the inner shell's
"$MRAIL_TEST_SOFT" --session "attack-$$" --nodes 2 --rails 2 --node 0 \
    --icrc "${MRAIL_ATTACK_ICRC-off}" \
    -- sh -c './attack_job; status=$?
        "$MRAIL_TEST_SOFT" status --session "$MRAIL_SOFT" --json >"$0"
        exit $status' "$log.json" || status=$?
wait "$attacker" || status=$?
cat "$log"
# Sum of a counter over all devices.
counter()
{
    grep -o "\"$1\": [0-9]*" "$log.json" | awk '{ n += $2 } END { print n + 0 }'
}
for name in drop_source rx_dup; do
    n=$(counter $name)
    if [ "$n" -gt 0 ]; then
        echo "ok - $name counts: $n"
    else
        echo "not ok - $name counts: it is 0"
        head -c 2000 "$log.json"
        status=1
    fi
done
for name in drop_qpn drop_length drop_header drop_opcode rx_stale ooo \
    timeouts drop_kernel drop_misrouted drop_short; do
    printf '# %s %s\n' $name "$(counter $name)"
done
rm -f "$log.json"
exit "$status"
