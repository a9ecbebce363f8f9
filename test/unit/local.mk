# Unit tests: one file per source file, no I/O, no sleep.
if HAVE_CMOCKA
check_PROGRAMS += test_base
TESTS += test_base
test_base_SOURCES = test/unit/test_base.c
test_base_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_base_LDADD = $(TEST_LIBS)
endif
