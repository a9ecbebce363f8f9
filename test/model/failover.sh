#!/bin/sh
# Checks the model of failover exhaustively. Also checks that spin finds an
# error if a rule of the protocol is left out.
set -eu
# shellcheck source=test/model/lib.sh
. "$(dirname -- "$0")/lib.sh"

# A lane may break at any time, even while another lane is being closed, and its
# next epoch may also break.
holds 'two lanes with two epochs, two breaks' -DBREAKS=2
holds 'two lanes with two epochs, three breaks' -DBREAKS=3
holds 'three lanes with two epochs, two breaks' -DLANES=3 -DBREAKS=2
if [ -n "${MRAIL_TEST_FULL-}" ]; then # this case takes a minute and 2.5 GB
    holds 'two lanes with three epochs, three breaks' -DEPOCHS=3 -DBREAKS=3
    holds 'two lanes with three epochs, four breaks' -DEPOCHS=3 -DBREAKS=4
fi
finds 'the count of received messages' -DNO_COUNT
finds 'the closing of both ends' -DNO_CONFIRM
finds 'the evidence for WRITEs' -DNO_EVIDENCE
finds 'the fence' -DNO_FENCE
finish
