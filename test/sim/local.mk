# Simulations in virtual time, besides those of softroce.
if HAVE_CMOCKA
check_PROGRAMS += test_window
TESTS += test_window
test_window_SOURCES = test/sim/test_window.c test/sim/metered_lane.c \
    test/sim/metered_lane.h
test_window_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/sim
test_window_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_window_LDADD = $(TEST_LIBS)

check_PROGRAMS += test_many_peers
TESTS += test_many_peers
test_many_peers_SOURCES = test/sim/test_many_peers.c \
    test/sim/scripted_peers.c test/sim/scripted_peers.h \
    test/sim/touch_trap.c test/sim/touch_trap.h
test_many_peers_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/sim
test_many_peers_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_many_peers_LDADD = libtest-engine.la $(CMOCKA_LIBS)
test_many_peers_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc -Wl,--wrap=free
endif
