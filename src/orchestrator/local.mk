# src/orchestrator: the planner and the choice of source ports.  Pure: base
# only, no I/O, no clock.
noinst_LTLIBRARIES += libmrail-orchestrator.la
libmrail_orchestrator_la_SOURCES = \
    src/orchestrator/ports.c src/orchestrator/ports.h \
    src/orchestrator/flows.c src/orchestrator/flows.h
# All ranks have to plan alike, whatever their compilers make of a * b + c.
PLAN_CFLAGS = $(AM_CFLAGS) -ffp-contract=off
libmrail_orchestrator_la_CFLAGS = $(PLAN_CFLAGS)
