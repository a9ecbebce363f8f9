#!/bin/sh
# Runs as PID 1 of the virtual machine: sets it up, runs the checks, and powers
# it off. Its output goes to the second serial port, which contrib/vm copies to
# its own standard output.
set -u
# shellcheck source=/dev/null
. /vm/env
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/root LC_ALL=C TMPDIR=/tmp
export top build stage full
exec </dev/ttyS1 >/dev/ttyS1 2>&1
stty raw -echo

off()
{
    sync
    sleep 0.3 # lets the serial line drain
    exec >/dev/null 2>&1
    echo o >/proc/sysrq-trigger
    sleep 60
}

mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /var/tmp
hostname vm
# shellcheck disable=SC3045 # every sh that is process 1 here has both
{
    ulimit -l unlimited
    ulimit -c 0
}
ip link set lo up

say()
{
    printf '[%4.0fs] %s\n' "$(cut -d ' ' -f 1 /proc/uptime)" "$*"
}

say "Linux $(uname -r)"
if ! timeout 40 "$top/test/vm/fabric.sh" up /vm/fabric \
    >/vm/log/fabric 2>&1; then
    tail -n 5 /vm/log/fabric
    echo "not ok - fabric: the set-up failed"
    off
fi
if [ "${shell:-no}" = yes ]; then
    stty sane
    setsid -c sh -i
    off
fi
# The checks run in the order of their dependencies. "read" is not among them,
# because rdma_rxe fails it.
for check in ${checks:-perftest stock mpi ports acl repath events soft}; do
    say "$check"
    began=$(cut -d . -f 1 /proc/uptime)
    status=0
    timeout -k 5 200 "$top/test/vm/check-$check.sh" || status=$?
    [ $status -le 1 ] ||
        echo "not ok - $check exits normally: exit status $status"
    echo "        $check: $(($(cut -d . -f 1 /proc/uptime) - began)) s"
done
dmesg >/vm/log/dmesg
if grep -E 'WARNING:.* rxe_completer' /vm/log/dmesg >/vm/log/early; then
    echo "not ok - rdma_rxe completes READs only after their data has arrived" \
        "(docs/troubleshooting.md): $(head -n 1 /vm/log/early)"
elif grep -E 'BUG:|WARNING:|Oops|Call Trace' /vm/log/dmesg >/vm/log/oops; then
    echo "not ok - the kernel reports no error: $(head -n 1 /vm/log/oops)"
fi
echo "vm: the end"
off
