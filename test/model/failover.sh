#!/bin/sh
# The model of failover, checked exhaustively; and that it would find it if one of
# the protocol's rules were missing.
set -eu
# shellcheck source=test/model/lib.sh
. "$(dirname -- "$0")/lib.sh"

# At any time: also one while another is closed, and the new life of either.
holds 'two lanes of two lives, two break' -DBREAKS=2
holds 'two lanes of two lives, three break' -DBREAKS=3
holds 'three lanes of two lives, two break' -DLANES=3 -DBREAKS=2
if [ -n "${MRAIL_TEST_FULL-}" ]; then # a minute, 2.5 GB
    holds 'two lanes of three lives, three break' -DLIVES=3 -DBREAKS=3
    holds 'two lanes of three lives, four break' -DLIVES=3 -DBREAKS=4
fi
finds 'the count of what arrived' -DNO_COUNT
finds 'the closing of both ends' -DNO_CONFIRM
finds 'the evidence for WRITEs' -DNO_EVIDENCE
finds 'the fence' -DNO_FENCE
finish
