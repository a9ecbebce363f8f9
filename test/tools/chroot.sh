#!/bin/sh
# contrib/debian-chroot: what it refuses, before it makes anything.  That it
# runs contrib/check in another Debian is tried by hand: docs/testing.md.
set -eu
tree=$(CDPATH='' cd -- "${srcdir:-.}" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

# expect NAME STATUS SENTENCE COMMAND...
expect()
{
    name=$1 want=$2 sentence=$3
    shift 3
    status=0
    "$@" >"$tmp/out" 2>&1 </dev/null || status=$?
    if [ $status = "$want" ] && grep -q -- "$sentence" "$tmp/out"; then
        echo "ok - $name"
    else
        head -n 20 "$tmp/out"
        echo "not ok - $name: exit status $status, or no '$sentence'"
        failed=1
    fi
}

chroot=$tree/contrib/debian-chroot
expect '--help' 0 '^Usage: contrib/debian-chroot' "$chroot" --help
expect 'an unknown option' 2 "unknown argument '--suit'" "$chroot" --suit
expect 'an option without its value' 2 '--dir wants a value' "$chroot" --dir
expect 'a release that is a path' 2 'not the name of a release' \
    "$chroot" --suite ../x
if [ "$(id -u)" != 0 ]; then
    expect 'only root' 1 'only root' "$chroot" --dir "$tmp/debian"
elif setpriv --reuid=65534 --clear-groups test -x "$chroot" 2>/dev/null; then
    expect 'only root' 1 'only root' setpriv --reuid=65534 --clear-groups \
        "$chroot" --dir "$tmp/debian"
else
    echo 'skip - only root: another user cannot read this tree'
fi
if [ -e "$tmp/debian" ]; then
    echo 'not ok - nothing is made: there is a folder'
    failed=1
else
    echo 'ok - nothing is made'
fi
exit $failed
