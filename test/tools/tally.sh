#!/bin/sh
# contrib/tally: what counts as passed, failed and skipped.
set -eu
top=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

# expect NAME STATUS EXPECTED-KINDS <LOG
expect()
{
    cat >"$tmp/log"
    got=$("$top/contrib/tally" prog "$2" "$tmp/log" | cut -f 1 | paste -sd ' ')
    if [ "$got" = "$3" ]; then
        echo "ok - $1"
    else
        echo "not ok - $1: wanted '$3', got '$got'"
        failed=1
    fi
}

cmocka()
{
    printf '[==========] Running 3 test(s).\n[ RUN      ] a\n'
    printf '[       OK ] a\n[ RUN      ] b\n%s\n' "$1"
    printf '[ RUN      ] c\n[       OK ] c\n[==========] 3 test(s) run.\n'
    printf '[  PASSED  ] 2 test(s).\n%s\n' "$2"
}

cmocka '[       OK ] b' '' | expect 'three cmocka tests' 0 'pass pass pass'
cmocka '[  FAILED  ] b' '[  FAILED  ] b' |
    expect 'a failed cmocka test counts once' 1 'pass fail pass'
cmocka '[  SKIPPED ] b' '[  SKIPPED ] b' |
    expect 'a skipped cmocka test is no pass' 0 'pass skip pass'
cmocka '[  SKIPPED ] b' '[  SKIPPED ] b' |
    sed 's/^\[==========\] /&the group: /' |
    expect 'a group that has a name (cmocka 1.1.7)' 0 'pass skip pass'
printf '[==========] Running 3 test(s).\n[ RUN      ] a\n[       OK ] a\n' |
    expect 'a crash in the middle' 139 'pass fail'
printf 'ok - x\nnot ok - y: broke\nskip - z: no ground\n' |
    expect 'script lines' 1 'pass fail skip'
printf 'not ok - y: broke\n' |
    expect 'a failure counts though the status is 0' 0 'fail'
printf 'ok - x\n' | expect 'no failure line but a bad status' 1 'pass fail'
printf 'no NIC here\n' | expect 'skipped as a whole' 77 'skip'
printf 'hello\n' | expect 'a program without lines' 0 'pass'
printf 'hello\n' | expect 'a program that fails without lines' 2 'fail'
printf 'ok - x\n' | expect 'out of time' 124 'pass fail'

reason=$(printf 'no NIC here\nSKIP p (exit status: 77)\n' >"$tmp/log" &&
    "$top/contrib/tally" prog 77 "$tmp/log" | cut -f 3)
if [ "$reason" = 'no NIC here' ]; then
    echo "ok - the reason of a skip"
else
    echo "not ok - the reason of a skip: got '$reason'"
    failed=1
fi
if [ "$("$top/contrib/tally" prog 0 "$tmp/absent" | cut -f 1)" = fail ]; then
    echo "ok - an absent log is a failure"
else
    echo "not ok - an absent log is a failure: it was not"
    failed=1
fi
exit $failed
