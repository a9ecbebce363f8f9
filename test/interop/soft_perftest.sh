#!/bin/bash
# Runs the programs of perftest unmodified, with one result line for each
# combination. perftest does not check data. Both ends must therefore exit
# successfully and print one row of figures for each size. The device must also
# have carried the bytes without rejecting a request or losing a packet. Word
# splitting is intended, and soft_lib.sh uses some of the variables.
# shellcheck disable=SC2034,SC2086
# shellcheck source=test/interop/soft_lib.sh
. "$(dirname "$0")/soft_lib.sh"
need ib_write_bw ib_send_bw ib_read_bw ib_atomic_bw \
    ib_write_lat ib_send_lat ib_read_lat ib_atomic_lat

HOLD_S=1800
LIMIT_S=120

# Prints the session's counters, summed over its devices, as lines "NAME=N".
# Leaves out the bytes that a device counts below the protocol.
counters() {
    status | sed 's/"device"[^{]*"drop_kernel"/"drop_kernel"/' |
        grep -o '"[a-z_]*": [0-9]*' | tr -d '":' |
        awk '{n[$1] += $2}
            END {for (name in n) printf "%s=%.0f\n", name, n[name]}'
}

# Prints the counters that stay unchanged if there are no faults. Timeouts are
# not among them, because on a loaded machine the peer may simply not have run.
error_counts() {
    grep -E '^(nak_err_tx|nak_seq_tx|drop_.*)=' "$1" |
        grep -v drop_no_wqe | sort | tr '\n' ' '
}
value() { sed -n "s/^$2=//p" "$1"; }

# Prints the rows of figures in a program's output: size and iterations.
rows() { awk '/^ #bytes/ {n = 1; next} n && $1 ~ /^[0-9]+$/' "$1"; }

# check_rows FILE SIZES N: checks that there is one row for each size, and that
# each row contains a figure.
check_rows() {
    rows "$1" | awk -v sizes="$2" -v n="$3" '
        { ++have[$1]; if ($2 % n || $2 == 0 || !($5 > 0)) invalid = $0 }
        END {
            count = split(sizes, size, " ")
            if (invalid) { print "invalid row:" invalid; exit 1 }
            for (i = 1; i <= count; ++i) {
                if (have[size[i]] != 1) {
                    print "no row for " size[i] " bytes"; exit 1
                }
            }
        }'
}

# perftest first measures its clock rate. If the machine's clock is not steady,
# perftest prints a warning, and all its figures are 0.
has_clock() { ! grep -q 'Correlation coefficient' "$tmp/client"; }

# Prints the number of sizes that a command line measures, and the number of
# iterations.
sizes_of() {
    local max=8388608 size
    case " $* " in
    *' -a '*)
        case " $* " in *' -c UD '*) max=4096 ;; esac
        for ((size = 2; size <= max; size *= 2)); do printf '%s ' $size; done ;;
    *' -s '*) sed -E 's/.* -s ([0-9]+).*/\1/' <<<" $* " ;;
    *) echo 8 ;; # atomics have a single size
    esac
}

# try PROGRAM ARGUMENTS: tests one combination.
try() {
    local bytes least n sizes why
    n=$(sed -E 's/.* -n ([0-9]+).*/\1/' <<<" $* ")
    sizes=$(sizes_of "$@")
    counters >"$tmp/before"
    for _ in 1 2 3; do
        pair "$@" -F -x 0 -p "$p" -d soft0
        has_clock && break
    done
    why=$(check_rows "$tmp/client" "$sizes" "$n") || fail "$why"
    least=$(awk -v n="$n" '{for (i = 1; i <= NF; ++i) s += $i}
        END {printf "%.0f\n", s * n}' <<<"$sizes")
    counters >"$tmp/after"
    bytes=$(($(value "$tmp/after" tx_bytes) - $(value "$tmp/before" tx_bytes)))
    [ "$bytes" -ge "$least" ] ||
        fail "the device sent $bytes bytes, not $least"
    [ "$(error_counts "$tmp/before")" = "$(error_counts "$tmp/after")" ] ||
        fail "$(diff "$tmp/before" "$tmp/after" | tr '\n' ' ')"
    report "$*"
}

# refuse PROGRAM ARGUMENTS: tests a feature that the device lacks. The program
# must exit with a message and a status, not from a signal.
refuse() {
    soft "$@" -F -x 0 -p "$p" -d soft0 >"$tmp/server" 2>&1 &
    server=$!
    sleep 0.5
    soft "$@" -F -x 0 -p "$p" -d soft0 127.0.0.1 >"$tmp/client" 2>&1
    status=$?
    kill $server 2>/dev/null
    wait $server 2>/dev/null
    if [ $status = 0 ] || [ $status -ge 124 ]; then
        not_ok "$* is rejected" "exit status $status"
    else
        ok "$* is rejected"
    fi
}

each() { while read -r line; do try $line; done; }

hold
each <<'END'
ib_send_bw -s 65536 -n 200
ib_send_bw -s 1 -n 1000
ib_send_bw -s 1000003 -n 20
ib_send_bw -s 64 -n 1000 -I 64
ib_send_bw -s 4096 -n 300 -q 4
ib_send_bw -s 65536 -n 200 -e
ib_send_bw -s 4096 -n 500 --use-srq
ib_send_bw -s 4096 -n 200 --use-srq -q 4
ib_send_bw -s 333 -n 1000 -r 64
ib_send_bw -s 512 -n 960 -l 16
ib_send_bw -s 512 -n 960 --recv_post_list=16
ib_send_bw -s 10000 -n 200 -m 256
ib_send_bw -s 2048 -n 200 -c UD
ib_send_bw -s 1024 -n 200 -c UD -e
ib_send_bw -s 1024 -n 200 -c UD --use-srq
ib_write_bw -s 65536 -n 200
ib_write_bw -s 65536 -n 200 -q 8 -b
ib_write_bw -s 1000003 -n 20
ib_write_bw -s 32 -n 1000 -I 64
ib_write_bw -s 512 -n 960 -l 16
ib_read_bw -s 65536 -n 200
ib_read_bw -s 4096 -n 300 -q 4
ib_atomic_bw -n 500
ib_atomic_bw -n 500 -A CMP_AND_SWAP
ib_atomic_bw -n 300 -q 4
ib_send_lat -s 8 -n 100
ib_send_lat -s 8 -n 100 -e
ib_send_lat -s 8 -n 100 --use-srq
ib_send_lat -s 8 -n 100 -c UD
ib_send_lat -s 8 -n 100 -c UD -e
ib_write_lat -s 8 -n 20
ib_read_lat -s 8 -n 100
ib_atomic_lat -n 100
ib_atomic_lat -n 100 -A CMP_AND_SWAP
END
# Each size takes half a second, in which perftest measures its clock.
if [ "${MRAIL_TEST_FULL:-0}" = 1 ]; then
    each <<'END'
ib_send_bw -s 512 -n 500 -I 512
ib_send_bw -s 4096 -n 300 -e -q 4
ib_send_bw -s 4096 -n 200 --use-srq -e
ib_send_bw -s 4096 -n 300 -Q 1
ib_send_bw -s 64 -n 200 -c UD -I 64
ib_send_bw -s 1024 -n 200 -c UD -q 4
ib_write_bw -s 10000 -n 200 -m 1024
ib_read_bw -s 1 -n 500 -o 1
ib_send_lat -s 8 -n 100 -I 0
ib_send_lat -s 65536 -n 100
ib_atomic_lat -n 100 -e
ib_read_lat -s 8 -n 100 -e
ib_atomic_bw -n 300 -e
ib_send_bw -s 65536 -n 200 -b
ib_read_bw -s 65536 -n 200 -e
END
    for more in '' '-e' '-q 4' '-b' '-I 64'; do
        try ib_send_bw -n 32 -a $more
        [ "$more" = '-e' ] || try ib_write_bw -n 32 -a $more
        [ "$more" = '-I 64' ] || try ib_read_bw -n 32 -a $more
    done
    for more in '' '-e'; do
        for program in send read; do try ib_${program}_lat -n 20 -a $more; done
        try ib_send_bw -n 64 -a -c UD $more
        try ib_send_lat -n 20 -a -c UD $more
        try ib_send_bw -n 32 -a --use-srq $more
    done
    try ib_send_bw -n 32 -a --use-srq -q 4
    try ib_send_lat -n 20 -a --use-srq
    try ib_send_lat -n 20 -a -I 512
    try ib_write_lat -n 5 -a
    try ib_write_lat -n 5 -a -I 512
fi
for kind in UC XRC DC; do refuse ib_send_bw -s 64 -n 10 -c $kind; done
release
gone
report 'the session ends'

session=$session-icrc SOFT_OPTIONS="--icrc on"
hold
each <<'END'
ib_write_bw -s 65536 -n 200
ib_send_bw -s 333 -n 500
ib_read_bw -s 65536 -n 100
ib_atomic_bw -n 200
ib_send_bw -s 2048 -n 200 -c UD
END
release
gone
report 'the session with ICRC ends'
finish
