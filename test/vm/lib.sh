# shellcheck shell=sh disable=SC2034
# Sourced by the checks in the virtual machine. Extends test/lib.sh. Each check
# writes its logs to /vm/log, which is build/vm/share/log on the host.
#
# The environment provides top, build and stage (test/vm/guest.sh).

: "${top:?}" "${build:?}" "${stage:?}"
# shellcheck source=test/lib.sh
. "$top/test/lib.sh"
# Without this setting, each process of a job would load the libraries of X11,
# OpenCL and XML.
export HWLOC_PLUGINS_PATH=/nowhere
vm=$top/test/vm
log=/vm/log/$(basename "$0" .sh)
mkdir -p "$log"

# end PROCESS: stops a process and waits for it, without a message from the
# shell.
end()
{
    kill "$1" 2>/dev/null
    wait "$1" 2>/dev/null
}

# Prints the progress, with the time.
note()
{
    printf '# [%4.0fs]   %s\n' "$(cut -d ' ' -f 1 /proc/uptime)" "$*"
}

# result NAME WHY COMMAND...: reports ok if COMMAND succeeds, and otherwise WHY.
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

# last FILE: prints the last line of FILE that contains a message, as the reason
# for a failure.
last()
{
    grep -v '^[[:space:]]*$' "$1" 2>/dev/null | tail -n 1 | cut -c 1-160
}

# listens_in NAMESPACE PORT: succeeds if a process in the namespace listens on
# the TCP port.
listens_in()
{
    hex=$(printf ':%04X 0+:0000 0A' "$2")
    ip netns exec "$1" grep -qE "$hex" /proc/net/tcp /proc/net/tcp6
}

# address_of HOST: prints a host's address, as in fabric.sh.
address_of()
{
    echo "10.10.$((($1 + 1) / 2)).$((2 + ($1 + 1) % 2))"
}
