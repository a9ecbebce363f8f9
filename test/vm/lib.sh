# shellcheck shell=sh disable=SC2034
# Sourced by the checks in the machine.  Each prints "ok - NAME",
# "not ok - NAME: WHY" or "skip - NAME: WHY" lines and leaves its logs in
# /vm/log, which is build/vm/share/log outside.
#
# From the environment: top, build, stage (test/vm/guest.sh).

: "${top:?}" "${build:?}" "${stage:?}"
# Each process of a job would load libraries of X11, OpenCL and XML by it.
export HWLOC_PLUGINS_PATH=/nowhere
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
vm=$top/test/vm
judge=$(basename "$0" .sh)
log=/vm/log/$judge
failed=0
mkdir -p "$log"
# No process that a check starts outlives the check.
trap 'kill $(jobs -p) 2>/dev/null' EXIT

good()
{
    echo "ok - $1"
}

# end PROCESS: it is stopped and waited for, without a word of the shell's.
end()
{
    kill "$1" 2>/dev/null
    wait "$1" 2>/dev/null
}

bad()
{
    echo "not ok - $1: $2"
    failed=1
}

# Progress, with the time.
note()
{
    printf '[%4.0fs]   %s\n' "$(cut -d ' ' -f 1 /proc/uptime)" "$*"
}

# result NAME WHY COMMAND...: ok if the command succeeds.
result()
{
    what=$1 why=$2
    shift 2
    if "$@"; then
        good "$what"
    else
        bad "$what" "$why"
    fi
}

# last FILE: its last line that says something, for a reason.
last()
{
    grep -v '^[[:space:]]*$' "$1" 2>/dev/null | tail -n 1 | cut -c 1-160
}

# await SECONDS COMMAND...: until it succeeds.
await()
{
    tries=$(($1 * 10))
    shift
    while [ $tries -gt 0 ]; do
        "$@" && return 0
        sleep 0.1
        tries=$((tries - 1))
    done
    return 1
}

# listens PORT [NAMESPACE]: somebody does.
listens()
{
    hex=$(printf ':%04X 0+:0000 0A' "$1")
    ${2:+ip netns exec "$2"} grep -qE "$hex" /proc/net/tcp /proc/net/tcp6
}

# address_of HOST, as in fabric.sh
address_of()
{
    echo "10.10.$((($1 + 1) / 2)).$((2 + ($1 + 1) % 2))"
}
