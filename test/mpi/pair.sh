#!/bin/sh
# All ranks except a pair are limited to two rails, so the messages of the pair
# should move to the idle rails (see mpi_pair.c). Then one of the idle rails
# drops to half its rate.
#
# The rates depend on the machine and its load. They are therefore compared with
# those of a baseline job in the same run, whose pair is limited to the idle
# rails. contrib/bench measures the bandwidths.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_pair
SECONDS_OF_JOB=8
# The load of the machine may change between two jobs, so a comparison is
# repeated if it fails.
ATTEMPTS=3

# The pair consists of the last rank of each half. All other ranks use only
# rails 0 and 1.
# shellcheck disable=SC2016 # expanded by the inner shell
limited='case $OMPI_COMM_WORLD_RANK in
3 | 7) [ -z "$PAIR_DEVICES" ] || export UCX_MRAIL_DEVICES=$PAIR_DEVICES ;;
*) export UCX_MRAIL_DEVICES=soft0:1,soft1:1 ;;
esac
exec "$@"'

# run_job NAME PAIR_DEVICES: runs the job, and halves the rate of rail 2 in the
# middle. The output is in $tmp/NAME. Sets $change_begin and $change_end to the
# seconds of the job in which the change began and ended.
base=$session
number=0
run_job()
{
    # A session outlives its job for a moment, and its rails keep their rates.
    number=$((number + 1))
    session=$base-$number
    : >"$tmp/$1"
    PAIR_DEVICES=$2 launch 8 --rate 100M -- sh -c "$limited" sh timeout 90 \
        "$build/mpi_pair" $SECONDS_OF_JOB >"$tmp/$1" 2>"$tmp/err" &
    job=$!
    await_under_way "$tmp/$1"
    sleep 4
    change_begin=$(date +%s.%N)
    "$mrail" soft ctl --session "$session" --node 0 --rail 2 rate=50M \
        >"$tmp/ctl" 2>&1 || not_ok 'mrail soft ctl' "$(tail -n 1 "$tmp/ctl")"
    change_end=$(date +%s.%N)
    status=0
    wait $job || status=$?
    if [ $status != 0 ] || ! grep -q '^ok - ' "$tmp/$1"; then
        cat "$tmp/err" >>"$tmp/$1"
        not_ok "$1: the job ends, and its data is correct" \
            "exit status $status" "$tmp/$1"
        finish
    fi
    change_begin=$(second_of "$tmp/$1" "$change_begin")
    change_end=$(second_of "$tmp/$1" "$change_end")
}

# second_of FILE TIME: prints the second of the job at a time of day.
second_of()
{
    awk -v time="$2" '$1 == "start" { print int(time - $2) }' "$1"
}

# median_rate NAME FIRST LAST COLUMN: prints the median of the rates in the
# seconds FIRST to LAST, or nothing if there are fewer than two. COLUMN is 1 for
# the pair, 2 for the other ranks.
median_rate()
{
    sed -n 's/^second \([0-9]*\): /\1 /p' "$tmp/$1" |
        awk -v first="$2" -v last="$3" -v column="$4" '
            $1 >= first && $1 <= last { print $(column + 1) }' | sort -n |
        awk '{ rate[NR] = $1 }
            END {
                low = rate[int((NR + 1) / 2)]
                high = rate[int((NR + 2) / 2)]
                if (NR >= 2) { print (low + high) / 2 }
            }'
}

# measure NAME: writes the rates of the job's two phases to $tmp/NAME.rates:
# PHASE PAIR OTHERS, in MB/s. A second in which the rate changed belongs to no
# phase.
measure()
{
    {
        echo "idle $(median_rate "$1" 1 $((change_begin - 1)) 1)" \
            "$(median_rate "$1" 1 $((change_begin - 1)) 2)"
        echo "slow $(median_rate "$1" $((change_end + 1)) $SECONDS_OF_JOB 1)" \
            "$(median_rate "$1" $((change_end + 1)) $SECONDS_OF_JOB 2)"
    } >"$tmp/$1.rates"
    sed "s/^/# $1: /" "$tmp/$1.rates"
}

# Compares the job with the baseline and prints each bound that it misses, as
# PHASE WHAT RATE BOUND. The pair also uses a share of rails 0 and 1: a quarter,
# because a node has four senders.
misses()
{
    awk 'function check(what, rate, bound) {
             if (!(rate >= bound)) print $1, what, rate + 0, bound
         }
         NF != 3 { print FILENAME, "has too few seconds"; next }
         FILENAME == ARGV[1] { pair[$1] = $2; others[$1] = $3; next }
         { check("pair", $2, 0.8 * pair[$1])
           check("others", $3, 0.6 * others[$1])
           check("together", $2 + $3, 0.8 * (pair[$1] + others[$1])) }
    ' "$tmp/baseline.rates" "$tmp/pair.rates"
}

attempt=0
while [ $attempt -lt $ATTEMPTS ]; do
    attempt=$((attempt + 1))
    run_job baseline soft2:1,soft3:1
    measure baseline
    run_job pair ''
    measure pair
    misses >"$tmp/misses"
    [ -s "$tmp/misses" ] || break
    sed 's/^/# missed: /' "$tmp/misses"
done
ok 'the jobs end, and their data is correct'
for phase in idle slow; do
    case $phase in
    idle) when='two rails idle' ;;
    slow) when='one of them is slow' ;;
    esac
    if grep -q "$phase\|too few" "$tmp/misses"; then
        not_ok "$when: the pair uses the idle rails" \
            "$ATTEMPTS times below the baseline" "$tmp/misses"
    else
        ok "$when: the pair uses the idle rails"
    fi
done
session=$base
nothing_left 'pair'
finish
