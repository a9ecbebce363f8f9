#!/bin/sh
export UCX_MRAIL_TX_QUEUE_LEN=16 UCX_MRAIL_AM_CREDITS=64
exec "$srcdir/test/rail/on-rails.sh" "$PWD/rail_callback"
