# softroce: unit, property and simulation tests
# core/ and sim/
if HAVE_CMOCKA
SROCE_TESTS = test_sroce_rc
check_PROGRAMS += $(SROCE_TESTS)
TESTS += $(SROCE_TESTS)
check_LTLIBRARIES += libtest-sroce.la
libtest_sroce_la_SOURCES = test/sim/sroce_world.c test/sim/sroce_world.h
libtest_sroce_la_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
libtest_sroce_la_LIBADD = libsroce-sim.la libmrail-base.la
SROCE_TEST_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/sim
SROCE_TEST_LIBS = libtest-sroce.la $(CMOCKA_LIBS)

test_sroce_rc_SOURCES = test/sim/test_sroce_rc.c
test_sroce_rc_CPPFLAGS = $(SROCE_TEST_CPPFLAGS)
test_sroce_rc_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_sroce_rc_LDADD = $(SROCE_TEST_LIBS)
endif
