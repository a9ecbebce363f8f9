#!/bin/sh
# contrib/check-prose and contrib/check-links must find each planted fault and
# nothing else.
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"

need python3

# finds NAME CHECKER FILE PATTERN: the checker must report the line and the
# reason.
finds()
{
    expect_run "$1" 1 "$4" "$top/contrib/$2" "$tmp/$3"
}

# passes NAME CHECKER FILE: the checker must find nothing.
passes()
{
    check "$1" "$top/contrib/$2" "$tmp/$3"
}

long='The sender posts one message after another one to the receiver and then'
long="$long waits for the acknowledgement of each message that it has posted"
long="$long before the next message is posted to the same receiver."
printf '# A\n\n%s\n' "$long" >"$tmp/long.md"
finds 'a sentence that is too long' check-prose long.md \
    ':3: 3[0-9] words in a sentence'

printf 'int a;\n/* Who only waits\n * sends nothing. */\n' >"$tmp/who.c"
finds 'a relative clause as a subject, in a comment' check-prose who.c \
    ":2: 'Who only': relative clause"

printf '#!/bin/sh\n# The %s starts.\ntrue\n' "keep""er" >"$tmp/word.sh"
finds 'a word that is not in the glossary, in a script' check-prose word.sh \
    ":2: 'keeper': the field says session daemon"

cat >"$tmp/name.c" <<'END'
const char *text = "dice_throws";
int is_word_LEFT_p;
END
sed -i "s/LEFT/jud""ge/" "$tmp/name.c"
finds 'such a word in an identifier, but not in a string' check-prose name.c \
    ":2: name 'is_word_judge_p': the field says check"

printf '# The %s\n' "kn""ob" >"$tmp/heading.md"
finds 'such a word in a heading' check-prose heading.md ":1: name '_The_knob'"

printf '.Dd today\nThe message is to be sent.\n' >"$tmp/page.1"
finds 'a construction, in a manual page' check-prose page.1 "'is to be'"

cat >"$tmp/macros.1" <<'END'
.Dd today
.Sh DESCRIPTION
The sender posts one message after another one to
.Ar receiver ,
and then waits for the acknowledgement
.Pq of each message
that it has posted with
.Fl -flag
before the next message is posted to the same
.Ar receiver .
END
finds 'a sentence with macros that is too long' check-prose macros.1 \
    ':3: 3[0-9] words in a sentence'
cat >"$tmp/good.1" <<'END'
.Dd today
.Sh SYNOPSIS
.Nm x
.Op Fl -who Ar only
.Sh EXAMPLES
The sender waits:
.Bd -literal
Who only waits sends nothing.
.Ed
.Sh DIAGNOSTICS
.Bl -diag
.It Who only waits sends nothing.
The peer has no credit.
.El
END
passes 'examples and messages of a manual page are ignored' \
    check-prose good.1

cat >"$tmp/good.c" <<'END'
/* The sender waits for credit.  "What now" is a string below. */
const char *text = "Who only waits sends nothing. keeper";
/*
 *  drawing --> of a state machine that has a great many words in each of its
 *  lines --> so many that no sentence should ever be as long as this one is,
 *  lines --> or a reader would have to begin again at the start of the line
 */
END
passes 'strings and drawings are ignored' check-prose good.c

printf '# One\n\n[a](good.c) [b](#one) [c](https://host/x)\n' >"$tmp/links.md"
passes 'valid links' check-links links.md
printf '# One\n\n[a](nowhere.md)\n' >"$tmp/file.md"
finds 'a link to no file' check-links file.md ':3: no such file: nowhere.md'
printf '# One\n\n[a](links.md#two)\n' >"$tmp/anchor.md"
finds 'a link to no heading' check-links anchor.md ':3: no such heading'

finish
