#!/bin/sh
# Runs a job on software rails, and an attacker on the same network, in a
# separate network namespace. attacker.c contains the attacks, and
# docs/security.md describes their limits.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need_built mrail-soft attacker attack_job
if [ "${1-}" != inside ]; then
    need unshare ip
    unshare -Urn ip link set lo up 2>/dev/null ||
        skip_all 'no network namespace: unshare -Urn is not permitted'
    status=0
    unshare -Urn "$0" inside || status=$?
    exit $status
fi
# The network stack must not combine packets into super-packets that it splits
# later. The attacker then captures and replays packets as they are on the wire.
ip link set lo up gso_max_segs 1 || skip_all 'ip link cannot set gso_max_segs'
seconds=5
[ -z "${MRAIL_TEST_FULL-}" ] || seconds=30
export MRAIL_ATTACK_SECONDS=$seconds
export MRAIL_TEST_SOFT="$soft"
"$build/attacker" $((seconds + 3)) >"$tmp/attacker" 2>&1 &
attacker=$!
# shellcheck disable=SC2016 # expanded by the inner shell
run_program '' "$soft" --session "$session" --nodes 2 --rails 2 --node 0 \
    --icrc "${MRAIL_ATTACK_ICRC-off}" \
    -- sh -c '"$1"; status=$?
        "$MRAIL_TEST_SOFT" status --session "$MRAIL_SOFT" --json >"$0"
        exit $status' "$tmp/status" "$build/attack_job"
status=0
wait "$attacker" || status=$?
sed 's/^/# /' "$tmp/attacker"
is 'the attacker runs to its end' 0 $status
for name in drop_source rx_dup; do
    n=$(json_sum $name "$tmp/status")
    if [ "$n" -gt 0 ]; then
        ok "$name is counted"
    else
        not_ok "$name is counted" 'it is 0' "$tmp/status"
    fi
    printf '# %s %s\n' $name "$n"
done
for name in drop_qpn drop_length drop_header drop_opcode rx_stale ooo \
    timeouts drop_kernel drop_misrouted drop_short; do
    printf '# %s %s\n' $name "$(json_sum $name "$tmp/status")"
done
finish
