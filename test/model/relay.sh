#!/bin/sh
# Checks the model of relays exhaustively. Also checks that spin finds an error
# if a rule is left out.
set -eu
# shellcheck source=test/model/lib.sh
. "$(dirname -- "$0")/lib.sh"

holds 'three ranks, one out-slot, two in-slots'
holds 'three ranks, two out-slots, two in-slots' -DOUT=2
holds 'two senders, two receivers, crossed' -DCROSS
if [ -n "${MRAIL_TEST_FULL-}" ]; then # this case takes a minute
    holds 'three ranks, three chunks' -DCHUNKS=3
fi
finds 'a slot for each channel' -DCROSS -DNO_RESERVE
finds 'slots that are freed' -DNO_FREE
finish
