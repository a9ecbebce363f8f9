#!/bin/sh
# Several lanes on each rail.
export UCX_MRAIL_LANES_PER_RAIL=3
exec "$srcdir/test/rail/on-rails.sh" "$PWD/rail_fence"
