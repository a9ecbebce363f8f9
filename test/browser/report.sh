#!/bin/sh
# Opens the page of mrail report in headless Chromium: a job of ten minutes with 32
# ranks. The figures on the page must be those of the JSON, without an error on the
# console, and within a second. contrib/check --full runs this test.
#
# With MRAIL_TEST_PICTURES=DIR, it leaves screenshots there.
set -u
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
# shellcheck source=test/browser/lib.sh
. "$top/test/browser/lib.sh"
need python3 chromium
need_built report_sample

# page NAME RANKS RAILS SECONDS [archive]: makes a page, and checks it.
page()
{
    # shellcheck disable=SC2086 # the last word may be absent
    check "$1: the page" "$build/report_sample" "$tmp/$1.html" \
        "$tmp/$1.json" "$2" "$3" "$4" ${5-}
    size=$(wc -c <"$tmp/$1.html")
    if [ "$size" -le 5000000 ]; then
        ok "$1: the page has at most 5 MB"
    else
        not_ok "$1: the page has at most 5 MB" "$size bytes"
    fi
    # Other load delays the browser, so the best of three times counts.
    for _ in 1 2 3; do
        browser --enable-logging=stderr --window-size=1280,900 \
            --dump-dom "file://$tmp/$1.html" >"$tmp/$1.dom" \
            2>"$tmp/$1.err" ||
            not_ok "$1: chromium" "exit status $?" "$tmp/$1.err"
        drawn=$(drawn_ms "$tmp/$1.dom")
        [ "${drawn:-9999}" -gt 1000 ] || break
    done
    expect_none "$1: no message on the console" "$tmp/$1.err" 'CONSOLE'
    run_program "$1: " python3 "$top/test/browser/report_dom.py" \
        "$tmp/$1.dom" "$tmp/$1.json"
}

# picture NAME FILE SIZE OPTION...: makes a screenshot.
picture()
{
    name=$1 file=$pictures/$2.png size=$3
    shift 3
    browser --window-size="$size" "$@" --screenshot="$file" \
        "file://$tmp/$name.html" >"$tmp/out" 2>&1
    if [ -s "$file" ]; then
        ok "a picture: $(basename "$file")"
    else
        not_ok "a picture: $(basename "$file")" 'no file' "$tmp/out"
    fi
}

page long 32 4 600
page small 2 1 3
page hosts 16 2 60 archive
expect 'hosts: a rank with its host' "$tmp/hosts.dom" '>rank 9 on node2<'
expect 'hosts: a host that is missing' "$tmp/hosts.dom" \
    '<td class="text">node3</td><td class="bad">missing</td>'
expect 'hosts: how exact the times are' "$tmp/hosts.dom" '>0.123 ms<'
expect_none 'hosts: the reason is text' "$tmp/hosts.dom" '<td[^>]*>it cannot[^<]*<b>'

# Messages on the console are really seen.
sed 's/^showHead();$/throw new Error("planted");/' "$tmp/small.html" \
    >"$tmp/planted.html"
browser --enable-logging=stderr --dump-dom "file://$tmp/planted.html" \
    >"$tmp/out" 2>"$tmp/planted.err"
expect 'a planted error is found' "$tmp/planted.err" 'CONSOLE.*planted'

pictures=${MRAIL_TEST_PICTURES:-$tmp}
picture long light 1280,3600
picture long dark 1280,3600 --blink-settings=preferredColorScheme=0
picture long narrow 420,5200
picture hosts hosts 1280,3600
browser --print-to-pdf="$pictures/report.pdf" --no-pdf-header-footer \
    "file://$tmp/long.html" >"$tmp/out" 2>&1
expect 'it can be printed' "$pictures/report.pdf" '^%PDF-'
finish
