# shellcheck shell=sh disable=SC2154
# Sourced by report.sh after test/lib.sh, and by contrib/bench. $tmp is a directory
# for the profile of the browser.

# browser OPTION...: opens a page in headless Chromium, which refuses to run as root
# in its sandbox.
browser()
{
    sandbox=
    [ "$(id -u)" != 0 ] || sandbox=--no-sandbox
    timeout 120 chromium --headless --disable-gpu --no-first-run $sandbox \
        --disable-dev-shm-usage --user-data-dir="$tmp/profile" \
        --hide-scrollbars "$@"
}

# drawn_ms DOM: prints the milliseconds until a page of mrail report was drawn, from
# the file DOM, which the browser wrote with --dump-dom.
drawn_ms()
{
    grep -o 'data-drawn="[0-9]*' "$1" | tr -dc '0-9\n'
}
