# Files for Prometheus, Grafana and systemd, next to the documents.
exporterdir = $(docdir)/examples/exporter
dist_exporter_DATA = contrib/exporter/mrail-alerts.yml \
    contrib/exporter/mrail-dashboard.json contrib/exporter/prometheus.yml
nodist_exporter_DATA = contrib/exporter/mrail-exporter@.service
EXTRA_DIST += contrib/exporter/mrail-exporter.service.in
CLEANFILES += contrib/exporter/mrail-exporter@.service
contrib/exporter/mrail-exporter@.service: contrib/exporter/mrail-exporter.service.in
	@$(MKDIR_P) contrib/exporter
	$(AM_V_GEN)sed 's|[@]bindir[@]|$(bindir)|' \
	    "$(srcdir)/contrib/exporter/mrail-exporter.service.in" >"$@"

# Scripts of contrib/ and of CI. They are distributed but not installed.
EXTRA_DIST += \
    .ci/run \
    contrib/bench \
    contrib/bench_tools/__init__.py \
    contrib/bench_tools/against.py \
    contrib/bench_tools/cli.py \
    contrib/bench_tools/counts.py \
    contrib/bench_tools/exchange_areas.py \
    contrib/bench_tools/figure.py \
    contrib/bench_tools/gpu_area.py \
    contrib/bench_tools/lab_areas.py \
    contrib/bench_tools/lab_simulated.py \
    contrib/bench_tools/message_areas.py \
    contrib/bench_tools/multirail_area.py \
    contrib/bench_tools/operators_area.py \
    contrib/bench_tools/orchestrator_area.py \
    contrib/bench_tools/osu_area.py \
    contrib/bench_tools/scale_area.py \
    contrib/bench_tools/other_areas.py \
    contrib/bench_tools/path_areas.py \
    contrib/bench_tools/pages/alltoallv.md.in \
    contrib/bench_tools/pages/failover.md.in \
    contrib/bench_tools/pages/gpu.md.in \
    contrib/bench_tools/pages/multirail.md.in \
    contrib/bench_tools/pages/operators.md.in \
    contrib/bench_tools/pages/orchestrator.md.in \
    contrib/bench_tools/pages/osu.md.in \
    contrib/bench_tools/pages/scale.md.in \
    contrib/bench_tools/pages/overhead.md.in \
    contrib/bench_tools/pages/p2p.md.in \
    contrib/bench_tools/pages/paths.md.in \
    contrib/bench_tools/pages/planner.md.in \
    contrib/bench_tools/pages/softroce.md.in \
    contrib/bench_tools/pages/vm.md.in \
    contrib/bench_tools/pages/window.md.in \
    contrib/bench_tools/paths_picture.py \
    contrib/bench_tools/record.py \
    contrib/bench_tools/runner.py \
    contrib/bench_tools/samples.py \
    contrib/bench_tools/stats.py \
    contrib/bench_tools/svg.py \
    contrib/bench_tools/try_report.py \
    contrib/bench_tools/versions.py \
    contrib/bench_tools/window_picture.py \
    .codespellrc .shellcheckrc \
    contrib/check \
    contrib/check-links \
    contrib/check-messages \
    contrib/check-prose \
    contrib/check-style \
    contrib/figures.py \
    contrib/gen-configuration \
    contrib/gpu \
    contrib/gpu_checks \
    contrib/debian-chroot \
    contrib/debian/changelog \
    contrib/debian/control \
    contrib/debian/copyright \
    contrib/debian/libmrail-dev.install \
    contrib/debian/libmrail-plan1.install \
    contrib/debian/libmrail-stream0.install \
    contrib/debian/mrail-openmpi.install \
    contrib/debian/mrail.install \
    contrib/debian/rules \
    contrib/debian/source/format \
    contrib/fuzz \
    contrib/lib.sh \
    contrib/matrix \
    contrib/package \
    contrib/results.awk \
    contrib/setup \
    contrib/suppressions/tsan-mpi.txt \
    contrib/try \
    contrib/vm \
    contrib/check-layers
