#!/bin/sh
# Runs a test program of this folder on software rails: 2 nodes x 4 rails.
# usage: on-rails.sh PROGRAM [mrail-soft option...]
set -eu
program=$1
shift
name=$(basename "$program")
soft=$(dirname "$program")/mrail-soft
[ -x "$soft" ] || { echo "mrail-soft is not built"; exit 77; }
export MRAIL_TEST_SOFT="$soft"
exec "$soft" --session "test-$name-$$" --nodes 2 --rails 4 --node 0 "$@" \
    -- "$program"
