#!/bin/sh
# All ranks except a pair are limited to two rails, so the messages of the pair
# should move to the idle rails (mpi_pair.c). Then one of these rails drops to
# half its rate. This test checks only which rails carry the bytes of the pair,
# whereas contrib/bench measures the bandwidths.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_pair

# The last ranks of the two halves are the pair. All other ranks use only rails
# 0 and 1.
# shellcheck disable=SC2016 # expanded by the inner shell
limited='case $OMPI_COMM_WORLD_RANK in
3 | 7) ;;
*) export UCX_MRAIL_DEVICES=soft0:1,soft1:1 ;;
esac
exec "$@"'

# middle FIRST COLUMN: prints the median of three seconds. COLUMN is 1 for the
# pair, 2 for the others.
middle()
{
    sed -n 's/^second \([0-9]*\): /\1 /p' "$tmp/out" |
        awk -v first="$1" -v column="$2" '
            $1 >= first && $1 < first + 3 { print $(column + 1) }' |
        sort -n | sed -n 2p
}

# gets NAME RATE LEAST: the rate in MB/s must be at least LEAST.
gets()
{
    if echo "${2:-0} $3" | awk '{ exit !($1 >= $2) }'; then
        ok "$1: at least $3 MB/s"
    else
        not_ok "$1: at least $3 MB/s" "${2:-nothing}"
    fi
}

# check_rates WHEN FIRST IDLE: checks seconds FIRST to FIRST + 2. The idle
# rails together have IDLE MB/s, and the pair must reach most of that. The
# other ranks must reach the fair share of four senders per node on the other
# two rails (150 MB/s).
check_rates()
{
    pair=$(middle "$2" 1)
    others=$(middle "$2" 2)
    echo "# $1: pair ${pair:-0} MB/s, others ${others:-0} MB/s"
    gets "$1, the pair, mostly over idle rails" "$pair" $(($3 * 8 / 10))
    gets "$1, the others" "$others" 120
    gets "$1, together" "$(echo "${pair:-0} ${others:-0}" |
        awk '{ print $1 + $2 }')" $((($3 + 200) * 8 / 10))
}

: >"$tmp/out"
launch 8 --rate 100M -- sh -c "$limited" sh timeout 90 "$build/mpi_pair" 8 \
    >"$tmp/out" 2>"$tmp/err" &
job=$!
await_under_way
sleep 4.2
"$mrail" soft ctl --session "$session" --node 0 --rail 2 rate=50M \
    >"$tmp/ctl" 2>&1 || not_ok 'mrail soft ctl' "$(tail -n 1 "$tmp/ctl")"
status=0
wait $job || status=$?
if [ $status = 0 ] && grep -q '^ok - ' "$tmp/out"; then
    ok 'the job ends, and its data is right'
else
    cat "$tmp/err" >>"$tmp/out"
    not_ok 'the job ends, and its data is right' "exit status $status" "$tmp/out"
fi
check_rates 'two rails idle' 1 200
check_rates 'one of them is slow' 5 150
nothing_left 'pair'
finish
