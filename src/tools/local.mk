# src/tools: the program mrail and its commands.
TOOL_PATHS = -DMRAIL_BINDIR='"$(bindir)"' \
    -DMRAIL_PKGLIBEXECDIR='"$(pkglibexecdir)"' \
    -DMRAIL_OMPI_DIR='"$(pkglibdir)/openmpi"' \
    -DMRAIL_FABRIC_DIR='"$(pkgdatadir)/fabrics"' \
    -DMRAIL_NONE_DIR='"$(pkglibdir)/none"'

noinst_LTLIBRARIES += libmrail-tool.la
libmrail_tool_la_CPPFLAGS = $(AM_CPPFLAGS) $(TOOL_PATHS)
libmrail_tool_la_SOURCES = src/tools/tool.c src/tools/tool.h \
    src/tools/options.c src/tools/options.h \
    src/tools/mpirun_cmd.c src/tools/mpirun_cmd.h \
    src/tools/demand.c src/tools/demand.h \
    src/tools/gpus.c src/tools/gpus.h \
    src/tools/rates.c src/tools/rates.h \
    src/tools/soft_file.c src/tools/soft_file.h
libmrail_tool_la_LIBADD = libsroce-fault.la libmrail-base.la

bin_PROGRAMS += mrail
mrail_SOURCES = src/tools/mrail.c
mrail_CPPFLAGS = $(AM_CPPFLAGS) $(TOOL_PATHS)
mrail_LDADD = libmrail-tool.la
dist_man_MANS += src/tools/man/mrail.1 src/tools/man/mrail-soft.1 \
    src/tools/man/mrail-fabric.5 src/tools/man/mrail-script.5 \
    src/tools/man/mrail-telemetry.5 \
    src/tools/man/mrail.7

pkglibexec_PROGRAMS += mrail-run rank-rail
mrail_run_SOURCES = src/tools/run.c
mrail_run_CPPFLAGS = $(AM_CPPFLAGS) $(TOOL_PATHS)
mrail_run_LDADD = libmrail-tool.la libmrail-rail.la
rank_rail_SOURCES = src/tools/rank_rail.c
rank_rail_LDADD = libmrail-tool.la libmrail-cuda.la
dist_man_MANS += src/tools/man/mrail-run.1

BENCH_DEVICE = src/tools/bench_buffer.c src/tools/bench_buffer.h \
    src/tools/bench_device.c src/tools/bench_device.h \
    src/tools/bench_kernels.c src/tools/bench_kernels.h

if HAVE_MPICC
pkglibexec_PROGRAMS += mrail-bench
mrail_bench_SOURCES = src/tools/bench.c src/tools/bench.h \
    src/tools/bench_data.c src/tools/bench_alltoallv.c \
    src/tools/bench_p2p.c src/tools/bench_coll.c src/tools/bench_coll.h \
    src/tools/bench_moe.c src/tools/bench_moe.h \
    src/tools/bench_moe_show.c src/tools/moe.c src/tools/moe.h \
    $(BENCH_DEVICE) \
    src/tools/bench_uplinks.c src/tools/bench_uplinks.h
mrail_bench_CPPFLAGS = $(AM_CPPFLAGS) $(TOOL_PATHS)
mrail_bench_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
mrail_bench_LDADD = libmrail-tool.la libmrail-cuda-kernels.la \
    libmrail-cuda.la \
    $(MPI_LIBS) -lm
dist_man_MANS += src/tools/man/mrail-bench.1
endif
# src/tools

# mrail soft: software rails.
pkglibexec_PROGRAMS += mrail-soft
mrail_soft_SOURCES = \
    src/softroce/host/faults.c src/softroce/host/faults.h \
    src/softroce/host/daemon.c src/softroce/host/daemon.h \
    src/softroce/host/daemon_msg.c \
    src/softroce/host/session.c src/softroce/host/session.h \
    src/softgpu/session.c src/softgpu/session.h \
    src/softgpu/not_served.h \
    src/tools/soft.c src/tools/soft.h \
    src/tools/soft_addrs.c src/tools/soft_addrs.h \
    src/tools/soft_ctl.c \
    src/tools/soft_gpu.c src/tools/soft_gpu.h \
    src/tools/soft_gpu_fault.c src/tools/soft_gpu_fault.h \
    src/tools/soft_gpu_status.c \
    src/tools/soft_status.c \
    src/tools/soft_run.c \
    src/tools/soft_script.c src/tools/soft_script.h
mrail_soft_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/src/tools \
    -DPKGLIBDIR='"$(pkglibdir)"'
mrail_soft_LDADD = libmrail-tool.la

pkglibexec_PROGRAMS += mrail-info
mrail_info_SOURCES = src/tools/info.c src/tools/info.h \
    src/tools/info_config.c src/tools/info_gpus.c src/tools/info_ports.c \
    src/tools/unknown_params.c src/tools/unknown_params.h \
    src/tools/info_rails.c src/tools/info_memory.c src/tools/info_events.c \
    src/tools/pages.c src/tools/pages.h
mrail_info_CPPFLAGS = $(AM_CPPFLAGS) $(TOOL_PATHS)
mrail_info_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS)
mrail_info_LDADD = libmrail-collect.la libmrail-tool.la libmrail-rail.la \
    $(CJSON_LIBS) $(LIBARCHIVE_LIBS) -lpthread -lm
dist_man_MANS += src/tools/man/mrail-info.1

# mrail plan: runs the planner from the command line.
noinst_LTLIBRARIES += libmrail-plan-text.la
libmrail_plan_text_la_SOURCES = \
    src/tools/plan_text.h src/tools/plan_text_demand.c \
    src/tools/plan_demand.c src/tools/plan_demand.h \
    src/tools/plan_demand_spec.c src/tools/plan_zipf.c
libmrail_plan_text_la_LIBADD = libmrail-topology.la

# Comparison arms: other ways to carry out an exchange.
noinst_LTLIBRARIES += libmrail-plan-arms.la
libmrail_plan_arms_la_SOURCES = \
    src/tools/plan_arms.c src/tools/plan_arms.h src/tools/plan_arms_priv.h \
    src/tools/plan_arms_net.c src/tools/plan_arms_net.h \
    src/tools/plan_arms_fast.c src/tools/plan_arms_stages.c \
    src/tools/plan_arms_nimble.c
PLAN_TEXT_LIBS = libmrail-plan-text.la libmrail-plan.la libmrail-tool.la

pkglibexec_PROGRAMS += mrail-plan
mrail_plan_SOURCES = src/tools/plan.c src/tools/plan_command.h \
    src/tools/plan_show.c src/tools/plan_json.c src/tools/plan_svg.c \
    src/tools/plan_local.c src/tools/plan_arms_show.c
mrail_plan_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
mrail_plan_LDADD = libmrail-plan-arms.la $(PLAN_TEXT_LIBS) $(HWLOC_LIBS)
dist_man_MANS += src/tools/man/mrail-plan.1 \
    src/tools/man/mrail-topology.5 src/tools/man/mrail-demand.5

FABRIC_FILE = src/tools/fabric_file.c src/tools/fabric_file.h

# mrail acl: switch rules.
pkglibexec_PROGRAMS += mrail-acl
mrail_acl_SOURCES = src/tools/acl.c src/tools/acl_command.h $(FABRIC_FILE) \
    src/tools/acl_fabric.c src/tools/acl_show.c \
    src/tools/acl_lists.c src/tools/acl_lists.h
mrail_acl_CPPFLAGS = $(AM_CPPFLAGS) $(TOOL_PATHS)
mrail_acl_LDADD = libmrail-fabric.la libmrail-tool.la
dist_man_MANS += src/tools/man/mrail-acl.1

# mrail lanes: how many lanes are needed with hashed paths.
pkglibexec_PROGRAMS += mrail-lanes
mrail_lanes_SOURCES = src/tools/lanes.c
mrail_lanes_LDADD = libmrail-fabric.la libmrail-tool.la -lm
dist_man_MANS += src/tools/man/mrail-lanes.1

# mrail simulate: exchanges over a fabric.
pkglibexec_PROGRAMS += mrail-simulate
mrail_simulate_SOURCES = src/tools/simulate.c src/tools/simulate_input.c \
    src/tools/simulate_plan.c src/tools/simulate_show.c \
    src/tools/simulate_command.h $(FABRIC_FILE)
mrail_simulate_CPPFLAGS = $(AM_CPPFLAGS) $(TOOL_PATHS)
mrail_simulate_LDADD = libmrail-fabric.la $(PLAN_TEXT_LIBS) -lm
dist_man_MANS += src/tools/man/mrail-simulate.1
fabricdir = $(pkgdatadir)/fabrics
dist_fabric_DATA = contrib/fabrics/ctccl.fabric \
    contrib/fabrics/ethereal-256.fabric contrib/fabrics/ethereal-512.fabric \
    contrib/fabrics/lab-4.fabric contrib/fabrics/lab-8.fabric \
    contrib/fabrics/paralet-128.fabric contrib/fabrics/paralet-1024.fabric

# mrail lab: a fabric in network namespaces.
pkglibexec_PROGRAMS += mrail-lab
noinst_LTLIBRARIES += libmrail-lab-routes.la
libmrail_lab_routes_la_SOURCES = src/tools/lab_fabric.c src/tools/lab_route.c
libmrail_lab_routes_la_LIBADD = libmrail-fabric.la libmrail-tool.la
mrail_lab_SOURCES = src/tools/lab.c src/tools/lab_command.h $(FABRIC_FILE) \
    src/tools/lab_build.c src/tools/lab_counters.c src/tools/lab_ctl.c \
    src/tools/lab_ns.c src/tools/lab_run.c \
    src/tools/lab_state.c src/tools/lab_status.c src/tools/lab_svg.c
mrail_lab_CPPFLAGS = $(AM_CPPFLAGS) $(TOOL_PATHS)
mrail_lab_LDADD = libmrail-lab-routes.la
dist_man_MANS += src/tools/man/mrail-lab.1

# mrail collect: archives of telemetry, which the viewers read.
pkglibexec_PROGRAMS += mrail-collect
noinst_LTLIBRARIES += libmrail-collect.la
libmrail_collect_la_SOURCES = src/tools/collect.h \
    src/tools/collect_channel.c src/tools/collect_channel.h \
    src/tools/collect_clock.c src/tools/collect_clock.h \
    src/tools/collect_hosts.c src/tools/collect_hosts.h \
    src/tools/collect_local.c src/tools/collect_local.h \
    src/tools/collect_manifest.c src/tools/collect_manifest.h \
    src/tools/collect_serve.c \
    src/tools/collect_share.c src/tools/collect_share.h \
    src/tools/collect_show.c \
    src/tools/collect_tar.c src/tools/collect_tar.h \
    src/tools/collect_view.c src/tools/collect_view.h \
    src/tools/collect_write.c src/tools/collect_write.h \
    src/tools/proc.c src/tools/proc.h
libmrail_collect_la_CFLAGS = $(AM_CFLAGS) $(CJSON_CFLAGS) $(LIBARCHIVE_CFLAGS)
# The libraries of a viewer, in the order of the linker.
COLLECT_LIBS = libmrail-collect.la libmrail-top.la libmrail-telemetry.la \
    libmrail-tool.la $(CJSON_LIBS) $(LIBARCHIVE_LIBS) -lpthread -lm
mrail_collect_SOURCES = src/tools/collect.c
mrail_collect_CPPFLAGS = $(AM_CPPFLAGS) $(TOOL_PATHS)
mrail_collect_LDADD = $(COLLECT_LIBS)
dist_man_MANS += src/tools/man/mrail-collect.1 src/tools/man/mrail-archive.5

pkglibexec_PROGRAMS += mrail-top
noinst_LTLIBRARIES += libmrail-top.la
libmrail_top_la_SOURCES = src/tools/pages.c src/tools/pages.h \
    src/tools/top_json.c src/tools/top_rows.c src/tools/top_rows.h \
    src/tools/top_lanes.c src/tools/top_show.h src/tools/top_table.c
mrail_top_SOURCES = src/tools/top.c \
    src/tools/top_screen.c src/tools/top_screen.h
mrail_top_LDADD = $(COLLECT_LIBS)
dist_man_MANS += src/tools/man/mrail-top.1

# mrail trace: follows the records of chunks and messages.
pkglibexec_PROGRAMS += mrail-trace
noinst_LTLIBRARIES += libmrail-trace.la
libmrail_trace_la_SOURCES = src/tools/trace_show.c src/tools/trace_show.h \
    src/tools/trace_table.c src/tools/trace_table.h \
    src/tools/perfetto.c src/tools/perfetto.h \
    src/tools/trace_calls.c src/tools/trace_calls.h \
    src/tools/trace_plans.c src/tools/trace_plans.h \
    src/tools/trace_tracks.c src/tools/trace_tracks.h
mrail_trace_SOURCES = src/tools/trace.c \
    src/tools/trace_file.c src/tools/trace_file.h \
    src/tools/trace_source.c src/tools/trace_source.h
mrail_trace_LDADD = libmrail-trace.la $(COLLECT_LIBS)
dist_man_MANS += src/tools/man/mrail-trace.1

# mrail diagnose: what delays a job.
pkglibexec_PROGRAMS += mrail-diagnose
noinst_LTLIBRARIES += libmrail-diagnose.la
libmrail_diagnose_la_SOURCES = src/tools/diagnose.h \
    src/tools/diagnose_calls.c src/tools/diagnose_calls.h \
    src/tools/diagnose_hang.c src/tools/diagnose_check.c \
    src/tools/diagnose_check_rails.c \
    src/tools/diagnose_late.c src/tools/diagnose_rails.c \
    src/tools/diagnose_show.c src/tools/diagnose_uplinks.c
mrail_diagnose_SOURCES = src/tools/diagnose.c src/tools/diagnose_read.c
mrail_diagnose_LDADD = libmrail-diagnose.la libmrail-orchestrator.la \
    $(COLLECT_LIBS)
dist_man_MANS += src/tools/man/mrail-diagnose.1

# mrail report: a page about a job. The program contains the template of the page.
pkglibexec_PROGRAMS += mrail-report
noinst_LTLIBRARIES += libmrail-report.la
REPORT_TEMPLATE = src/tools/report.html src/tools/report.css \
    src/tools/report_base.js src/tools/report_charts.js \
    src/tools/report_tables.js src/tools/report_template.awk
EXTRA_DIST += $(REPORT_TEMPLATE)
libmrail_report_la_SOURCES = src/tools/report.h \
    src/tools/report_model.c src/tools/report_events.c \
    src/tools/report_series.c src/tools/report_series.h \
    src/tools/report_facts.c src/tools/report_json.c \
    src/tools/report_json_plans.c src/tools/report_page.c
nodist_libmrail_report_la_SOURCES = src/tools/report_template.c
mrail_report_SOURCES = src/tools/report.c src/tools/report_archive.c \
    src/tools/report_env.c src/tools/report_rings.c \
    src/tools/report_files.c src/tools/report_files.h
mrail_report_LDADD = libmrail-report.la $(COLLECT_LIBS)
dist_man_MANS += src/tools/man/mrail-report.1
CLEANFILES += src/tools/report_template.c
src/tools/report_template.c: $(REPORT_TEMPLATE)
	@$(MKDIR_P) src/tools
	$(AM_V_GEN){ echo '#include "config.h"'; \
	    echo '#include "tools/report.h"'; \
	    echo 'const char *const report_template[] = {'; \
	    $(AWK) -v dir="$(srcdir)/src/tools" \
	        -f "$(srcdir)/src/tools/report_template.awk" \
	        "$(srcdir)/src/tools/report.html" >"$@.html" && \
	    sed -e 's/[\\"]/\\&/g' -e 's/.*/    "&",/' "$@.html" && \
	    rm -f "$@.html" && echo '    NULL};'; } >"$@.new"
	@mv "$@.new" "$@"

# mrail exporter: metrics for Prometheus.
pkglibexec_PROGRAMS += mrail-exporter
noinst_LTLIBRARIES += libmrail-exporter.la
libmrail_exporter_la_SOURCES = src/tools/exporter.h \
    src/tools/exporter_http.h src/tools/exporter_listen.c \
    src/tools/exporter_metrics.c src/tools/exporter_scrape.c \
    src/tools/exporter_select.c src/tools/exporter_text.c
mrail_exporter_SOURCES = src/tools/exporter.c src/tools/exporter_http.c
mrail_exporter_CFLAGS = $(AM_CFLAGS) $(MICROHTTPD_CFLAGS)
mrail_exporter_LDADD = libmrail-exporter.la libmrail-top.la \
    libmrail-telemetry.la libmrail-tool.la $(MICROHTTPD_LIBS)
dist_man_MANS += src/tools/man/mrail-exporter.1

# Shell completions, which ask the commands for their words.
bashcompdir = $(datarootdir)/bash-completion/completions
zshcompdir = $(datarootdir)/zsh/site-functions
EXTRA_DIST += src/tools/completion/mrail.bash src/tools/completion/_mrail
dist_zshcomp_DATA = src/tools/completion/_mrail
install-data-local: install-bash-completion
install-bash-completion:
	$(MKDIR_P) "$(DESTDIR)$(bashcompdir)"
	$(INSTALL_DATA) "$(srcdir)/src/tools/completion/mrail.bash" \
	    "$(DESTDIR)$(bashcompdir)/mrail"
uninstall-local: uninstall-bash-completion
uninstall-bash-completion:
	rm -f "$(DESTDIR)$(bashcompdir)/mrail"
