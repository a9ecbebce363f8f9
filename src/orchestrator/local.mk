# src/orchestrator: the planner and the choice of source ports.  Pure: base
# only, no I/O, no clock.
noinst_LTLIBRARIES += libmrail-orchestrator.la
libmrail_orchestrator_la_SOURCES = \
    src/orchestrator/ports.c src/orchestrator/ports.h
