#!/bin/sh
# Every tracked file must be in the tarball (make dist), except files that only
# a checkout needs. contrib/check runs this test if the tree is a checkout.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"

check 'make distdir' make -C "$top/build" distdir distdir="$tmp/dist"
(cd "$tmp/dist" && find . -type f) | sed 's,^\./,,' | sort >"$tmp/have"
git -C "$top" ls-files | grep -v -x '\.clang-format\|\.gitignore\|autogen.sh' |
    sort >"$tmp/want"
[ -s "$tmp/want" ]
missing=$(comm -23 "$tmp/want" "$tmp/have")
is 'all tracked files are in an EXTRA_DIST or _SOURCES' '' "$missing"
finish
