#!/bin/sh
# With the defaults, and with nothing else that makes the control thread poll.
"$srcdir/test/rail/on-rails.sh" "$PWD/rail_busy_flush" || exit
export UCX_MRAIL_TELEMETRY=n UCX_MRAIL_KEEPALIVE_INTERVAL=inf
exec "$srcdir/test/rail/on-rails.sh" "$PWD/rail_busy_flush"
