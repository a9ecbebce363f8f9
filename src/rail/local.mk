# src/rail: the engine.  libibverbs only.
noinst_LTLIBRARIES += libmrail-rail.la
libmrail_rail_la_SOURCES = \
    src/rail/am.c \
    src/rail/ctl.c src/rail/ctl.h src/rail/ctl_ask.c src/rail/ctl_recv.c \
    src/rail/ctl_send.c \
    src/rail/duty.c src/rail/duty.h \
    src/rail/engine.c src/rail/engine.h \
    src/rail/failover.c \
    src/rail/paths.c \
    src/rail/ep.c \
    src/rail/guard.c src/rail/guard.h \
    src/rail/health.c src/rail/health.h \
    src/rail/iface.c \
    src/rail/knobs.c src/rail/knobs.h \
    src/rail/lane.c src/rail/lane.h \
    src/rail/match.c src/rail/match.h \
    src/rail/mem.c src/rail/mem.h \
    src/rail/mrail.h \
    src/rail/op.h \
    src/rail/peer.c src/rail/peer.h \
    src/rail/publish.c \
    src/rail/rail.c src/rail/rail.h \
    src/rail/retire.c \
    src/rail/rma.c \
    src/rail/scan.c src/rail/scan.h \
    src/rail/sched.c src/rail/sched.h \
    src/rail/service.c \
    src/rail/shares.c src/rail/shares.h \
    src/rail/sync.c \
    src/rail/wakeup.c \
    src/rail/watch.c \
    src/rail/wire.c src/rail/wire.h \
    src/rail/yield.c
libmrail_rail_la_LIBADD = libmrail-orchestrator.la libmrail-telemetry.la \
    libmrail-base.la \
    $(IBVERBS_LIBS) -lpthread -ldl
