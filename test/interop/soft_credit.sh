#!/bin/bash
# Sends many single packets to a receiver that is stopped. The kernel rounds the
# memory of each packet up to a power of two, but must not drop any packet (see
# soft_credit.c). Word splitting is intended, and soft_lib.sh uses some of the
# variables.
# shellcheck disable=SC2034,SC2086
# shellcheck source=test/interop/soft_lib.sh
. "$(dirname "$0")/soft_lib.sh"

hold
soft ./soft_credit || fail "soft_credit: exit status $?"
drops=$(kernel_drops)
[ "$drops" = 0 ] || fail "the kernel dropped $drops packets"
[ "$(counter drop_kernel)" = 0 ] || fail "drop_kernel: $(counter drop_kernel)"
release
gone
report 'many single packets: the kernel drops none'
finish
