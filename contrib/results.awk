# Prints the results of a test, as written by automake's TAP driver, as lines
# "KIND <TAB> PROGRAM <TAB> REASON". Kinds are pass, fail and skip.
#
# usage: awk -v test=NAME -v program=NAME -f results.awk TEST.trs TEST.log
#
# "test" is the name that was given to the driver, and "program" the name to
# print.
#
# The counts come from TEST.trs, and names and reasons from TEST.log. If a
# program has reported a failure, its nonzero exit status does not count as a
# second failure.
function add(kind, why)
{
    printf "%s\t%s\t%s\n", kind, program, why
}

FILENAME ~ /\.trs$/ {
    if ($1 != ":test-result:") next
    ++all
    if ($2 == "PASS") {
        add("pass", "")
    } else {
        ++others
        failed = failed || ($2 != "SKIP" && $2 != "ERROR")
    }
    next
}

$1 ~ /^(FAIL|XPASS|XFAIL|ERROR|SKIP):$/ && $2 == test {
    ++named
    kind = $1
    sub(/^[A-Z]*: [^ ]* *(- )?([0-9]+ (- )?)?/, "")
    if (kind == "SKIP:") {
        sub(/ # SKIP /, ": ")
        add("skip", $0)
    } else if (kind != "ERROR:" || !failed || !/^exited with status/) {
        add("fail", $0)
    }
}

END {
    if (!all) {
        add("fail", "no result: it never ran to its end")
    } else if (named < others) {
        add("fail", "see its log")
    }
}
