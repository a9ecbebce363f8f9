# Exchanges under random fault scripts, in virtual time ...
check_PROGRAMS += test_stress
TESTS += test_stress
test_stress_SOURCES = test/stress/test_stress.c \
    test/stress/random_script.c test/stress/random_script.h \
    test/stress/transfer.c test/stress/transfer.h \
    test/sim/sim_verbs.c test/sim/sim_verbs.h
test_stress_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/sim
test_stress_LDADD = libmrail-rail.la libsroce-sim.la

# ... and the same exchanges on live rails.
check_PROGRAMS += test/stress/stress.rail
TESTS += test/stress/stress.rail
test_stress_stress_rail_SOURCES = test/stress/rail_stress.c test/stress/random_script.c \
    test/stress/transfer.c
test_stress_stress_rail_LDADD = libtest-job.la
