# shellcheck shell=sh disable=SC2154
# Sourced by the tests of mrail lab, after test/lib.sh.

# in_lab FABRIC ROUTING COMMAND...: runs COMMAND in a lab built from the file
# FABRIC in $tmp, without counters.
in_lab()
{
    lab_fabric=$1 lab_routing=$2
    shift 2
    # The lab has its own /dev/shm.
    env -u UCX_MRAIL_TELEMETRY_DIR timeout -k 5 60 "$lab" "$tmp/$lab_fabric" \
        --quiet --routing "$lab_routing" -- "$@"
}

# need_lab: skips the script, with the reason, if a lab cannot be built.
need_lab()
{
    need ip tc nft
    cat >"$tmp/one.fabric" <<'END'
host h1
leaf l1
link h1 l1 100MB
END
    if ! unshare -mnpiu --fork true 2>/dev/null &&
        ! unshare -Urmnpiu --fork true 2>/dev/null; then
        skip_all 'network, mount and PID namespaces are not permitted'
    fi
    in_lab one.fabric ecmp true 2>"$tmp/out" && return
    excerpt "$tmp/out"
    bail_out 'cannot set up a lab with one host'
}

# Writes a fabric with two leaves, four spines and two hosts per leaf.
spread_fabric()
{
    cat >"$tmp/spread.fabric" <<'END'
host h[1-4]
leaf l[1-2]
spine s[1-4]
link h[1-2] l1 100MB
link h[3-4] l2 100MB
link l[1-2] s[1-4] 50MB
END
}

# groups_fabric [RATE]: writes a fabric with two leaf groups of two hosts with
# two rails, and a topology file with one rank per host. Leaves l1 and l3 belong
# to rail 0, which has twice the uplinks of rail 1. RATE sets the rate of l1's
# first uplink in MB/s, which the file then contains.
groups_fabric()
{
    groups_slow=${1-20}

    cat >"$tmp/groups.fabric" <<END
host h[1-4]
leaf l[1-4]
spine s[1-4]
link h[1-2] l[1-2] 50MB
link h[3-4] l[3-4] 50MB
link l1 s1 ${groups_slow}MB
link l1 s2 20MB
link l3 s[1-2] 20MB
link l2 s[3-4] 10MB
link l4 s[3-4] 10MB
END
    cat >"$tmp/groups.topo" <<'END'
nodes 4
rails 2
rail * * 50MB
ranks * 1 multi-rail
leaf_group 2-3 1
uplink * 0 40MB
uplink * 1 20MB
END
    [ "$groups_slow" = 20 ] ||
        echo "uplink 0 0 ${groups_slow}MB,20MB" >>"$tmp/groups.topo"
}

# bytes_of LINK DIRECTION FILE: prints the bytes of LINK from FILE, the output
# of mrail lab status. DIRECTION is up or down.
bytes_of()
{
    awk -v link="$1" -v column="$([ "$2" = up ] && echo 5 || echo 9)" \
        '$1 == link { print $column }' "$3"
}
