#!/bin/sh
# Runs the commands of README.md, "Pull a port", and of
# docs/getting-started.md, "Run a program" and "Break something", as they are
# in the documents. The test changes only the number of iterations, the name of
# the session, and the directory of the results.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env
readme=$top/README.md
iterations=50 # instead of 180

# Prints the commands under the heading, one per line.
awk '
    /^### / { ours = ($0 == "### Pull a port") }
    ours && sub(/^    /, "") {
        line = line $0
        if (!sub(/\\$/, "", line)) { print line; line = "" }
    }' "$readme" |
    sed -e "s|build/stage/bin/mrail|$mrail|" \
        -e "s|--session demo|--session $session|" \
        -e "s|--iterations 180|--iterations $iterations|" >"$tmp/commands"
if [ "$(wc -l <"$tmp/commands")" != 3 ]; then
    not_ok 'the README: three commands' "the README has $(wc -l <"$tmp/commands")" \
        "$tmp/commands"
    finish
fi
nth()
{
    sed -n "$1p" "$tmp/commands"
}

: >"$tmp/out"
sh -c "exec $(nth 1)" >"$tmp/out" 2>&1 &
job=$!
await_under_way "$tmp/out" 'data$'
sleep 1
sh -c "$(nth 2)" >"$tmp/ctl" 2>&1 || not_ok 'the port goes down' "$(cat "$tmp/ctl")"
sleep 1
"$mrail" top --count 1 >"$tmp/top" 2>&1 || true
sh -c "$(nth 3)" >"$tmp/ctl" 2>&1 || not_ok 'the port comes up' "$(cat "$tmp/ctl")"
sleep 1
"$mrail" info --events >"$tmp/events" 2>&1 || true
status=0
wait $job || status=$?

# says NAME FILE REGEX: a line of FILE must match REGEX.
says()
{
    expect "$1" "$tmp/$2" "$3"
}
if [ $status = 0 ]; then
    ok 'the README: the job continues to its end'
else
    not_ok 'the README: the job continues to its end' "exit status $status"
fi
says 'the README: a message reports the failed rail' out \
    'soft1:1: lane [0-9]+ to peer .* failed .*other lanes take over its work'
says 'the README: a message reports that the rail is up again' out 'soft1:1: a lane to peer .* is up again'
says 'the README: the table ends with ok in the column "data"' out ' ok$'
says 'the README: mrail top shows the rails' top 'soft0'
says 'the README: mrail info --events shows the failure' events 'soft1.*port'
nothing_left 'the README'

# block N: runs the commands of section N of getting-started in a separate
# directory.
started=$top/docs/getting-started.md
block()
{
    awk -v section="## $1. " '
        /^## / { ours = (index($0, section) == 1) }
        ours && sub(/^    /, "")' "$started" |
        sed -e "s|--soft 2x4|--soft 2x4 --session $session|" \
            -e "s|/tmp/mrail|$tmp/mrail|" >"$tmp/block$1"
    status=0
    (cd "$tmp" && PATH="$(dirname -- "$mrail"):$PATH" sh -eu "block$1") \
        >"$tmp/out$1" 2>"$tmp/err$1" || status=$?
    [ $status = 0 ] || excerpt "$tmp/err$1"
}
block 3
says 'getting-started: the program runs' out3 '^sum of ranks: 6$'
if [ "$(find "$tmp" -name 'mrail.*.json' | wc -l)" = 4 ]; then
    ok 'getting-started: each rank writes its statistics'
else
    not_ok 'getting-started: each rank writes its statistics' "$(ls "$tmp")"
fi
block 6
says 'getting-started: the job survives the fault script' out6 ' ok$'
says 'getting-started: a message names the failed rail' out6 'soft1:1: lane .*failed'
nothing_left 'getting-started'
finish
