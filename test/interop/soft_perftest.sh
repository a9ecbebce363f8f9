#!/bin/bash
# perftest's programs run unmodified: write, send, read, atomics; bandwidth and
# latency; several queue pairs; UD; large and odd sizes.
. "$(dirname "$0")/soft_lib.sh"
need ib_write_bw ib_send_bw ib_read_bw ib_send_lat

common="-F -x 0 -p $p -d soft0"
pair ib_write_bw $common -s 65536 -n 200
pair ib_write_bw $common -s 65536 -n 200 -q 8 -b
pair ib_write_bw $common -s 1000003 -n 20
pair ib_send_bw $common -s 65536 -n 200
pair ib_send_bw $common -s 333 -n 1000 -r 64
pair ib_send_bw $common -c UD -s 2048 -n 200
pair ib_read_bw $common -s 65536 -n 200
pair ib_atomic_bw $common -n 500
pair ib_send_lat $common -s 8 -n 100
pair ib_write_lat $common -s 8 -n 20
SESSION=$SESSION-icrc SOFT_OPTIONS="--icrc on"
pair ib_write_bw $common -s 65536 -n 200
gone
finish
