#!/bin/sh
exec "$srcdir/test/rail/on-rails.sh" "$PWD/rail_live" --nodes 3 --rails 2 \
    --rate 40M
