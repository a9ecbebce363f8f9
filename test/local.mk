# Every test is listed in TESTS (make check), TIMING_TESTS (make check-timing)
# or INSTALLED_TESTS (make installcheck). Each directory of tests has its own
# local.mk.
TEST_LIBS = libmrail-base.la $(CMOCKA_LIBS)

include test/unit/local.mk
include test/property/local.mk
include test/tools/local.mk
include test/sim/local.mk
include test/stress/local.mk
include test/softroce.mk
include test/rail/local.mk
include test/gpu/local.mk
include test/fuzz/local.mk
include test/ucx/local.mk
include test/mpi/local.mk
include test/lab/local.mk
include test/vm/local.mk
include test/model/local.mk
include test/bench/local.mk

# All tests write TAP, and automake's driver counts their results. Scripts end
# in ".sh". Programs that need software rails end in ".rail"; on-rails.sh runs
# them. Programs that need software GPUs end in ".gpu"; on-gpus.sh runs them. All
# other programs need nothing. Each kind has a rule for its logs, so
# that make check TESTS=..., check-timing and installcheck can run tests that
# are not in TESTS.
TEST_EXTENSIONS = .sh .rail .gpu
LOG_DRIVER = env AM_TAP_AWK='$(AWK)' $(SHELL) \
    $(top_srcdir)/build-aux/tap-driver.sh
SH_LOG_DRIVER = $(LOG_DRIVER)
RAIL_LOG_DRIVER = $(LOG_DRIVER)
GPU_LOG_DRIVER = $(LOG_DRIVER)
AM_LOG_DRIVER_FLAGS = --merge
AM_SH_LOG_DRIVER_FLAGS = --merge
AM_RAIL_LOG_DRIVER_FLAGS = --merge
AM_GPU_LOG_DRIVER_FLAGS = --merge
LOG_COMPILER = $(SHELL) $(top_srcdir)/test/program.sh
RAIL_LOG_COMPILER = $(SHELL) $(top_srcdir)/test/rail/on-rails.sh
GPU_LOG_COMPILER = $(SHELL) $(top_srcdir)/test/gpu/on-gpus.sh
EXTRA_DIST += test/lib.sh test/program.sh test/sanitized.sh \
    test/slurm/slurm.sh test/prometheus/prometheus.sh \
    test/prometheus/queries.py test/prometheus/alerts_test.yml \
    test/browser/lib.sh test/browser/report.sh test/browser/report_dom.py

# Tests of an installation. MRAIL_TEST_LIMIT_S is the time limit of one script.
# INSTALLED_TESTS=test/mpi/p2p.sh on the command line runs a single script.
INSTALLED_ENVIRONMENT = MRAIL="$(DESTDIR)$(bindir)/mrail" \
    MRAIL_BUILD="$(abs_builddir)" MRAIL_LIBEXECDIR="$(DESTDIR)$(pkglibexecdir)" \
    MRAIL_MANDIR="$(DESTDIR)$(mandir)"
installcheck-local:
	$(INSTALLED_ENVIRONMENT) \
	    $(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS="$(INSTALLED_TESTS)" \
	    TEST_SUITE_LOG=installcheck.log \
	    SH_LOG_COMPILER="timeout -k 20 $${MRAIL_TEST_LIMIT_S:-240}"

# Tests whose result depends on time. No other test may run at the same time.
check-timing: all
	$(MAKE) $(AM_MAKEFLAGS) $(check_PROGRAMS) $(check_LTLIBRARIES)
	$(INSTALLED_ENVIRONMENT) \
	    $(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS="$(TIMING_TESTS)" \
	    TEST_SUITE_LOG=timing.log \
	    SH_LOG_COMPILER="timeout -k 20 $${MRAIL_TEST_LIMIT_S:-240}"

CLEANFILES += installcheck.log timing.log
mostlyclean-local:
	for test in $(INSTALLED_TESTS) $(TIMING_TESTS); do \
	    rm -f "$${test%.*}.log" "$${test%.*}.trs"; \
	done

# Prints the names of the tests that a goal runs, one per line, for
# contrib/check.
print-check:
	@for test in $(TESTS); do echo $$test; done
print-installcheck:
	@for test in $(INSTALLED_TESTS); do echo $$test; done
print-check-timing:
	@for test in $(TIMING_TESTS); do echo $$test; done
.PHONY: check-timing print-check print-installcheck print-check-timing

# make -j check is safe, because its tests do not depend on the time, names or
# files of other tests. Timing tests and MPI jobs run one at a time, even with
# make -j. The rule takes effect only in the make process that runs them, which
# has these goals. Building remains parallel. (The blanks keep automake from
# taking the lines for its own conditionals.)
 ifneq ($(filter installcheck.log timing.log,$(MAKECMDGOALS)),)
.NOTPARALLEL:
 endif
