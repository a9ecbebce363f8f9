# Tests of the engine over software rails, several processes each.
RAIL_JOBS = rail_quiet rail_many rail_blocked rail_spoof rail_threads \
    rail_fence rail_open rail_fair_share rail_backlog rail_stale rail_cq \
    rail_nested rail_callback rail_evict rail_harden rail_starve rail_goodbye \
    rail_errors rail_unreachable rail_live rail_unpolled
check_PROGRAMS += $(RAIL_JOBS)
check_LTLIBRARIES += libtest-job.la
libtest_job_la_SOURCES = test/rail/job.c test/rail/job.h
libtest_job_la_LIBADD = libmrail-rail.la
rail_quiet_SOURCES = test/rail/rail_quiet.c
rail_quiet_LDADD = libtest-job.la
rail_many_SOURCES = test/rail/rail_many.c
rail_many_LDADD = libtest-job.la
rail_blocked_SOURCES = test/rail/rail_blocked.c
rail_blocked_LDADD = libtest-job.la
rail_threads_SOURCES = test/rail/rail_threads.c
rail_threads_LDADD = libtest-job.la -lpthread
rail_fair_share_SOURCES = test/rail/rail_fair_share.c
rail_fair_share_LDADD = libtest-job.la -lpthread
rail_backlog_SOURCES = test/rail/rail_backlog.c
rail_backlog_LDADD = libtest-job.la
rail_stale_SOURCES = test/rail/rail_stale.c
rail_stale_LDADD = libtest-job.la
rail_callback_SOURCES = test/rail/rail_callback.c
rail_callback_LDADD = libtest-job.la
rail_unpolled_SOURCES = test/rail/rail_unpolled.c
rail_unpolled_LDADD = libtest-job.la
rail_nested_SOURCES = test/rail/rail_nested.c
rail_nested_LDADD = libtest-job.la
rail_evict_SOURCES = test/rail/rail_evict.c
rail_evict_LDADD = libtest-job.la
rail_starve_SOURCES = test/rail/rail_starve.c
rail_starve_LDADD = libtest-job.la
rail_goodbye_SOURCES = test/rail/rail_goodbye.c
rail_goodbye_LDADD = libtest-job.la
rail_cq_SOURCES = test/rail/rail_cq.c
rail_cq_LDADD = libtest-job.la
rail_harden_SOURCES = test/rail/rail_harden.c
rail_harden_LDADD = libtest-job.la
rail_open_SOURCES = test/rail/rail_open.c
rail_open_LDADD = libmrail-rail.la
# A module: -rpath makes libtool build it shared.
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
# It finds libibverbs behind itself in any program.
check_LTLIBRARIES += libtest-errors.la
libtest_errors_la_SOURCES = test/rail/error_shim.c
libtest_errors_la_LDFLAGS = $(libtest_memlock_la_LDFLAGS)
libtest_errors_la_LIBADD = $(IBVERBS_LIBS) -ldl
rail_errors_SOURCES = test/rail/rail_errors.c
rail_errors_LDADD = libtest-job.la
rail_unreachable_SOURCES = test/rail/rail_unreachable.c
rail_unreachable_LDADD = libtest-job.la
rail_live_SOURCES = test/rail/rail_live.c
rail_live_LDADD = libtest-job.la
rail_fence_SOURCES = test/rail/rail_fence.c
rail_fence_LDADD = libtest-job.la
rail_spoof_SOURCES = test/rail/rail_spoof.c
rail_spoof_LDADD = libtest-job.la
RAIL_JOB_FILES = test/rail/quiet.sh test/rail/many.sh test/rail/blocked.sh \
    test/rail/spoof.sh test/rail/threads.sh test/rail/fence.sh test/rail/trouble.sh \
    test/rail/fair-share.sh test/rail/backlog.sh test/rail/stale.sh \
    test/rail/small-srq.sh test/rail/cq.sh test/rail/nested.sh \
    test/rail/unpolled.sh \
    test/rail/callback.sh test/rail/evict.sh test/rail/harden.sh \
    test/rail/starve.sh test/rail/slow-events.sh test/rail/full-shm.sh \
    test/rail/errors.sh test/rail/unreachable.sh test/rail/live.sh
TESTS += $(RAIL_JOB_FILES)
EXTRA_DIST += $(RAIL_JOB_FILES) test/rail/on-rails.sh
