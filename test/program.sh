#!/bin/sh
# Runs a test program that writes TAP itself. automake uses this script as the
# LOG_COMPILER of programs.
# usage: program.sh PROGRAM [ARGUMENT...]
#
# cmocka 1.1.5 writes "not ok N # SKIP NAME" for a skipped test, which TAP counts
# as a failure. This script changes it to "ok N - NAME # SKIP REASON". The reason
# is the line that the test printed before it.
set -u
export CMOCKA_MESSAGE_OUTPUT=TAP
exec 4>&1
status=$(
    {
        { "$@" 3>&- 4>&-; echo $? >&3; } | awk '
            /^(not )?ok [0-9]+ # SKIP/ {
                number = ($1 == "not") ? $3 : $2
                sub(/^.*# SKIP */, "")
                if (last ~ /^((not )?ok |1\.\.)/) last = "no reason given"
                $0 = "ok " number " - " $0 " # SKIP " last
            }
            { print; fflush(); last = $0 }' >&4
    } 3>&1
)
exit "$status"
