#!/bin/sh
# docs/troubleshooting.md must quote only messages that the sources contain, and
# contrib/check-messages must report any other message.
# shellcheck disable=SC2016 # backquotes of Markdown
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need python3

# finds STATUS NAME WORDS DIRECTORY: checks the exit status, and looks for WORDS
# in the output.
finds()
{
    expect_run "$2" "$1" "$3" "$top/contrib/check-messages" "$4"
}

# tree ROW SOURCE: makes a tree with one row in the document and one source
# file.
tree()
{
    rm -rf "$tmp/tree"
    mkdir -p "$tmp/tree/docs" "$tmp/tree/src"
    printf '%s\n' '| message | cause |' '|---|---|' "$1" \
        >"$tmp/tree/docs/troubleshooting.md"
    printf '%s\n' "$2" >"$tmp/tree/src/a.c"
}

finds 0 'this tree' 'messages are in the sources' "$top"

tree '| `the port is not active` | x |' 'f("the port is not active");'
finds 0 'a message of one literal' '^1 messages' "$tmp/tree"
tree '| `peer ... cannot be reached on any of` | x |' \
    'f("peer %016llx cannot be "
       "reached on any of %u rails", id);'
finds 0 'a message of two literals, with a number' '^1 messages' "$tmp/tree"
tree '| `size ... bytes of` | x |' 'f("size %" PRIu64 " bytes of x", n);'
finds 0 'a macro between literals' '^1 messages' "$tmp/tree"

tree '| `the port is not alive` | x |' 'f("the port is not active");'
finds 1 'reports a message that was reworded' \
    'troubleshooting.md:3: .*nearest: "the port is not active"' "$tmp/tree"
tree '| `the port is not active` | x |' '/* "the port is not active" */'
finds 1 'reports a message that is only in a comment' 'cannot be read' "$tmp/tree"
tree '| `the port is not active` | x |' 'f("the port is", "not active");'
finds 1 'does not join literals that a comma separates' 'no message' "$tmp/tree"
tree '| `port` | x |' 'f("the port is not active");'
finds 1 'reports a quotation that would match anything' 'too short' "$tmp/tree"
tree '| no message | x |' 'f("the port is not active");'
finds 1 'reports a document without messages' 'cannot be read' "$tmp/tree"
finish
