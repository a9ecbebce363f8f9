#!/bin/sh
# Runs a test program of test/rail or test/stress on software rails. automake
# uses this script as the LOG_COMPILER of tests whose names end in ".rail".
# usage: on-rails.sh PROGRAM
set -eu
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
need_built mrail-soft
export MRAIL_TEST_SOFT="$soft"
program=$1
session=t$$-$(basename -- "$program" .rail)

# run PREFIX [OPTION of mrail soft...]: runs the program in a session with these
# options.
run()
{
    prefix=$1
    shift
    run_program "$prefix" "$soft" --session "$session" --nodes 2 --rails 4 \
        --node 0 "$@" -- "$program"
}

# Sessions other than the default of 2 nodes x 4 rails, and settings other than
# the defaults.
case $(basename -- "$program" .rail) in
busy-flush)
    run ''
    # Without telemetry and keepalive, only the flush can make the control
    # thread poll.
    export UCX_MRAIL_TELEMETRY=n UCX_MRAIL_KEEPALIVE_INTERVAL=inf
    run 'nothing else polls: '
    ;;
callback)
    export UCX_MRAIL_TX_QUEUE_LEN=16 UCX_MRAIL_AM_CREDITS=64
    run ''
    ;;
cq | harden) run '' --rails 1 ;;
fence | threads)
    export UCX_MRAIL_LANES_PER_RAIL=3
    run ''
    ;;
flushed)
    export UCX_MRAIL_RX_QUEUE_LEN=64 UCX_MRAIL_TX_QUEUE_LEN=4096
    run '' --rails 1
    ;;
live) run '' --nodes 3 --rails 2 --rate 40M ;;
stress) run '' --icrc on --rate 40M ;; # slow enough for a script to take effect
*) run '' ;;
esac
finish
