#!/bin/sh
# Checks the errors that contrib/debian-chroot reports before it creates
# anything. Running contrib/check in another Debian is a manual test:
# docs/testing.md.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"

chroot=$top/contrib/debian-chroot
expect_run '--help' 0 '^Usage: contrib/debian-chroot' "$chroot" --help
expect_run 'an unknown option' 2 "unknown argument '--suit'" "$chroot" --suit
expect_run 'an option without its value' 2 '--dir requires a value' "$chroot" --dir
expect_run 'a release that is a path' 2 'not the name of a release' \
    "$chroot" --suite ../x
if [ "$(id -u)" != 0 ]; then
    expect_run 'only root' 1 'only root' "$chroot" --dir "$tmp/debian"
elif setpriv --reuid=65534 --clear-groups test -x "$chroot" 2>/dev/null; then
    expect_run 'only root' 1 'only root' setpriv --reuid=65534 --clear-groups \
        "$chroot" --dir "$tmp/debian"
else
    skip 'only root' 'another user cannot read this tree'
fi
check 'nothing is created' test ! -e "$tmp/debian"
finish
