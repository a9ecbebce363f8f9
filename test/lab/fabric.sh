#!/bin/sh
# Checks mrail lab: links and rates, ECMP and port rules, failed links,
# counters, and error messages.
set -u
# shellcheck source=test/lib.sh
. "$(dirname -- "$0")/../lib.sh"
# shellcheck source=test/lab/lib.sh
. "$top/test/lab/lib.sh"
need_built mrail-lab udp_ports
lab=$build/mrail-lab
need_lab
spread_fabric
export lab tmp build
PORTS=64 # source ports, one in each 64th of the port range

# ---- Scripts that run inside the lab ----

# Usage: send HOST ADDRESS. Sends one datagram from each of 64 source ports, and
# gives the counters time to update.
cat >"$tmp/send" <<'END'
"$lab" exec "$1" -- "$build/udp_ports" "$2" 4791 0 49152 256 64 && sleep 0.1
END

# Usage: packets FILE UPLINK... Prints the number of packets that each uplink
# has sent since FILE was written.
cat >"$tmp/packets" <<'END'
"$lab" status >"$tmp/now"
before=$1
shift
for link in "$@"; do
    awk -v link="$link" '$1 == link { n = $6 - n } END { printf "%d ", n }' \
        "$before" "$tmp/now"
done
cp "$tmp/now" "$before"
echo
END

# The first datagrams also resolve addresses. Their ARP packets must not count.
cat >"$tmp/rounds" <<'END'
up='l1-s1.0 l1-s2.0 l1-s3.0 l1-s4.0'
back='l2-s1.0 l2-s2.0 l2-s3.0 l2-s4.0'
for host in h1 h3; do
    sh "$tmp/send" $host $([ $host = h1 ] && echo 10.0.1.2 || echo 10.0.0.2)
done
: >"$tmp/seen"
sh "$tmp/packets" "$tmp/seen" $up >/dev/null
sh "$tmp/send" h1 10.0.1.2
echo "healthy $(sh "$tmp/packets" "$tmp/seen" $up)"
"$lab" ctl l1:1 down
"$lab" status >"$tmp/seen"
sh "$tmp/send" h1 10.0.1.2
sh "$tmp/packets" "$tmp/seen" $up >"$tmp/line"
echo "failed $(cat "$tmp/line")"
"$lab" status >"$tmp/seen"
sh "$tmp/send" h3 10.0.0.2
sh "$tmp/packets" "$tmp/seen" $back >"$tmp/line"
echo "failed-back $(cat "$tmp/line")"
awk '$1 == "l1-s2.0" { print "port", $3 }' "$tmp/now"
"$lab" ctl l1-s2.0 up
sh "$tmp/send" h1 10.0.1.2
"$lab" status >"$tmp/seen"
sh "$tmp/send" h1 10.0.1.2
echo "returned $(sh "$tmp/packets" "$tmp/seen" $up)"
END

# sum LABEL: prints the sum of the packets in the round LABEL, from $tmp/out.
sum()
{
    awk -v label="$1" '$1 == label { for (i = 2; i <= NF; ++i) n += $i }
        END { print n + 0 }' "$tmp/out"
}

# line LABEL: prints the line of that round.
line()
{
    sed -n "s/^$1 //p" "$tmp/out" | sed 's/ *$//'
}

# near NAME GOT WANTED: compares numbers of packets. ARP may add one packet per
# uplink.
near()
{
    if [ "$2" -ge "$3" ] && [ "$2" -le $(($3 + 8)) ]; then
        ok "$1"
    else
        not_ok "$1" "$2 packets, not $3" "$tmp/out"
    fi
}

# ---- Routing ----

rounds()
{
    in_lab spread.fabric "$1" sh "$tmp/rounds" >"$tmp/out" 2>&1
    succeeded "$1: the lab runs"
}

rounds rules
is 'rules: each uplink carries its segment' '16 16 16 16' "$(line healthy)"
near 'rules: nothing is lost when an uplink fails' "$(sum failed)" $PORTS
is 'rules: the failed uplink carries nothing' 0 "$(line failed | cut -d' ' -f2)"
near 'rules: the other leaf avoids the spine behind the failed link' \
    "$(sum failed-back)" $PORTS
is 'rules: the other leaf sends nothing to that spine' 0 "$(line failed-back | cut -d' ' -f2)"
is 'rules: status names the failed port' down "$(line port)"
is 'rules: the segments return with the link' '16 16 16 16' "$(line returned)"

rounds rules-drop
is 'rules-drop: each uplink carries its segment' '16 16 16 16' "$(line healthy)"
near 'rules-drop: the segment of a failed uplink is dropped' "$(sum failed)" 48
is 'rules-drop: the segments return with the link' '16 16 16 16' \
    "$(line returned)"

rounds ecmp
near 'ecmp: all packets arrive' "$(sum healthy)" $PORTS
used=$(line healthy | tr ' ' '\n' | awk '$1 > 0' | wc -l)
if [ "$used" -ge 3 ] && [ "$(line healthy)" != '16 16 16 16' ]; then
    ok 'ecmp: the hash spreads ports unevenly'
else
    not_ok 'ecmp: the hash spreads ports unevenly' "$(line healthy)" "$tmp/out"
fi
near 'ecmp: nothing is lost when an uplink fails' "$(sum failed)" $PORTS

# ---- Parallel links: up over the k-th link, down over the k-th ----

cat >"$tmp/parallel.fabric" <<'END'
host h[1-2]
leaf l[1-2]
spine s1
link h1 l1 100MB
link h2 l2 100MB
link l[1-2] s1 50MB x4
END
cat >"$tmp/down" <<'END'
sh "$tmp/send" h1 10.0.1.2
"$lab" status >"$tmp/seen"
sh "$tmp/send" h1 10.0.1.2
"$lab" status >"$tmp/now"
for k in 0 1 2 3; do
    awk -v link="l2-s1.$k" '$1 == link { n = $10 - n } END { printf "%d ", n }' \
        "$tmp/seen" "$tmp/now"
done
END
in_lab parallel.fabric rules sh "$tmp/down" >"$tmp/out" 2>&1
is 'parallel links keep the segments apart on the way down' '16 16 16 16 ' \
    "$(cat "$tmp/out")"

# ---- Three tiers, two rails per host, a configured address ----

cat >"$tmp/tiers.fabric" <<'END'
host h[1-2]
leaf l[1-4]
spine s[1-4]
core c[1-2]
link h1 l[1-2] 100MB
link h2 l[3-4] 100MB
link l[1-2] s[1-2] 50MB
link l[3-4] s[3-4] 50MB
link s[1-4] c[1-2] 50MB
address h2 l4 10.0.3.77
END
# shellcheck disable=SC2016
in_lab tiers.fabric rules sh -c '
    "$lab" exec h1 -- "$build/udp_ports" 10.0.3.77 4791 0 49152 4096 4
    sleep 0.1
    "$lab" exec h2 -- ip -o -4 addr show dev rail1 | grep -o "10.0.3.77/24"
    "$lab" exec h1 -- ip route get 10.0.3.77 from 10.0.1.2 | grep -o "dev rail1"
    "$lab" status --json --svg "$tmp/tiers.svg"' >"$tmp/out" 2>&1
expect 'three tiers: an address from the file' "$tmp/out" '^10\.0\.3\.77/24$'
expect 'a rail sends from its own address' "$tmp/out" '^dev rail1$'
expect 'three tiers: packets arrive at the leaf of the second rail' "$tmp/out" \
    '"link": "h2-l4.0".*"down": \{"port_up": true, "bytes": [1-9]'
expect 'the counters as JSON' "$tmp/out" '"routing": "rules"'
expect_count 'the drawing has two lines for each link' "$tmp/tiers.svg" \
    '^<line .*</line>$' 40

# ---- Configuration of jobs ----

# shellcheck disable=SC2016
variables='"$lab" exec h2 -- env | sed -n "s/^UCX_MRAIL_//p" | sort | tr "\n" " "'
is 'with port rules, jobs are given the number of uplinks of their leaf' \
    'SPINE_UPLINKS=1 UPLINKS=4 ' \
    "$(in_lab spread.fabric rules sh -c "$variables" 2>/dev/null)"
is 'in three tiers, jobs are also given the indices of their NICs in the pod' \
    'NIC_INDEX=0,1 SPINE_UPLINKS=2 UPLINKS=2 ' \
    "$(in_lab tiers.fabric rules sh -c "$variables" 2>/dev/null)"
is 'without rules, no variables are set' '' \
    "$(in_lab spread.fabric ecmp sh -c "$variables" 2>/dev/null || echo failed)"
is "the user's variables take precedence" 'SPINE_UPLINKS=1 UPLINKS=2 ' \
    "$(UCX_MRAIL_UPLINKS=2 in_lab spread.fabric rules sh -c "$variables" \
        2>/dev/null)"
UCX_MRAIL_LANES_PER_RAIL=1 "$lab" "$tmp/spread.fabric" --routing rules -- true \
    >"$tmp/out" 2>&1
expect 'too few lanes per rail are reported' "$tmp/out" \
    'leaf l1: 2 NICs x 1 lanes .* 2 lanes per rail would use all'
UCX_MRAIL_LANES_PER_RAIL=2 "$lab" "$tmp/spread.fabric" --routing rules -- true \
    >"$tmp/out" 2>&1 || echo 'lanes stay idle: mrail lab failed' >>"$tmp/out"
expect_none 'sufficient lanes per rail are not reported' "$tmp/out" 'stay idle'
"$lab" "$tmp/spread.fabric" --routing rules -- true >"$tmp/out" 2>&1 ||
    echo 'lanes stay idle: mrail lab failed' >>"$tmp/out"
expect_none 'the default number of lanes is sufficient' "$tmp/out" 'stay idle'

# ---- Rates: UDP faster than a link, over about a second ----

if command -v python3 >/dev/null 2>&1; then
    cat >"$tmp/flood.py" <<'END'
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 0xC001))
open(sys.argv[3], "w").close()
end = time.monotonic() + 2.2
while time.monotonic() < end:
    try:
        s.sendto(bytes(8000), socket.MSG_DONTWAIT, (sys.argv[2], 4791))
    except BlockingIOError:
        time.sleep(0.001)
END
    # On a loaded machine the sender may not run often enough to fill the link.
    carried=
    for _ in 1 2 3 4; do
        # shellcheck disable=SC2016
        rm -f "$tmp/flooding"
        in_lab spread.fabric rules sh -c '
            "$lab" exec h1 -- python3 "$tmp/flood.py" 10.0.0.2 10.0.1.2 \
                "$tmp/flooding" &
            while [ ! -e "$tmp/flooding" ]; do sleep 0.1; done
            sleep 0.5
            "$lab" status --interval 1s' >"$tmp/out" 2>&1
        bytes=$(bytes_of l1-s1.0 up "$tmp/out")
        seconds=$(sed -n 's/^links, \(.*\) s:$/\1/p' "$tmp/out")
        carried="$carried ${bytes:-no} bytes in ${seconds:-?} s,"
        awk -v b="${bytes:-0}" -v s="${seconds:-1}" \
            'BEGIN { exit !(b / s / 50e6 > 0.98) }' && break
    done
    if awk -v b="${bytes:-0}" -v s="${seconds:-1}" \
        'BEGIN { r = b / s / 50e6; exit !(r > 0.98 && r < 1.02) }'; then
        ok 'a link carries its rate within 2 %'
    else
        not_ok 'a link carries its rate within 2 %' "${carried%,}" "$tmp/out"
    fi
else
    skip 'a link carries its rate within 2 %' 'python3 is not installed'
fi

# ---- Exit status of the command, and rejected fabrics ----

expect_run 'the exit status of the command' 7 '' in_lab one.fabric ecmp sh -c 'exit 7'
expect_run 'a command that does not exist' 127 "cannot run '/no/such'" \
    in_lab one.fabric ecmp /no/such
expect_run 'a command that is not a program' 126 "cannot run '/etc/passwd'" \
    in_lab one.fabric ecmp /etc/passwd
expect_run 'the counters at the end' 0 '^h1-l1.0 +h1:0 +up +100MB' \
    "$lab" "$tmp/one.fabric" -- true
expect_run 'no file' 2 'No such file' "$lab" "$tmp/none" -- true
expect_run 'no command' 2 'missing command' "$lab" "$tmp/one.fabric"
expect_run 'an unknown routing' 2 'routing' \
    "$lab" "$tmp/one.fabric" --routing magic -- true
expect_run 'status outside of a lab' 1 'not in a lab' "$lab" status
expect_run 'ctl outside of a lab' 1 'not in a lab' "$lab" ctl l1:0 down
expect_run 'an unknown node' 2 "'h9' is not a node" \
    in_lab one.fabric ecmp "$lab" exec h9 -- true
expect_run 'an unknown link' 2 "'h1:1' is not a link" \
    in_lab one.fabric ecmp "$lab" ctl h1:1 down
expect_run 'a link neither up nor down' 2 "expected down or up" \
    in_lab one.fabric ecmp "$lab" ctl h1:0 sideways

# refused NAME PATTERN: reads a fabric from standard input, which mrail lab must
# reject.
refused()
{
    cat >"$tmp/invalid.fabric"
    expect_run "$1" 2 "invalid.fabric:?[0-9]*: .*$2" \
        "$lab" "$tmp/invalid.fabric" -- touch "$tmp/ran"
}

refused 'a loop' '' <<'END'
host h1
leaf l1
spine s1
link h1 l1 1GB
link l1 s1 1GB
link s1 l1 1GB
END
refused 'a leaf without a path to the other leaf' '' <<'END'
host h[1-2]
leaf l[1-2]
spine s1
link h1 l1 1GB
link h2 l2 1GB
link l1 s1 1GB
END
refused 'two hosts with one address' '10.0.0.7' <<'END'
host h[1-2]
leaf l1
link h[1-2] l1 1GB
address h1 l1 10.0.0.7
address h2 l1 10.0.0.7
END
for address in 198.18.0.2 198.19.255.9 100.64.0.3; do
    refused "an address of the lab's own networks: $address" "$address" <<END
host h1
leaf l1
link h1 l1 1GB
address h1 l1 $address
END
done
refused 'the name of the control namespace' "named 'lab'" <<'END'
host lab
leaf l1
link lab l1 1GB
END
if [ -e "$tmp/ran" ]; then
    not_ok 'no command runs in a rejected fabric' 'the command ran'
else
    ok 'no command runs in a rejected fabric'
fi

# Without nft: a file that cannot be executed takes its place.
nft=$(command -v nft)
hide="mount --bind /dev/null '$(readlink -f "$nft")' && exec \"\$@\""
for flags in -m -Urm; do
    unshare $flags sh -c "$hide" - true 2>/dev/null && break
done
expect_run 'a missing program is reported' 1 'nft not found in PATH.*nftables package' \
    unshare $flags sh -c "$hide" - \
    "$lab" "$tmp/one.fabric" --routing rules -- true
finish
