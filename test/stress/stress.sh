#!/bin/sh
# Random fault scripts on live rails, slow enough that a script can hit.
exec "$srcdir/test/rail/on-rails.sh" "$PWD/rail_stress" --icrc on --rate 40M
