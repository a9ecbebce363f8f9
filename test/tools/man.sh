#!/bin/sh
# Checks the manual pages. Each command and each file format must have a page with
# the usual sections. References, options in examples, JSON members, variables,
# and the keywords of the parsers must agree with the programs. The parsers must
# accept the samples.
set -u
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
src=$top
man=$top/src/tools/man

# none NAME: passes if $tmp/findings is empty.
none()
{
    findings=$(paste -sd ';' "$tmp/findings")
    if [ -z "$findings" ]; then
        ok "$1"
    else
        not_ok "$1" "$findings"
    fi
}

# at_least NAME MINIMUM FILE: fails if FILE has fewer than MINIMUM lines,
# because the test would then check almost nothing.
at_least()
{
    lines=$(wc -l <"$3")
    [ "$lines" -ge "$2" ] || not_ok "$1" "only $lines found"
}

# ---- Sections, references, installation ----

sections()
{
    wanted='NAME DESCRIPTION EXAMPLES SEE_ALSO'
    case $1 in
    *.1) wanted="$wanted SYNOPSIS OPTIONS ENVIRONMENT EXIT_STATUS" ;;
    *.3) wanted="$wanted SYNOPSIS RETURN_VALUES ERRORS" ;;
    *.5) wanted="$wanted DIAGNOSTICS" ;;
    *.7) wanted="$wanted ENVIRONMENT FILES" ;;
    esac
    for section in $wanted; do
        section=$(echo "$section" | tr _ ' ')
        grep -qx ".Sh $section" "$1" || echo "no section $section"
    done
    # The references must be in the last section.
    [ "$(grep '^\.Sh' "$1" | tail -n 1)" = '.Sh SEE ALSO' ] ||
        echo 'SEE ALSO is not the last section'
}

# The title, the name and the file must agree.
title()
{
    base=$(basename "$1")
    number=${base##*.}
    upper=$(echo "${base%.*}" | tr '[:lower:]' '[:upper:]')
    grep -qx ".Dt $upper $number" "$1" || echo "no line .Dt $upper $number"
    grep -qx ".Nm ${base%.*}" "$1" || echo "no line .Nm ${base%.*}"
    grep -qE '^\.Dd (January|February|March|April|May|June|July|August|September|October|November|December) [0-9]{1,2}, 20[0-9]{2}$' \
        "$1" || echo 'no date .Dd MONTH DAY, YEAR'
}

# Finds references to pages of this package that do not exist, and references
# from a page to itself.
broken_references()
{
    sed -n 's/^\.\(It \)\{0,1\}Xr \(mrail[a-z-]*\) \([1-9]\).*/\2.\3/p' "$1" |
        sort -u | while read -r page; do
            grep -q "/$page\$" "$tmp/pages" || echo "no $page"
            [ "$page" != "$(basename "$1")" ] || echo "the page refers to itself"
        done
}

find "$src/src" -name '*.[1357]' -path '*mrail*' | sort >"$tmp/pages"
at_least 'the pages are found' 13 "$tmp/pages"
cat "$src"/src/*/local.mk | sed -e ':a' -e '/\\$/N' -e 's/\\\n//' -e 'ta' |
    grep '^dist_man_MANS' >"$tmp/installed"
while read -r page; do
    name=$(basename "$page")
    { sections "$page"; title "$page"; } >"$tmp/findings"
    none "$name: sections and title"
    broken_references "$page" >"$tmp/findings"
    none "$name: references"
    check "$name is installed" \
        grep -qwF -- "${page#"$src"/}" "$tmp/installed"
done <"$tmp/pages"

for program in "$build"/mrail-*; do
    name=$(basename "$program")
    case $name in *.*) continue ;; esac
    [ -f "$program" ] || continue
    check "$name has a page" test -f "$man/$name.1"
    command=${name#mrail-}
    check "mrail.1 refers to $name" \
        grep -q "^\.Xr $name 1" "$man/mrail.1"
    check "mrail.1 lists $command" \
        grep -qx "\.It Cm $command" "$man/mrail.1"
done

# ---- Layout ----

if command -v mandoc >/dev/null 2>&1; then
    while read -r page; do
        # Ignore findings about the index of installed manual pages.
        mandoc -Tlint -Wstyle "$page" 2>&1 |
            grep -v 'mandoc\.db\|referenced manual not found' |
            head -n 3 >"$tmp/findings"
        none "$(basename "$page"): mandoc"
    done <"$tmp/pages"
else
    skip 'layout of the pages' 'mandoc is not installed'
fi

# ---- Samples ----

# samples PAGE: writes each literal display of PAGE to its own file
# $tmp/sample-N.
samples()
{
    rm -f "$tmp"/sample-*
    awk -v dir="$tmp" '
        /^\.Bd -literal/ { file = dir "/sample-" ++n; next }
        /^\.Ed/ { file = ""; next }
        file != "" { gsub(/\\e/, "\\"); print >file }' "$man/$1"
}

# each PAGE MINIMUM COMMAND...: COMMAND must accept every sample of PAGE as its
# last argument.
each()
{
    page=$1
    minimum=$2
    shift 2
    samples "$page"
    count=0
    for sample in "$tmp"/sample-*; do
        [ -f "$sample" ] || break
        count=$((count + 1))
        check "$page: sample $count" "$@" "$sample"
    done
    [ "$count" -ge "$minimum" ] ||
        not_ok "$page has samples" "$count, not $minimum"
}

takes_topology()
{
    "$build/mrail-plan" --pattern uniform --topo "$1"
}

takes_demand()
{
    "$build/mrail-plan" --topo "$tmp/topology" --demand "$1"
}

# Each sample has its own session, because the fault injector of the previous
# sample may still be clearing its faults.
takes_script()
{
    timeout 30 "$build/mrail-soft" --session "test-man-$$-${1##*/}" --nodes 2 --rails 4 \
        --gpus 2 --script "$1" -- true
}

samples mrail-plan.1
mv "$tmp/sample-1" "$tmp/topology"
check 'mrail-plan.1: its topology' takes_topology "$tmp/topology"
each mrail-topology.5 2 takes_topology
each mrail-demand.5 2 takes_demand
each mrail-script.5 2 takes_script
for page in mrail.7 mrail-telemetry.5; do
    each "$page" 1 sh -n
done

# ---- Words of the parsers ----

# in_page PAGE: prints each word on stdin that PAGE does not contain.
in_page()
{
    while read -r word; do
        grep -qE -e "^\.(It )?(.* )?Cm (.* )?$word( |\$)" "$man/$1" ||
            echo "no '$word'"
    done
}

# Extracts the words that a parser accepts from its message. They follow a
# colon, "there are" or "there is".
words_of()
{
    sed -n "s/^.*$1//p" | tr ',' '\n' | sed -e 's/=VALUE//' -e 's/ //g' |
        grep -x '[a-z_]*'
}

echo unknown >"$tmp/unknown"
"$build/mrail-plan" --pattern uniform --topo "$tmp/unknown" 2>&1 |
    words_of 'is not a statement; expected one of:' >"$tmp/words"
at_least 'the statements of a topology' 11 "$tmp/words"
in_page mrail-topology.5 <"$tmp/words" >"$tmp/findings"
none 'mrail-topology.5 has every statement'

"$build/mrail-plan" --topo "$tmp/topology" --pattern unknown 2>&1 |
    words_of 'the patterns are' >"$tmp/kinds"
at_least 'the patterns' 6 "$tmp/kinds"
while read -r kind; do
    echo "$kind"
    "$build/mrail-plan" --topo "$tmp/topology" --pattern "$kind:unknown=1" \
        2>&1 | words_of 'the \(settings are\|setting is\)'
done <"$tmp/kinds" >"$tmp/words"
at_least 'the settings of patterns' 18 "$tmp/words"
in_page mrail-plan.1 <"$tmp/words" >"$tmp/findings"
none 'mrail-plan.1 has every pattern and setting'

echo 'at 0s unknown' >"$tmp/unknown"
"$build/mrail-soft" --session "test-man-$$" --script "$tmp/unknown" -- true \
    2>&1 | words_of 'is not an action:' >"$tmp/words"
at_least 'the actions of a script' 14 "$tmp/words"
in_page mrail-script.5 <"$tmp/words" >"$tmp/findings"
none 'mrail-script.5 has every action'

"$build/mrail-soft" ctl --help | sed -n 's/^  \([a-z]*\)=[A-Z]* .*/\1/p' \
    >"$tmp/words"
at_least 'the actions of mrail soft ctl' 5 "$tmp/words"
in_page mrail-soft.1 <"$tmp/words" >"$tmp/findings"
none 'mrail-soft.1 has every action of ctl'

# ---- Options of the examples ----

# Prints the command lines of a page, one per row, each up to the command that
# it starts.
commands_of()
{
    awk '/^\.Dl / { print substr($0, 5) }
        /^\.Bd -literal/ { display = 1; next }
        /^\.Ed/ { display = 0 }
        display' "$1" | tr '|' '\n' | sed -e 's/\\-/-/g' -e 's/ -- .*//' |
        sed -n 's/^.*mrail \([a-z]\{1,\} .*\)/\1/p'
}

unknown_options()
{
    commands_of "$1" | while read -r command rest; do
        [ -x "$build/mrail-$command" ] || continue
        sub=
        case "$command $rest" in
        'soft ctl'* | 'soft status'* | 'lab ctl'* | 'lab status'*) sub=${rest%% *} ;;
        'bench '* | 'info '*) "$build/mrail-run" --list-options ;;
        esac >"$tmp/options"
        "$build/mrail-$command" ${sub:+"$sub"} --list-options >>"$tmp/options"
        for word in $rest; do
            case $word in
            --map-by) ;; # an option of mpirun
            --[a-z]*)
                cut -f 1 "$tmp/options" | tr '|' '\n' |
                    grep -qxF -e "${word%%=*}" || echo "mrail $command $word" ;;
            esac
        done
    done
}

while read -r page; do
    commands_of "$page"
done <"$tmp/pages" >"$tmp/commands"
at_least 'the examples of commands' 25 "$tmp/commands"
while read -r page; do
    unknown_options "$page" >"$tmp/findings"
    none "$(basename "$page"): options of the examples"
done <"$tmp/pages"

# ---- Members of JSON ----

# members PAGE MINIMUM: PAGE must contain the names listed in $tmp/names.
members()
{
    sort -u "$tmp/names" >"$tmp/members"
    at_least "the members of $1" "$2" "$tmp/members"
    in_page "$1" <"$tmp/members" >"$tmp/findings"
    none "$1 has every member of its JSON"
}

names_of_output()
{
    grep -oE '"[a-z_0-9]+":' | tr -d '":'
}

names_of_source()
{
    sed -n 's/.*mrail_json_[a-z_]*([^"]*"\([a-z_0-9]*\)".*/\1/p' "$@"
}

"$build/mrail-plan" --topo "$tmp/topology" --pattern hotspot --pieces --json |
    names_of_output >"$tmp/names"
members mrail-plan.1 40
# The page shows JSON only for the counters.
{
    names_of_source "$src/src/tools/acl_show.c"
    "$build/mrail-acl" --dialect linux --uplinks 2 --next-hops 10.9.0.1+2 \
        >"$tmp/rules"
    "$build/mrail-acl" --dialect linux --check "$tmp/rules" --json |
        names_of_output
} >"$tmp/names"
members mrail-acl.1 20
"$build/mrail-soft" --session "test-man-$$" --rails 1 -- \
    "$build/mrail-soft" status --json | sed 's/"protocol": {[^}]*}/"protocol":/' |
    names_of_output >"$tmp/names"
members mrail-soft.1 30
{
    names_of_source "$src"/src/tools/info*.c
    "$build/mrail-soft" --session "test-man-$$" --rails 1 -- \
        "$build/mrail-info" --json | names_of_output
} >"$tmp/names"
members mrail-info.1 25
names_of_source "$src"/src/tools/bench*.c >"$tmp/names"
members mrail-bench.1 15
names_of_source "$src/src/tools/top_json.c" >"$tmp/names"
members mrail-top.1 25
names_of_source "$src/src/tools/trace_show.c" >"$tmp/names"
members mrail-trace.1 25
names_of_source "$src"/src/tools/report_json*.c >"$tmp/names"
members mrail-report.1 50
names_of_source "$src/src/tools/diagnose_show.c" >"$tmp/names"
members mrail-diagnose.1 25

# ---- Variables ----

grep -rhoE 'getenv\("[A-Za-z_]+"\)' "$src/src" | cut -d '"' -f 2 | sort -u \
    >"$tmp/variables"
at_least 'the variables' 6 "$tmp/variables"
while read -r variable; do
    xargs grep -lw -- "$variable" <"$tmp/pages" >/dev/null ||
        echo "no page has $variable"
done <"$tmp/variables" >"$tmp/findings"
none 'every variable is in a page'
finish
