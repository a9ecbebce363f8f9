# Tests of the engine over software rails, each with several processes. A
# program whose name ends in ".rail" is a test. on-rails.sh has a table of the
# sessions and settings.
RAIL_JOBS = test/rail/backlog.rail test/rail/callback.rail test/rail/cq.rail \
    test/rail/fence.rail test/rail/flushed.rail test/rail/harden.rail test/rail/nested.rail \
    test/rail/spoof.rail test/rail/stale.rail test/rail/starve.rail \
    test/rail/threads.rail test/rail/unpolled.rail
RAIL_TIMING_JOBS = test/rail/blocked.rail test/rail/busy-flush.rail test/rail/evict.rail \
    test/rail/fair-share.rail test/rail/live.rail test/rail/many.rail \
    test/rail/quiet.rail test/rail/unreachable.rail
check_PROGRAMS += $(RAIL_JOBS) $(RAIL_TIMING_JOBS) rail_open rail_goodbye rail_errors
check_LTLIBRARIES += libtest-job.la
libtest_job_la_SOURCES = test/rail/job.c test/rail/job.h
libtest_job_la_LIBADD = libmrail-rail.la
test_rail_quiet_rail_SOURCES = test/rail/rail_quiet.c
test_rail_quiet_rail_LDADD = libtest-job.la
test_rail_many_rail_SOURCES = test/rail/rail_many.c
test_rail_many_rail_LDADD = libtest-job.la
test_rail_blocked_rail_SOURCES = test/rail/rail_blocked.c
test_rail_blocked_rail_LDADD = libtest-job.la
test_rail_threads_rail_SOURCES = test/rail/rail_threads.c
test_rail_threads_rail_LDADD = libtest-job.la -lpthread
test_rail_fair_share_rail_SOURCES = test/rail/rail_fair_share.c
test_rail_fair_share_rail_LDADD = libtest-job.la -lpthread
test_rail_backlog_rail_SOURCES = test/rail/rail_backlog.c
test_rail_backlog_rail_LDADD = libtest-job.la
test_rail_stale_rail_SOURCES = test/rail/rail_stale.c
test_rail_stale_rail_LDADD = libtest-job.la
test_rail_callback_rail_SOURCES = test/rail/rail_callback.c
test_rail_callback_rail_LDADD = libtest-job.la
test_rail_unpolled_rail_SOURCES = test/rail/rail_unpolled.c
test_rail_unpolled_rail_LDADD = libtest-job.la
test_rail_busy_flush_rail_SOURCES = test/rail/rail_busy_flush.c
test_rail_busy_flush_rail_LDADD = libtest-job.la
test_rail_nested_rail_SOURCES = test/rail/rail_nested.c
test_rail_nested_rail_LDADD = libtest-job.la
test_rail_evict_rail_SOURCES = test/rail/rail_evict.c
test_rail_evict_rail_LDADD = libtest-job.la
test_rail_starve_rail_SOURCES = test/rail/rail_starve.c
test_rail_starve_rail_LDADD = libtest-job.la
test_rail_cq_rail_SOURCES = test/rail/rail_cq.c
test_rail_cq_rail_LDADD = libtest-job.la
test_rail_flushed_rail_SOURCES = test/rail/rail_flushed.c
test_rail_flushed_rail_LDADD = libtest-job.la
test_rail_harden_rail_SOURCES = test/rail/rail_harden.c
test_rail_harden_rail_LDADD = libtest-job.la
test_rail_unreachable_rail_SOURCES = test/rail/rail_unreachable.c
test_rail_unreachable_rail_LDADD = libtest-job.la
test_rail_live_rail_SOURCES = test/rail/rail_live.c
test_rail_live_rail_LDADD = libtest-job.la
test_rail_fence_rail_SOURCES = test/rail/rail_fence.c
test_rail_fence_rail_LDADD = libtest-job.la
test_rail_spoof_rail_SOURCES = test/rail/rail_spoof.c
test_rail_spoof_rail_LDADD = libtest-job.la
rail_goodbye_SOURCES = test/rail/rail_goodbye.c
rail_goodbye_LDADD = libtest-job.la
rail_errors_SOURCES = test/rail/rail_errors.c
rail_errors_LDADD = libtest-job.la
rail_open_SOURCES = test/rail/rail_open.c
rail_open_LDADD = libmrail-rail.la
# A module. -rpath makes libtool build it as a shared library.
check_LTLIBRARIES += libtest-memlock.la
libtest_memlock_la_SOURCES = test/rail/memlock_shim.c
libtest_memlock_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
    -rpath /detached
libtest_memlock_la_LIBADD = -ldl
check_LTLIBRARIES += libtest-srq.la
libtest_srq_la_SOURCES = test/rail/srq_shim.c
libtest_srq_la_LDFLAGS = $(libtest_memlock_la_LDFLAGS)
libtest_srq_la_LIBADD = -ldl
check_LTLIBRARIES += libtest-events.la
libtest_events_la_SOURCES = test/rail/event_shim.c
libtest_events_la_LDFLAGS = $(libtest_memlock_la_LDFLAGS)
libtest_events_la_LIBADD = -ldl
# With libibverbs as a dependency, the shim finds libibverbs as the next library
# in any program.
check_LTLIBRARIES += libtest-errors.la
libtest_errors_la_SOURCES = test/rail/error_shim.c
libtest_errors_la_LDFLAGS = $(libtest_memlock_la_LDFLAGS)
libtest_errors_la_LIBADD = $(IBVERBS_LIBS) -ldl
check_LTLIBRARIES += libtest-label.la
libtest_label_la_SOURCES = test/rail/label_shim.c
libtest_label_la_LDFLAGS = $(libtest_memlock_la_LDFLAGS)
libtest_label_la_LIBADD = -ldl
RAIL_SCRIPT_TESTS = test/rail/port-control.sh test/rail/start-errors.sh \
    test/rail/slow-events.sh test/rail/full-shm.sh test/rail/errors.sh
TESTS += $(RAIL_JOBS) $(RAIL_SCRIPT_TESTS)
TIMING_TESTS += $(RAIL_TIMING_JOBS) test/rail/small-srq.sh
EXTRA_DIST += $(RAIL_SCRIPT_TESTS) test/rail/small-srq.sh test/rail/on-rails.sh
