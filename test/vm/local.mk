# The virtual machine of contrib/vm: its judges and their programs.
VM_HELPERS =
EXTRA_DIST += contrib/vm test/vm/init test/vm/guest.sh test/vm/fabric.sh \
    test/vm/lib.sh test/vm/judge-perftest.sh
check_PROGRAMS += $(VM_HELPERS)

vm-programs: $(VM_HELPERS)
.PHONY: vm-programs
