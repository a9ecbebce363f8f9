# The virtual machine of contrib/vm: its checks and their programs.
VM_HELPERS = vm_wire vm_repath vm_events vm_data vm_read
vm_wire_SOURCES = test/vm/vm_wire.c
vm_wire_LDADD = libsroce-core.la
VM_PAIR = test/vm/vm_pair.c test/vm/vm_pair.h
vm_repath_SOURCES = test/vm/vm_repath.c $(VM_PAIR)
vm_repath_LDADD = $(IBVERBS_LIBS)
vm_events_SOURCES = test/vm/vm_events.c $(VM_PAIR)
vm_events_LDADD = $(IBVERBS_LIBS)
vm_data_SOURCES = test/vm/vm_data.c $(VM_PAIR)
vm_data_LDADD = $(IBVERBS_LIBS)
vm_read_SOURCES = test/vm/vm_read.c $(VM_PAIR)
vm_read_LDADD = $(IBVERBS_LIBS)
check_PROGRAMS += $(VM_HELPERS)
EXTRA_DIST += contrib/vm test/vm/init test/vm/guest.sh test/vm/fabric.sh \
    test/vm/lib.sh test/vm/mpi-lib.sh test/vm/rank.sh \
    test/vm/check-perftest.sh test/vm/check-stock.sh test/vm/check-mpi.sh \
    test/vm/check-acl.sh test/vm/check-ports.sh test/vm/check-repath.sh \
    test/vm/check-events.sh test/vm/check-soft.sh test/vm/check-read.sh

# Files that contrib/vm needs besides the installation.
vm-programs: $(VM_HELPERS) mpi_coll mpi_exchange libtest-errors.la
.PHONY: vm-programs
