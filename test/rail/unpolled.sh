#!/bin/sh
exec "$srcdir/test/rail/on-rails.sh" "$PWD/rail_unpolled"
