#!/bin/sh
# The manual pages: each verb and file format has one, with the sections that
# readers look for; cross references exist; samples are what the parsers take.
set -u
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
man=$top/src/tools/man

pages=$(find "$top/src" -name '*.[1357]' -path '*mrail*' | sort)

has_sections()
{
    for section in NAME DESCRIPTION EXAMPLES 'SEE ALSO'; do
        grep -qx ".Sh $section" "$1" || echo "no section $section"
    done
    case $1 in
    *.1 | *.3) grep -qx '.Sh SYNOPSIS' "$1" || echo 'no section SYNOPSIS' ;;
    esac
    case $1 in
    *.1)
        for section in ENVIRONMENT 'EXIT STATUS'; do
            grep -qx ".Sh $section" "$1" || echo "no section $section"
        done ;;
    esac
}

# References to pages of ours that do not exist.
bad_references()
{
    sed -n 's/^\.Xr \(mrail[a-z-]*\) \([1-9]\).*/\1.\2/p' "$1" | sort -u |
        while read -r page; do
            echo "$pages" | grep -q "/$page\$" || echo "no $page"
        done
}

for page in $pages; do
    name=$(basename "$page")
    has_sections "$page" >"$tmp/sections"
    is "$name: sections" '' "$(paste -sd ' ' "$tmp/sections")"
    bad_references "$page" >"$tmp/references"
    is "$name: references" '' "$(paste -sd ' ' "$tmp/references")"
done

for program in "$build"/mrail-*; do
    name=$(basename "$program")
    case $name in *.*) continue ;; esac
    [ -f "$program" ] || continue
    check "$name has a page" test -f "$man/$name.1"
done

if command -v mandoc >/dev/null 2>&1; then
    for page in $pages; do
        # Its own index of pages is none of ours.
        mandoc -Tlint -Wwarning "$page" 2>&1 | grep -v 'mandoc\.db' \
            >"$tmp/lint"
        is "$(basename "$page"): mandoc" '' "$(head -n 1 "$tmp/lint")"
    done
else
    skip layout 'mandoc is not installed'
fi

# samples PAGE: its literal displays, each into a file $tmp/sample-N.
samples()
{
    rm -f "$tmp"/sample-*
    awk -v dir="$tmp" '
        /^\.Bd -literal/ { file = dir "/sample-" ++n; next }
        /^\.Ed/ { file = ""; next }
        file != "" { gsub(/\\e/, "\\"); print >file }' "$1"
}

samples "$man/mrail-topology.5"
check 'mrail-topology.5 has samples' test -f "$tmp/sample-2"
for sample in "$tmp"/sample-*; do
    check "a topology of mrail-topology.5 ($(basename "$sample"))" \
        "$build/mrail-plan" --topo "$sample" --pattern uniform
done
cp "$tmp/sample-1" "$tmp/topology"
samples "$man/mrail-demand.5"
check 'the demands of mrail-demand.5' \
    "$build/mrail-plan" --topo "$tmp/topology" --demand "$tmp/sample-1"
samples "$man/mrail-plan.1"
check 'the topology of mrail-plan.1' \
    "$build/mrail-plan" --topo "$tmp/sample-1" --pattern moe:skew=1.2
samples "$man/mrail-script.5"
check 'the script of mrail-script.5' \
    timeout 30 "$build/mrail-soft" --session "$session" --nodes 2 --rails 4 \
    --script "$tmp/sample-1" -- true
finish
