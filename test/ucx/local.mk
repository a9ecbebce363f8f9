# test/ucx: the transport under UCX and Open MPI, on software rails.
EXTRA_DIST += test/ucx/common.sh

if HAVE_UCX
if HAVE_CMOCKA
check_PROGRAMS += test_uct
test_uct_SOURCES = test/ucx/test_uct.c test/ucx/uct_side.c test/ucx/uct_side.h
test_uct_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/test/ucx $(UCX_PREFIX_CPPFLAGS)
test_uct_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_uct_LDADD = $(UCX_LIBS) $(CMOCKA_LIBS)
endif
endif
