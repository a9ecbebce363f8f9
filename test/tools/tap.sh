#!/bin/sh
# Checks how contrib/check counts results. A crash, a failed set-up, a lost log
# or a nonzero exit status must never count as a pass, and a skip must count as
# a skip.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
mkdir -p "$tmp/a/b"

# counted NAME KINDS COMMAND...: checks which kinds of results automake's driver
# and contrib/results.awk report for COMMAND.
counted()
{
    name=$1 want=$2
    shift 2
    sh "$top/build-aux/tap-driver.sh" --test-name one --merge \
        --log-file "$tmp/one.log" --trs-file "$tmp/one.trs" -- "$@" \
        >"$tmp/out" 2>&1 </dev/null || true
    awk -v test=one -v program=one -f "$top/contrib/results.awk" \
        "$tmp/one.trs" "$tmp/one.log" >"$tmp/kinds"
    is "$name" "$want" "$(cut -f 1 "$tmp/kinds" | paste -sd ' ')"
}

# reason NAME WORDS: the last result of the last command must have WORDS as its
# reason.
reason()
{
    is "$1" "$2" "$(tail -n 1 "$tmp/kinds" | cut -f 3)"
}

# script LINE...: writes a shell test, and prints its path.
script()
{
    {
        printf '#!/bin/sh\ntop=%s\n. "$top/test/lib.sh"\n' "'$top'"
        printf '%s\n' "$@"
    } >"$tmp/a/b/script.sh"
    chmod +x "$tmp/a/b/script.sh"
    echo "$tmp/a/b/script.sh"
}

# program STATUS LINE...: writes a program that prints the lines, and prints
# its path.
program()
{
    {
        printf '#!/bin/sh\ncat <<"END_LINES"\n'
        status=$1
        shift
        printf '%s\n' "$@"
        printf 'END_LINES\nexit %s\n' "$status"
    } >"$tmp/program"
    chmod +x "$tmp/program"
    echo "$tmp/program"
}

# ---- scripts ----

counted 'two results' 'pass pass' "$(script 'ok a' 'ok b' finish)"
counted 'a failure counts once, with its exit status' 'pass fail' \
    "$(script 'ok a' 'not_ok b "it broke"' finish)"
reason 'a failure has its reason' 'b: it broke'
counted 'a skip is not a pass' 'pass skip' \
    "$(script 'ok a' 'skip b "no tool"' finish)"
reason 'a skip has its reason' 'b: no tool'
counted 'a script that is skipped' skip "$(script 'skip_all "no tool"')"
reason 'a skipped script has its reason' 'no tool'
counted 'the rest of a script is skipped' 'pass skip' \
    "$(script 'ok a' 'skip_all "no tool"')"
counted 'a set-up that fails' 'pass fail' \
    "$(script 'ok a' 'bail_out "no session"')"
reason 'a failed set-up has its reason' 'Bail out! no session'
counted 'a program of this tree that is not built' fail \
    "$(script 'need_built no-such-program')"
counted 'a script without a result' fail "$(script finish)"
counted 'a script that exits before its plan' 'pass fail' \
    "$(script 'ok a' 'exit 0')"
counted 'a script that is killed' 'pass fail fail' \
    "$(script 'ok a' tap_cleanup 'kill -KILL $$')"

# ---- programs whose results a script repeats ----

lines=$(program 0 'ok - x' 'words' 'ok 7 - y # SKIP no tool' '1..2')
counted 'the results of a program' 'pass pass skip' \
    "$(script 'ok a' "run_program '' '$lines'" finish)"
lines=$(program 1 'ok - x' 'not ok - y: it broke')
counted 'a program with a failed result' 'pass fail fail' "$(script "run_program p: '$lines'" finish)"
lines=$(program 139 'ok - x')
counted 'a program that crashes' 'pass fail' \
    "$(script "run_program '' '$lines'" finish)"
reason 'a crashed program has its reason' 'the program succeeds: exit status 139'
lines=$(program 0 'words')
counted 'a program without results' fail \
    "$(script "run_program '' '$lines'" finish)"

# ---- programs with a sanitizer ----

# A program that reports "ok" for its tests, and a report of the sanitizer.
mkdir "$tmp/reports"
printf 'echo "SUMMARY: race in /a/src/b.c" >"%s"\necho "ok - x"\n' \
    "$tmp/reports/report.1" >"$tmp/racing"
counted 'a sanitizer report' 'pass fail' \
    "$top/test/sanitized.sh" "$tmp/reports" /src/ sh "$tmp/racing"
counted 'a report on code that is not instrumented' 'pass pass' \
    "$top/test/sanitized.sh" "$tmp/reports" /other/ sh "$tmp/racing"

# ---- programs under make check ----

run=$top/test/program.sh
counted 'a cmocka program' 'pass pass' \
    "$run" "$(program 0 1..2 'ok 1 - a' 'ok 2 - b')"
counted 'a skip of cmocka 1.1.5' 'pass skip' \
    "$run" "$(program 0 1..2 'ok 1 - a' 'no root' 'not ok 2 # SKIP b')"
reason 'a skip of cmocka 1.1.5 has its reason' 'b: no root'
counted 'a skip of later cmocka releases' 'skip' \
    "$run" "$(program 0 1..1 'no root' 'ok 1 # SKIP b')"
counted 'a cmocka program with a failed test' 'pass fail' \
    "$run" "$(program 1 1..2 'ok 1 - a' 'not ok 2 - b')"
counted 'a cmocka program that crashes' 'pass fail fail' \
    "$run" "$(program 139 1..3 'ok 1 - a')"
counted 'a cmocka program that exits early' 'pass fail' "$run" "$(program 0 1..3 'ok 1 - a')"
counted 'passing results and a nonzero exit status' 'pass fail' \
    "$run" "$(program 23 1..1 'ok 1 - a')"
reason 'a bad exit status has its reason' 'exited with status 23'
counted 'a program without TAP' fail "$run" "$(program 0 words)"

: >"$tmp/one.log"
: >"$tmp/one.trs"
is 'a test that left nothing' 'fail' "$(awk -v test=one -v program=one \
    -f "$top/contrib/results.awk" "$tmp/one.trs" "$tmp/one.log" | cut -f 1)"
finish
