#!/bin/sh
# A hot pair's messages move to rails that idle while all others exchange over the
# two that they are limited to: see mpi_pair.c.  Then one of the idle rails slows
# down to a half.  What each gets, as a part of what the rails give, is a figure of
# contrib/bench; here it must only be plain where the pair's bytes went.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_pair

# Rails 0 and 1 only, but for the pair, the last rank of each half.
# shellcheck disable=SC2016 # the inner shell's
limited='case $OMPI_COMM_WORLD_RANK in
3 | 7) ;;
*) export UCX_MRAIL_DEVICES=soft0:1,soft1:1 ;;
esac
exec "$@"'

# middle FIRST COLUMN: the median of three seconds, 1: of the pair, 2: of the others.
middle()
{
    sed -n 's/^second \([0-9]*\): /\1 /p' "$tmp/out" |
        awk -v first="$1" -v column="$2" '
            $1 >= first && $1 < first + 3 { print $(column + 1) }' |
        sort -n | sed -n 2p
}

# gets WHAT MB/s LEAST
gets()
{
    if echo "${2:-0} $3" | awk '{ exit !($1 >= $2) }'; then
        ok "$1: at least $3 MB/s"
    else
        not_ok "$1: at least $3 MB/s" "${2:-nothing}"
    fi
}

# check_rates WHEN FIRST IDLE: seconds FIRST to FIRST + 2.  The rails that only the
# pair uses give IDLE MB/s, and the pair must reach most of it.  The others must reach
# their part if all four senders of a node share the other two rails (150 MB/s).
check_rates()
{
    pair=$(middle "$2" 1)
    others=$(middle "$2" 2)
    echo "# $1: pair ${pair:-0} MB/s, others ${others:-0} MB/s"
    gets "$1, the pair, mostly over rails of its own" "$pair" $(($3 * 8 / 10))
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
    ok 'the job ends, with its bytes'
else
    cat "$tmp/err" >>"$tmp/out"
    not_ok 'the job ends, with its bytes' "exit status $status" "$tmp/out"
fi
check_rates 'two rails idle' 1 200
check_rates 'one of them is slow' 5 150
nothing_left 'pair'
finish
