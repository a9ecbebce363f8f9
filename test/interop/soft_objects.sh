#!/bin/bash
# Objects, events, completion channels, fork: by a program of our own, one
# result line for each of its tests (soft_objects.c).
# Words are wanted; some variables are for the library.
# shellcheck disable=SC2034,SC2086
# shellcheck source=test/interop/soft_lib.sh
. "$(dirname "$0")/soft_lib.sh"

soft ./soft_objects >"$tmp/out" 2>&1 || fail "soft_objects: exit status $?"
results "$tmp/out"
gone
report 'soft_objects ends well'
finish
