# Simulations in virtual time, besides those of softroce.
if HAVE_CMOCKA
check_PROGRAMS += test_window
TESTS += test_window
test_window_SOURCES = test/sim/test_window.c test/sim/metered_lane.c \
    test/sim/metered_lane.h
test_window_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/sim
test_window_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_window_LDADD = $(TEST_LIBS)
endif
