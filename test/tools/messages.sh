#!/bin/sh
# docs/troubleshooting.md quotes messages that the sources have, and
# contrib/check-messages notices one that they have not.
# shellcheck disable=SC2016 # backquotes of Markdown
set -eu
top=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd)
if ! command -v python3 >/dev/null; then
    echo 'python3 is not installed'
    exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

# expect STATUS NAME WORDS FOLDER: its exit status, and words that it prints.
expect()
{
    status=0
    "$top/contrib/check-messages" "$4" >"$tmp/out" 2>&1 || status=$?
    if [ $status = "$1" ] && grep -q "$3" "$tmp/out"; then
        echo "ok - $2"
    else
        head -n 20 "$tmp/out"
        echo "not ok - $2: exit status $status"
        failed=1
    fi
}

# tree ROW SOURCE: a tree with one row in the document, and one source.
tree()
{
    rm -rf "$tmp/tree"
    mkdir -p "$tmp/tree/docs" "$tmp/tree/src"
    printf '%s\n' '| message | cause |' '|---|---|' "$1" \
        >"$tmp/tree/docs/troubleshooting.md"
    printf '%s\n' "$2" >"$tmp/tree/src/a.c"
}

expect 0 'this tree' 'messages are in the sources' "$top"

tree '| `the port is not active` | x |' 'f("the port is not active");'
expect 0 'a message of one literal' '^1 messages' "$tmp/tree"
tree '| `peer ... cannot be reached on any of` | x |' \
    'f("peer %016llx cannot be "
       "reached on any of %u rails", id);'
expect 0 'a message of two literals, with a number' '^1 messages' "$tmp/tree"
tree '| `size ... bytes of` | x |' 'f("size %" PRIu64 " bytes of x", n);'
expect 0 'a macro between literals' '^1 messages' "$tmp/tree"

tree '| `the port is not alive` | x |' 'f("the port is not active");'
expect 1 'sees a message that was reworded' \
    'troubleshooting.md:3: .*nearest: "the port is not active"' "$tmp/tree"
tree '| `the port is not active` | x |' '/* "the port is not active" */'
expect 1 'sees a message that is in a comment only' 'cannot be read' "$tmp/tree"
tree '| `the port is not active` | x |' 'f("the port is", "not active");'
expect 1 'does not join what a comma separates' 'no message' "$tmp/tree"
tree '| `port` | x |' 'f("the port is not active");'
expect 1 'sees a quotation that would match anything' 'too short' "$tmp/tree"
tree '| no message | x |' 'f("the port is not active");'
expect 1 'sees a document without messages' 'cannot be read' "$tmp/tree"
exit $failed
