#!/bin/sh
# Nothing of the NIC's own timers ends what is under way.
exec "$srcdir/test/rail/on-rails.sh" "$PWD/rail_unreachable"
