# test/ucx: the transport under UCX and Open MPI, on software rails.
UCX_SCRIPT_TESTS = test/ucx/uct.sh test/ucx/info.sh test/ucx/perf.sh \
    test/ucx/loading.sh test/ucx/install.sh test/ucx/sleep.sh \
    test/ucx/rails.sh
EXTRA_DIST += test/ucx/common.sh $(UCX_SCRIPT_TESTS)

if HAVE_UCX
TESTS += $(UCX_SCRIPT_TESTS)

# A shared object that is not installed. -rpath makes libtool build one.
check_LTLIBRARIES += other_ucx.la
other_ucx_la_SOURCES = test/ucx/other_ucx.c
other_ucx_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
    -rpath $(abs_builddir)

check_PROGRAMS += ucp_sleep
ucp_sleep_SOURCES = test/ucx/ucp_sleep.c
ucp_sleep_CPPFLAGS = $(AM_CPPFLAGS) $(UCX_PREFIX_CPPFLAGS)
ucp_sleep_LDADD = -lucp $(UCX_LIBS)

check_PROGRAMS += ucp_rails
ucp_rails_SOURCES = test/ucx/ucp_rails.c
ucp_rails_CPPFLAGS = $(AM_CPPFLAGS) $(UCX_PREFIX_CPPFLAGS)
ucp_rails_LDADD = -lucp $(UCX_LIBS) -ldl -lpthread

if HAVE_MPICC
check_PROGRAMS += mpi_sendrecv
mpi_sendrecv_SOURCES = test/ucx/mpi_sendrecv.c
mpi_sendrecv_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
mpi_sendrecv_LDADD = $(MPI_LIBS)
endif

if HAVE_CMOCKA
check_PROGRAMS += test_uct
test_uct_SOURCES = test/ucx/test_uct.c test/ucx/test_uct_am.c \
    test/ucx/test_uct_device.c test/ucx/test_uct_direct.c \
    test/ucx/test_uct_mem.c \
    test/ucx/test_uct_rma.c test/ucx/uct_tests.h \
    test/ucx/uct_side.c test/ucx/uct_side.h
test_uct_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/test/ucx $(UCX_PREFIX_CPPFLAGS)
test_uct_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_uct_LDADD = libmrail-cuda.la libmrail-base.la $(UCX_LIBS) \
    $(CMOCKA_LIBS) -ldl -lpthread
endif
endif
