#!/bin/bash
# Checks objects, events, completion channels and fork. Each test of
# soft_objects.c has one result line. Word splitting is intended, and
# soft_lib.sh uses some of the variables.
# shellcheck disable=SC2034,SC2086
# shellcheck source=test/interop/soft_lib.sh
. "$(dirname "$0")/soft_lib.sh"

soft ./soft_objects >"$tmp/out" 2>&1 || fail "soft_objects: exit status $?"
results "$tmp/out"
gone
report 'soft_objects succeeds'
finish
