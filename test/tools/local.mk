# Tests of the tools and of the scripts in contrib/.
EXTRA_DIST += test/tools/walls.sh
TESTS += test/tools/walls.sh

if HAVE_CMOCKA
check_PROGRAMS += test_demand
TESTS += test_demand
test_demand_SOURCES = test/tools/test_demand.c
test_demand_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_demand_LDADD = libmrail-tool.la $(TEST_LIBS)
endif
