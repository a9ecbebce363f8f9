# shellcheck shell=sh disable=SC2034
# Sourced by the checks in the machine: what test/lib.sh has, and more.  Each check
# leaves its logs in /vm/log, which is build/vm/share/log outside.
#
# From the environment: top, build, stage (test/vm/guest.sh).

: "${top:?}" "${build:?}" "${stage:?}"
# shellcheck source=test/lib.sh
. "$top/test/lib.sh"
# Each process of a job would load libraries of X11, OpenCL and XML by it.
export HWLOC_PLUGINS_PATH=/nowhere
vm=$top/test/vm
log=/vm/log/$(basename "$0" .sh)
mkdir -p "$log"

# end PROCESS: it is stopped and waited for, without a word of the shell's.
end()
{
    kill "$1" 2>/dev/null
    wait "$1" 2>/dev/null
}

# Progress, with the time.
note()
{
    printf '# [%4.0fs]   %s\n' "$(cut -d ' ' -f 1 /proc/uptime)" "$*"
}

# result NAME WHY COMMAND...: ok if the command succeeds.
result()
{
    what=$1 why=$2
    shift 2
    if "$@"; then
        ok "$what"
    else
        not_ok "$what" "$why"
    fi
}

# last FILE: the last line with a message, as the reason of a failure.
last()
{
    grep -v '^[[:space:]]*$' "$1" 2>/dev/null | tail -n 1 | cut -c 1-160
}

# listens_in NAMESPACE PORT: a process of the namespace listens on the TCP port.
listens_in()
{
    hex=$(printf ':%04X 0+:0000 0A' "$2")
    ip netns exec "$1" grep -qE "$hex" /proc/net/tcp /proc/net/tcp6
}

# address_of HOST, as in fabric.sh
address_of()
{
    echo "10.10.$((($1 + 1) / 2)).$((2 + ($1 + 1) % 2))"
}
