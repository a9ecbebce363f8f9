#!/bin/sh
# docs/images/results.svg must be exactly the figure that contrib/figures.py draws
# from the recorded data. Wrong or missing data must not produce a drawing.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need python3
data=$top/docs/results/data

if "$top/contrib/figures.py" -o - >"$tmp/drawn" &&
    cmp -s "$tmp/drawn" "$top/docs/images/results.svg"; then
    ok 'the picture shows the recorded data'
else
    not_ok 'the picture shows the recorded data' 'run contrib/figures.py'
fi

sed 's/"bytes_per_s": [0-9.e+]*/"bytes_per_s": 3e8/' \
    "$data/readme-alltoallv.json" >"$tmp/changed.json"
if "$top/contrib/figures.py" --alltoallv "$tmp/changed.json" -o - \
    >"$tmp/drawn" && ! cmp -s "$tmp/drawn" "$top/docs/images/results.svg"; then
    ok 'different data gives a different picture'
else
    not_ok 'different data gives a different picture' 'the picture is the same'
fi

# refuses NAME SED-EXPRESSION [OPTION FILE WHY]: figures.py must reject data
# edited with SED-EXPRESSION.
refuses()
{
    sed "$2" "$data/${4-readme-alltoallv.json}" >"$tmp/invalid.json"
    if "$top/contrib/figures.py" "${3---alltoallv}" "$tmp/invalid.json" -o - \
        >"$tmp/drawn" 2>"$tmp/err"; then
        not_ok "rejects $1" 'figures.py drew a picture'
    elif [ -s "$tmp/drawn" ] ||
        ! grep -q "figures.py: ${5-no valid run}" "$tmp/err"; then
        not_ok "rejects $1" "$(tail -n 1 "$tmp/err")"
    else
        ok "rejects $1"
    fi
}
refuses 'a run with wrong data' 's/"data_ok": true/"data_ok": false/'
refuses 'a transport without runs' 's/"mrail, 4 rails"/"another"/'
refuses 'failover data without a pause' 's/: longest pause//' --failover \
    failover.json 'the failover data has no pause'

# The list that contrib/bench writes can be used instead of recorded data.
python3 - "$data/failover.json" >"$tmp/list.json" <<'END'
import json, sys
with open(sys.argv[1], encoding='utf-8') as file:
    print(json.dumps(json.load(file)['figures']))
END
if "$top/contrib/figures.py" --failover "$tmp/list.json" -o - >"$tmp/drawn" &&
    [ "$(grep -c 'class="own"' "$tmp/drawn")" = \
        "$(grep -c 'class="own"' "$top/docs/images/results.svg")" ]; then
    ok 'a list of figures gives the same bars'
else
    not_ok 'a list of figures gives the same bars' 'the bars differ'
fi
finish
