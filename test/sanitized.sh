#!/bin/sh
# Runs a test in a tree that was built with a sanitizer, for contrib/check. Each
# summary in the sanitizer's reports that matches PATTERN counts as a failure,
# even if the test passes.
# usage: sanitized.sh REPORTS PATTERN COMMAND...
set -eu
top=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
# shellcheck source=test/lib.sh
. "$top/test/lib.sh"
reports=$1 pattern=$2
shift 2
rm -f "$reports"/*
run_program '' "$@"
cat "$reports"/report* 2>/dev/null | sed -n "s,^SUMMARY.*$pattern.*,&,p" |
    sort -u >"$tmp/found"
is 'the sanitizer reports nothing' '' "$(head -n 1 "$tmp/found")"
excerpt "$tmp/found"
finish
