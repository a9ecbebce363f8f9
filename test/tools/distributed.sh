#!/bin/sh
# Every tracked file is in the tarball (make dist), but for those that only a
# checkout needs.  Part of contrib/check, where the tree is a checkout.
set -eu
top=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

make -C "$top/build" distdir distdir="$tmp/dist" >"$tmp/log" 2>&1 || {
    echo 'not ok - make distdir'
    tail -n 20 "$tmp/log"
    exit 1
}
(cd "$tmp/dist" && find . -type f) | sed 's,^\./,,' | sort >"$tmp/have"
git -C "$top" ls-files | grep -v -x '\.clang-format\|\.gitignore\|autogen.sh' |
    sort >"$tmp/want"
[ -s "$tmp/want" ]
missing=$(comm -23 "$tmp/want" "$tmp/have")
if [ -n "$missing" ]; then
    echo "not ok - not in any EXTRA_DIST or _SOURCES: $(echo "$missing" | tr '\n' ' ')"
    exit 1
fi
echo "ok - all $(wc -l <"$tmp/want") tracked files are distributed"
