# The virtual machine of contrib/vm: its judges and their programs.
VM_HELPERS = vm_wire
vm_wire_SOURCES = test/vm/vm_wire.c
vm_wire_LDADD = libsroce-core.la
check_PROGRAMS += $(VM_HELPERS)
EXTRA_DIST += contrib/vm test/vm/init test/vm/guest.sh test/vm/fabric.sh \
    test/vm/lib.sh test/vm/mpi-lib.sh test/vm/rank.sh \
    test/vm/judge-perftest.sh test/vm/judge-stock.sh test/vm/judge-mpi.sh \
    test/vm/judge-ports.sh

# What contrib/vm needs besides the installation.
vm-programs: $(VM_HELPERS) mpi_coll
.PHONY: vm-programs
