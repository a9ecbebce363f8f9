# Tests of mrail lab, in network namespaces.
LAB_TESTS = test/lab/fabric.sh test/lab/killed.sh
TESTS += $(LAB_TESTS)
INSTALLED_TESTS += test/lab/jobs.sh test/lab/moves.sh test/lab/uplinks.sh
TIMING_TESTS += test/lab/planned.sh
EXTRA_DIST += $(LAB_TESTS) test/lab/jobs.sh test/lab/moves.sh \
    test/lab/planned.sh test/lab/uplinks.sh test/lab/lib.sh
