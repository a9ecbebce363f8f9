# Exchanges under random fault scripts, in virtual time ...
check_PROGRAMS += test_storm
TESTS += test_storm
test_storm_SOURCES = test/storm/test_storm.c \
    test/storm/random_script.c test/storm/random_script.h \
    test/storm/transfer.c test/storm/transfer.h \
    test/sim/sim_verbs.c test/sim/sim_verbs.h
test_storm_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/sim
test_storm_LDADD = libmrail-rail.la libsroce-sim.la

# ... and on live rails.
check_PROGRAMS += rail_storm
TESTS += test/storm/storm.sh
EXTRA_DIST += test/storm/storm.sh
rail_storm_SOURCES = test/storm/rail_storm.c test/storm/random_script.c \
    test/storm/transfer.c
rail_storm_LDADD = libtest-job.la
