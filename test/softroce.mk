# softroce: unit, property and simulation tests
# core/ and sim/
if HAVE_CMOCKA
SROCE_TESTS = test_sroce_alloc test_sroce_icrc test_sroce_qp test_sroce_rc \
    test_sroce_err test_sroce_ud test_sroce_loss test_sroce_faults \
    test_sroce_script test_fault_script test_sroce_rate
check_PROGRAMS += $(SROCE_TESTS)
TESTS += $(SROCE_TESTS)
check_LTLIBRARIES += libtest-sroce.la
libtest_sroce_la_SOURCES = test/sim/sroce_net.c test/sim/sroce_net.h
libtest_sroce_la_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
libtest_sroce_la_LIBADD = libsroce-sim.la libmrail-base.la
SROCE_TEST_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/sim
SROCE_TEST_LIBS = libtest-sroce.la $(CMOCKA_LIBS)

test_sroce_rc_SOURCES = test/sim/test_sroce_rc.c
test_sroce_rc_CPPFLAGS = $(SROCE_TEST_CPPFLAGS)
test_sroce_rc_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_sroce_rc_LDADD = $(SROCE_TEST_LIBS)
test_sroce_err_SOURCES = test/sim/test_sroce_err.c
test_sroce_err_CPPFLAGS = $(SROCE_TEST_CPPFLAGS)
test_sroce_err_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_sroce_err_LDADD = $(SROCE_TEST_LIBS)
test_sroce_ud_SOURCES = test/sim/test_sroce_ud.c
test_sroce_ud_CPPFLAGS = $(SROCE_TEST_CPPFLAGS)
test_sroce_ud_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_sroce_ud_LDADD = $(SROCE_TEST_LIBS)
test_sroce_alloc_SOURCES = test/unit/test_sroce_alloc.c
test_sroce_alloc_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_sroce_alloc_LDADD = libsroce-core.la $(CMOCKA_LIBS)
test_sroce_alloc_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc \
    -Wl,--wrap=realloc -Wl,--wrap=aligned_alloc
test_sroce_icrc_SOURCES = test/unit/test_sroce_icrc.c
test_sroce_icrc_CPPFLAGS = $(SROCE_TEST_CPPFLAGS)
test_sroce_icrc_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_sroce_icrc_LDADD = $(SROCE_TEST_LIBS)
test_sroce_qp_SOURCES = test/unit/test_sroce_qp.c
test_sroce_qp_CPPFLAGS = $(SROCE_TEST_CPPFLAGS)
test_sroce_qp_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_sroce_qp_LDADD = $(SROCE_TEST_LIBS)
test_sroce_loss_SOURCES = test/sim/test_sroce_loss.c
test_sroce_loss_CPPFLAGS = $(SROCE_TEST_CPPFLAGS)
test_sroce_loss_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_sroce_loss_LDADD = $(SROCE_TEST_LIBS)
test_sroce_script_SOURCES = test/sim/test_sroce_script.c
test_sroce_script_CPPFLAGS = $(SROCE_TEST_CPPFLAGS)
test_sroce_script_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_sroce_script_LDADD = $(SROCE_TEST_LIBS)
test_fault_script_SOURCES = test/unit/test_fault_script.c
test_fault_script_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_fault_script_LDADD = libsroce-fault.la $(CMOCKA_LIBS)
test_fault_script_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc \
    -Wl,--wrap=calloc -Wl,--wrap=realloc -Wl,--wrap=strdup
test_sroce_rate_SOURCES = test/unit/test_sroce_rate.c
test_sroce_rate_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_sroce_rate_LDADD = $(CMOCKA_LIBS)
test_sroce_faults_SOURCES = test/property/test_sroce_faults.c
test_sroce_faults_CPPFLAGS = $(SROCE_TEST_CPPFLAGS)
test_sroce_faults_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_sroce_faults_LDADD = $(SROCE_TEST_LIBS)
# Tests of sessions, session daemons and intercepted files. They need no device
# and no job.
SOFT_HOST_TESTS = soft_daemon test_soft_open
check_PROGRAMS += $(SOFT_HOST_TESTS)
TESTS += $(SOFT_HOST_TESTS)
soft_daemon_SOURCES = test/interop/soft_daemon.c \
    src/softroce/host/daemon.c src/softroce/host/daemon_msg.c \
    src/softroce/host/session.c
soft_daemon_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
soft_daemon_LDADD = libmrail-base.la $(CMOCKA_LIBS)
test_soft_open_SOURCES = test/unit/test_soft_open.c \
    src/softroce/host/fakefs.c
test_soft_open_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_soft_open_LDADD = libmrail-base.la $(CMOCKA_LIBS)
test_soft_open_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dlsym
endif

# host/: real programs on software rails (test/interop). They run in the build
# directory. If a program is missing, its test is skipped by name.
check_PROGRAMS += soft_stress soft_events soft_processes soft_objects soft_credit \
    soft_errqp
soft_stress_SOURCES = test/interop/soft_stress.c
soft_stress_LDADD = $(IBVERBS_LIBS)
soft_events_SOURCES = test/interop/soft_events.c
soft_events_LDADD = $(IBVERBS_LIBS)
soft_processes_SOURCES = test/interop/soft_processes.c
soft_processes_LDADD = $(IBVERBS_LIBS)
soft_objects_SOURCES = test/interop/soft_objects.c \
    test/interop/soft_channels.c test/interop/soft_async.c \
    test/interop/soft_pair.c test/interop/soft_pair.h
soft_objects_LDADD = $(IBVERBS_LIBS) -lpthread
soft_errqp_SOURCES = test/interop/soft_errqp.c
soft_errqp_LDADD = $(IBVERBS_LIBS)
soft_credit_SOURCES = test/interop/soft_credit.c
soft_credit_LDADD = $(IBVERBS_LIBS)
if HAVE_MPICC
check_PROGRAMS += soft_alltoall
soft_alltoall_SOURCES = test/interop/soft_alltoall.c
soft_alltoall_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
soft_alltoall_LDADD = $(MPI_LIBS)
endif
SOFT_TESTS = \
    test/interop/soft_invalid.sh \
    test/interop/soft_credit.sh \
    test/interop/soft_kill.sh \
    test/interop/soft_mpi.sh \
    test/interop/soft_objects.sh \
    test/interop/soft_pyverbs.sh \
    test/interop/soft_stress.sh \
    test/interop/soft_tshark.sh \
    test/interop/soft_ucx.sh \
    test/interop/soft_verbs.sh
SOFT_TIMING_TESTS = \
    test/interop/soft_faults.sh \
    test/interop/soft_perftest.sh \
    test/interop/soft_script.sh
TESTS += $(SOFT_TESTS)
TIMING_TESTS += $(SOFT_TIMING_TESTS)
EXTRA_DIST += $(SOFT_TESTS) $(SOFT_TIMING_TESTS) test/interop/soft_lib.sh \
    test/interop/verbs/capture.py \
    test/interop/verbs/device.py \
    test/interop/verbs/errors.py \
    test/interop/verbs/moves.py \
    test/interop/verbs/objects.py \
    test/interop/verbs/traffic.py \
    test/interop/verbs/vlib.py
