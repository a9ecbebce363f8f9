# src/telemetry: windows, and what a process shows of itself.  base only, which
# who links it links, too: a convenience library in another would be there twice.
noinst_LTLIBRARIES += libmrail-telemetry.la
libmrail_telemetry_la_SOURCES = src/telemetry/window.h \
    src/telemetry/capacity.c src/telemetry/capacity.h \
    src/telemetry/page.c src/telemetry/page.h
