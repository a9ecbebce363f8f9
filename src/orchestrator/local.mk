# src/orchestrator: the planner and the choice of source ports.  It uses only
# base, and has no I/O and no clock.
noinst_LTLIBRARIES += libmrail-orchestrator.la libmrail-planner.la
libmrail_orchestrator_la_SOURCES = \
    src/orchestrator/ports.c src/orchestrator/ports.h \
    src/orchestrator/repath.c src/orchestrator/repath.h \
    src/orchestrator/link_name.h

# The planner with its internals, for tests. All other programs link
# libmrail-plan.
libmrail_planner_la_SOURCES = \
    src/orchestrator/cuts.c src/orchestrator/cuts.h \
    src/orchestrator/digest.h \
    src/orchestrator/flows.c src/orchestrator/flows.h \
    src/orchestrator/flows_branches.c src/orchestrator/flows_repair.h \
    src/orchestrator/flows_internal.h src/orchestrator/flows_load.c \
    src/orchestrator/flows_merge.c src/orchestrator/flows_repair.c \
    src/orchestrator/flows_search.c \
    src/orchestrator/rail_masks.c src/orchestrator/rail_masks.h \
    src/orchestrator/kernels.c src/orchestrator/kernels.h \
    src/orchestrator/plan.c src/orchestrator/plan.h \
    src/orchestrator/plan_query.c src/orchestrator/plan_create.c \
    src/orchestrator/plan_contended.c src/orchestrator/plan_internal.h \
    src/orchestrator/plan_loads.c \
    src/orchestrator/routes.c src/orchestrator/routes.h \
    src/orchestrator/routes_internal.h src/orchestrator/routes_rows.c \
    src/orchestrator/topo.c src/orchestrator/topo.h
# All ranks must compute the same plan, whatever their compilers make of a * b +
# c.
PLAN_CFLAGS = $(AM_CFLAGS) -ffp-contract=off
libmrail_planner_la_CFLAGS = $(PLAN_CFLAGS)
libmrail_planner_la_LIBADD = -lm

lib_LTLIBRARIES += libmrail-plan.la
libmrail_plan_la_SOURCES =
libmrail_plan_la_LIBADD = libmrail-planner.la
libmrail_plan_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:0 \
    -export-symbols-regex '^mrail_plan_'
pkginclude_HEADERS += src/orchestrator/plan.h
dist_man_MANS += src/orchestrator/mrail-plan.3
pkgconfig_DATA += src/orchestrator/mrail-plan.pc
