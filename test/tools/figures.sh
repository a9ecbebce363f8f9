#!/bin/sh
# contrib/bench.awk and try.awk: medians, ratios, results.  Missing or wrong data
# never passes.
set -eu
top=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

# is NAME WANTED GOT
is()
{
    if [ "$2" = "$3" ]; then
        echo "ok - $1"
    else
        echo "not ok - $1: wanted '$2', got '$3'"
        failed=1
    fi
}

# samples FILE VALUE...: CPU loads of 0.5
samples()
{
    file=$1
    shift
    for value in "$@"; do
        echo "$value 0.5"
    done >"$tmp/$file"
}

# figure SENSE RATIO VALUE OTHER: the object made of own and OTHER
figure()
{
    awk -v what=w -v unit=u -v sense="$1" -v peer=p -v want_ratio="$2" \
        -v want_value="$3" -v wanted=5 -f "$top/contrib/bench.awk" \
        "$tmp/own" "$4" 2>/dev/null || echo "exit status $?"
}

member()
{
    echo "$1" | sed -n "s/.*\"$2\": \"\{0,1\}\([^\",}]*\).*/\1/p"
}

samples own 5 1 4 2 3
samples peer 40 10 30 20
samples full 2 2 2 2 2
got=$(figure more 1.00 - "$tmp/full")
is 'median of an odd number' 3 "$(member "$got" value)"
is 'ratio to the peer' 1.500 "$(member "$got" ratio)"
is 'more is better: reached' true "$(member "$got" ok)"
is 'load' 0.50 "$(member "$got" cpu_load)"
is 'single measurements' 1 \
    "$(echo "$got" | grep -c '"runs": \[5, 1, 4, 2, 3\]}$')"
got=$(figure more 1.60 - "$tmp/full")
is 'more is better: missed' false "$(member "$got" ok)"
got=$(figure less 1.00 - "$tmp/full")
is 'less is better: missed' false "$(member "$got" ok)"
got=$(figure less 1.50 - "$tmp/full")
is 'less is better: reached' true "$(member "$got" ok)"
got=$(figure more 1.00 3.5 "$tmp/full")
is 'both targets are needed' false "$(member "$got" ok)"
got=$(figure more - 3 /dev/null)
is 'no peer' null "$(member "$got" ratio)"
is 'no peer: a value to reach' true "$(member "$got" ok)"
got=$(figure more - - "$tmp/full")
is 'no target, no result' null "$(member "$got" ok)"
got=$(figure more 0.01 - "$tmp/peer")
is 'median of an even number' 25 "$(member "$(echo "$got" | head -n 1)" \
    peer_value)"
row=$(awk -v what=w -v unit=u -v sense=more -v peer=p -v want_ratio=- \
    -v want_value=- -v wanted=5 -v planned=0.985 -f "$top/contrib/bench.awk" \
    "$tmp/own" "$tmp/full")
is 'the share that was planned' 0.985 "$(member "$row" planned)"
is '... in the table' 'planned 98 %' "$(echo "$row" | awk \
    -f "$top/contrib/json.awk" -f "$top/contrib/bench-row.awk" |
    grep -o 'planned.*')"
is 'too few measurements: not reached' false \
    "$(member "$(echo "$got" | head -n 1)" ok)"
is 'too few measurements: exit status' 'exit status 1' \
    "$(echo "$got" | tail -n 1)"
samples own 5 1 4 2 3
five=$(figure more - - "$tmp/full")
is 'an interval of five pairs: none' '1.500 ' \
    "$(member "$five" ratio) $(member "$five" ratio_low)"
samples own 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30
samples ten 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10 10
got=$(figure more - - "$tmp/ten")
is 'the ratio of twenty pairs' 2.050 "$(member "$got" ratio)"
samples ten 10 10 10 10 10 10 10 10 10 20 20 20 20 20 20 20 20 20 20 20
samples own 11 11 11 11 11 11 11 11 11 22 22 22 22 22 22 22 22 22 11 11
two=$(figure more - - "$tmp/ten")
is 'pairs of a machine with two speeds' '1.100 0.550' \
    "$(member "$two" ratio) $(member "$two" ratio_of_medians)"
is 'an interval of twenty pairs: the sixth ratio from either end' '1.600 2.500' \
    "$(member "$got" ratio_low) $(member "$got" ratio_high)"
: >"$tmp/own"
is 'no measurement at all' 'exit status 1' "$(figure more 1 - "$tmp/full")"

# sample SIZE FRACTION TO: the one object of that size and skew
sample()
{
    awk -v name=median_s -v scale=1000 -v size="$1" -v fraction="$2" -v to="$3" \
        -f "$top/contrib/json.awk" -f "$top/contrib/bench-sample.awk" \
        "$tmp/all" 2>/dev/null || echo "exit status $?"
}

# skewed SIZE HOTSPOT PATTERN SECONDS
skewed()
{
    printf '{"size": %s, "hotspot": %s, "pattern": "%s", "median_s": %s, ' "$@"
    printf '"cpu_load": 0.5, "data_ok": true}\n'
}
{
    skewed 1 0 uniform 0.001
    skewed 1 0.5 shift 0.002
    skewed 1 0.5 single 0.003
    skewed 1 0.9 single 0.004
    skewed 1024 0.9 single 0.005
} >"$tmp/all"
is 'a sample of one skew' '3 0.5' "$(sample 1 0.5 single)"
is 'a sample of one size' '5 0.5' "$(sample 1k 0.9 single)"
is 'a sample of no skew' '1 0.5' "$(sample 1 even shift)"
is 'a skew that was not measured' 'exit status 1' "$(sample 1 0.1 single)"
is 'a sample that could be any of several' 'exit status 1' \
    "$(sample 1 '' '' | tail -n 1)"

# A file of callgrind: 100 instructions of the library, 30 of the device, and the
# cost of calls, which counts at the callee.
profile()
{
    printf 'ob=(1) lib.so\nfn=(1) f\n1 %s\ncob=(2) dev.so\ncfn=(2) g\n' "$1"
    printf 'calls=1 1\n1 %s\n\nob=(2)\nfn=(2)\n1 %s\n' "$2" "$2"
}
profile 100 30 >"$tmp/short"
profile 500 130 >"$tmp/long"
per_message()
{
    awk -v device=dev -v messages=10 -f "$top/contrib/callgrind.awk" "$@"
}
is 'instructions per message of two runs' '40.0 50.0' \
    "$(per_message "$tmp/short" "$tmp/long")"
is 'instructions per message of one run' '50.0 63.0' \
    "$(per_message "$tmp/long")"

# object FILE TRANSPORT OK
object()
{
    printf '{"transport": "%s", "size": 65536, "median_s": 0.01, ' "$2" \
        >"$tmp/$1"
    printf '"bytes_per_s": 4e8, "cpu_load": 0.9, "data_ok": %s}\n' "$3" \
        >>"$tmp/$1"
}

rows()
{
    status=0
    awk -f "$top/contrib/json.awk" -f "$top/contrib/try.awk" -v title=t \
        "$tmp/x.stock1" "$tmp/x.stock4" "$tmp/x.mrail" >"$tmp/rows" ||
        status=$?
    echo $status
}

object x.stock1 ucx:rc_v,self true
object x.stock4 ucx:rc_v,self true
object x.mrail mrail true
is 'try: all good' 0 "$(rows)"
object x.mrail mrail false
is 'try: wrong data' 1 "$(rows)"
object x.mrail ompi:^ucx true
is 'try: carried by another transport' 1 "$(rows)"
: >"$tmp/x.mrail"
is 'try: no result' 1 "$(rows)"
exit $failed
