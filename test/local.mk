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

# Names of the test programs and scripts, one per line: for contrib/check.
print-tests:
	@for test in $(TESTS); do echo $$test; done
.PHONY: print-tests

# Tests run one at a time, with make -j as well: some want an answer within
# milliseconds.  The rule takes effect only in the make that runs them, which
# has this goal; building goes on in parallel.  (The blanks keep automake from
# taking the lines for its own conditionals.)
 ifneq ($(filter $(TEST_SUITE_LOG),$(MAKECMDGOALS)),)
.NOTPARALLEL:
 endif
