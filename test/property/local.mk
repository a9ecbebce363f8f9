# Property tests: rules that hold for every input, over whole ranges or seeds.
if HAVE_CMOCKA
check_PROGRAMS += test_ports
TESTS += test_ports
test_ports_SOURCES = test/property/test_ports.c
test_ports_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_ports_LDADD = libmrail-orchestrator.la $(TEST_LIBS)
endif
