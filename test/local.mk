# Every test program is listed here; `make check` builds and runs them all.
# A folder of tests describes itself in its own local.mk.
TEST_LIBS = libmrail-base.la $(CMOCKA_LIBS)

include test/unit/local.mk
include test/property/local.mk
include test/tools/local.mk
include test/sim/local.mk
include test/stress/local.mk
include test/softroce.mk
include test/rail/local.mk
include test/fuzz/local.mk
include test/ucx/local.mk
include test/mpi/local.mk
include test/vm/local.mk
include test/model/local.mk
include test/bench/local.mk

# Scripts have rules for their logs by suffix, so that `make check TESTS=...` and
# installcheck can run scripts that are not in TESTS.
TEST_EXTENSIONS = .sh

# Tests of an installation: MRAIL_TEST_LIMIT_S is the time of one script.
# INSTALLED_TESTS=test/mpi/p2p.sh on the command line runs a single one.
installcheck-local:
	MRAIL="$(DESTDIR)$(bindir)/mrail" MRAIL_BUILD="$(abs_builddir)" \
	MRAIL_LIBEXECDIR="$(DESTDIR)$(pkglibexecdir)" \
	MRAIL_MANDIR="$(DESTDIR)$(mandir)" \
	    $(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS="$(INSTALLED_TESTS)" \
	    TEST_SUITE_LOG=installcheck.log \
	    SH_LOG_COMPILER="timeout -k 20 $${MRAIL_TEST_LIMIT_S:-240}"
CLEANFILES += installcheck.log $(INSTALLED_TESTS:.sh=.log) \
    $(INSTALLED_TESTS:.sh=.trs)

# Names of the tests that a goal runs, one per line: for contrib/check.
print-check:
	@for test in $(TESTS); do echo $$test; done
print-installcheck:
	@for test in $(INSTALLED_TESTS); do echo $$test; done
.PHONY: print-check print-installcheck

# Tests run one at a time, with make -j as well: some want an answer within
# milliseconds.  The rule takes effect only in the make that runs them, which
# has this goal; building goes on in parallel.  (The blanks keep automake from
# taking the lines for its own conditionals.)
 ifneq ($(filter $(TEST_SUITE_LOG),$(MAKECMDGOALS)),)
.NOTPARALLEL:
 endif
