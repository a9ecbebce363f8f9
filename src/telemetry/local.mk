# src/telemetry: windows, and the telemetry page and trace ring of a process. It
# includes base only. Programs that link it must link base as well: a
# convenience library inside another one would be linked twice.
noinst_LTLIBRARIES += libmrail-telemetry.la
libmrail_telemetry_la_SOURCES = src/telemetry/window.h \
    src/telemetry/capacity.c src/telemetry/capacity.h \
    src/telemetry/calls.c src/telemetry/calls.h \
    src/telemetry/file.c src/telemetry/file.h \
    src/telemetry/follow.c src/telemetry/follow.h \
    src/telemetry/plans.c src/telemetry/plans.h \
    src/telemetry/page.c src/telemetry/page.h src/telemetry/page_internal.h \
    src/telemetry/ring.c src/telemetry/ring.h
