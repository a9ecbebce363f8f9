#!/bin/sh
# Compares the planned bytes of each rail with those that it carries, including
# relayed bytes, for relays with one rail and with several.
set -eu
# shellcheck source=test/mpi/lib.sh
. "$(dirname -- "$0")/lib.sh"
require_env mpi_rails
if [ -n "${MRAIL_TEST_MPIRUN-}" ] || [ "${EXPECT_COLL-yes}" != yes ]; then
    skip_all 'only through mrail run, and with coll/mrail'
fi
options=${MRAIL_TEST_RUN-}

cat >"$tmp/halves" <<'END_HALVES'
#!/bin/sh
# In each pair of ranks, the first reaches rails 0 and 1, and the second reaches
# rails 2 and 3.
case $OMPI_COMM_WORLD_RANK in
*[02468]) export UCX_MRAIL_DEVICES=soft0,soft1 ;;
*) export UCX_MRAIL_DEVICES=soft2,soft3 ;;
esac
exec "$@"
END_HALVES
chmod +x "$tmp/halves"

topology=2x4
MRAIL_TEST_RUN="$options --rate 40M,20M,20M,10M"
run 'relays with two rails each' 4 "$tmp/halves" "$build/mpi_rails"
MRAIL_TEST_RUN="$options --rate 40M,20M,20M,10M --bind-rails"
run 'relays with one rail each' 8 "$build/mpi_rails"
session=$session-equal
MRAIL_TEST_RUN="$options --rate 100M --bind-rails"
run 'functions that fail' 8 "$build/mpi_rails" faults
nothing_left 'rails of plans'
finish
