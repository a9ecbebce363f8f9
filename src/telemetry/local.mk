# src/telemetry: windows and counters.  base only.
noinst_HEADERS = src/telemetry/window.h
