#!/bin/bash
# Objects, events, completion channels, fork: by a program of our own, one
# result line for each of its tests (soft_objects.c).
. "$(dirname "$0")/soft_lib.sh"

soft ./soft_objects || FAILED=1
gone
exit $FAILED
