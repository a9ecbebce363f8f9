# Tests of the tools and of the scripts in contrib/.
TOOL_SCRIPT_TESTS = test/tools/acl.sh test/tools/acl-linux.sh \
    test/tools/check-layers.sh \
    test/tools/figures.sh test/tools/chroot.sh test/tools/tree.sh \
    test/tools/lanes.sh test/tools/man.sh test/tools/options.sh \
    test/tools/plan.sh test/tools/simulate.sh test/tools/exporter.sh \
    test/tools/report.sh test/tools/collect.sh \
    test/tools/style.sh test/tools/messages.sh test/tools/tap.sh \
    test/tools/readme-figure.sh test/tools/configure.sh test/tools/build.sh
EXTRA_DIST += $(TOOL_SCRIPT_TESTS) test/tools/package.sh \
    test/tools/distributed.sh \
    test/tools/node.xml test/tools/plan_check.py test/tools/test_bench_tools.py \
    test/tools/test_bench_figures.py test/tools/test_bench_gpu.py \
    test/tools/test_bench_operators.py test/tools/test_bench_paths.py \
    test/tools/test_matrix.py \
    test/tools/bench_lines.py test/tools/exporter_http.py \
    test/tools/exporter-time.sh test/tools/exporter_time.py \
    test/tools/diagnose-time.sh test/tools/diagnose_time.py \
    test/tools/page_files.py \
    test/tools/exporter_docs.py test/tools/prometheus.py test/tools/tap.py \
    test/tools/report_page.py
TIMING_TESTS += test/tools/exporter-time.sh test/tools/diagnose-time.sh
TESTS += $(TOOL_SCRIPT_TESTS)

if HAVE_CMOCKA
check_PROGRAMS += test_demand
TESTS += test_demand
test_demand_SOURCES = test/tools/test_demand.c
test_demand_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_demand_LDADD = libmrail-tool.la $(TEST_LIBS)
endif
if HAVE_CMOCKA
check_PROGRAMS += test_tool
TESTS += test_tool
test_tool_SOURCES = test/tools/test_tool.c
test_tool_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_tool_LDADD = libmrail-tool.la $(TEST_LIBS)

check_PROGRAMS += test_number test_json test_top test_trace \
    test_perfetto test_diagnose test_exporter test_exporter_files
TESTS += test_number test_json test_top test_trace test_perfetto test_diagnose \
    test_exporter test_exporter_files
check_PROGRAMS += test_report test_report_page
TESTS += test_report test_report_page
REPORT_TEST_LIBS = libmrail-report.la libmrail-top.la libmrail-telemetry.la \
    libmrail-tool.la $(TEST_LIBS)
test_report_SOURCES = test/tools/test_report.c test/tools/report_job.c \
    test/tools/report_job.h
test_report_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/tools
test_report_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_report_LDADD = $(REPORT_TEST_LIBS)
test_report_page_SOURCES = test/tools/test_report_page.c \
    test/tools/report_job.c
test_report_page_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/tools
test_report_page_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(CJSON_CFLAGS)
test_report_page_LDADD = $(CJSON_LIBS) $(REPORT_TEST_LIBS)
test_exporter_files_SOURCES = test/tools/test_exporter_files.c
test_exporter_files_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_exporter_files_LDADD = libmrail-exporter.la libmrail-top.la \
    libmrail-telemetry.la libmrail-tool.la $(TEST_LIBS)
test_exporter_SOURCES = test/tools/test_exporter.c
test_exporter_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_exporter_LDADD = libmrail-exporter.la libmrail-top.la \
    libmrail-telemetry.la libmrail-tool.la $(TEST_LIBS)
check_PROGRAMS += test_diagnose_rails test_diagnose_messages \
    test_diagnose_paths
TESTS += test_diagnose_rails test_diagnose_messages test_diagnose_paths
DIAGNOSE_TEST_LIBS = libmrail-diagnose.la libmrail-top.la \
    libmrail-orchestrator.la libmrail-telemetry.la libmrail-tool.la $(TEST_LIBS)
test_diagnose_SOURCES = test/tools/test_diagnose.c \
    test/tools/diagnose_snapshot.c test/tools/diagnose_snapshot.h
test_diagnose_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/tools
test_diagnose_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_diagnose_LDADD = $(DIAGNOSE_TEST_LIBS)
test_diagnose_rails_SOURCES = test/tools/test_diagnose_rails.c \
    test/tools/diagnose_snapshot.c
test_diagnose_rails_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/tools
test_diagnose_rails_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_diagnose_rails_LDADD = $(DIAGNOSE_TEST_LIBS)
test_diagnose_paths_SOURCES = test/tools/test_diagnose_paths.c \
    test/tools/diagnose_snapshot.c
test_diagnose_paths_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/tools
test_diagnose_paths_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_diagnose_paths_LDADD = $(DIAGNOSE_TEST_LIBS)
test_diagnose_messages_SOURCES = test/tools/test_diagnose_messages.c \
    test/tools/diagnose_snapshot.c
test_diagnose_messages_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/tools
test_diagnose_messages_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_diagnose_messages_LDADD = $(DIAGNOSE_TEST_LIBS)
check_PROGRAMS += test_collect test_collect_local
TESTS += test_collect test_collect_local
test_collect_local_SOURCES = test/tools/test_collect_local.c
test_collect_local_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_collect_local_LDADD = $(COLLECT_LIBS) $(TEST_LIBS)
test_collect_SOURCES = test/tools/test_collect.c
test_collect_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_collect_LDADD = $(COLLECT_LIBS) $(TEST_LIBS)
test_number_SOURCES = test/tools/test_number.c
test_number_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_number_LDADD = libmrail-tool.la $(TEST_LIBS)
test_top_SOURCES = test/tools/test_top.c
test_top_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_top_LDADD = libmrail-top.la libmrail-telemetry.la libmrail-tool.la \
    $(TEST_LIBS)
test_trace_SOURCES = test/tools/test_trace.c
test_trace_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_trace_LDADD = libmrail-trace.la libmrail-top.la libmrail-telemetry.la \
    libmrail-tool.la $(TEST_LIBS)
test_perfetto_SOURCES = test/tools/test_perfetto.c
test_perfetto_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS)
test_perfetto_LDADD = libmrail-trace.la libmrail-top.la libmrail-telemetry.la \
    libmrail-tool.la $(TEST_LIBS)
test_json_SOURCES = test/tools/test_json.c
test_json_CFLAGS = $(AM_CFLAGS) $(CMOCKA_CFLAGS) $(CJSON_CFLAGS)
test_json_LDADD = libmrail-tool.la $(CJSON_LIBS) $(TEST_LIBS)
endif

# Used by test/browser.
check_PROGRAMS += report_sample
report_sample_SOURCES = test/tools/report_sample.c test/tools/report_job.c
report_sample_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/tools
report_sample_LDADD = libmrail-report.la libmrail-top.la libmrail-telemetry.la \
    libmrail-tool.la

# Used by exporter.sh, exporter-time.sh, diagnose-time.sh, report.sh and
# collect.sh.
check_PROGRAMS += exporter_pages
exporter_pages_SOURCES = test/tools/exporter_pages.c
exporter_pages_LDADD = libmrail-telemetry.la libmrail-base.la

# Used by collect.sh, also that of test/mpi.
check_LTLIBRARIES += libtest-clock.la
libtest_clock_la_SOURCES = test/tools/clock_shim.c
libtest_clock_la_LDFLAGS = $(libtest_memlock_la_LDFLAGS)
libtest_clock_la_LIBADD = -ldl

# Used by acl-linux.sh.
check_PROGRAMS += udp_ports
udp_ports_SOURCES = test/tools/udp_ports.c
