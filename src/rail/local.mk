# src/rail: the engine.  libibverbs only.
noinst_LTLIBRARIES += libmrail-rail.la
libmrail_rail_la_SOURCES = \
    src/rail/am.c \
    src/rail/ctl.c src/rail/ctl.h src/rail/ctl_request.c src/rail/ctl_recv.c \
    src/rail/ctl_send.c \
    src/rail/control_poll.c src/rail/control_poll.h \
    src/rail/engine.c src/rail/engine.h \
    src/rail/failover.c \
    src/rail/paths.c \
    src/rail/ep.c \
    src/rail/data_lock.c src/rail/data_lock.h \
    src/rail/move_lane.c \
    src/rail/health.c src/rail/health.h \
    src/rail/iface.c \
    src/rail/params.c src/rail/params.h \
    src/rail/port_control.c src/rail/port_control.h \
    src/rail/lane.c src/rail/lane.h \
    src/rail/pairing.c src/rail/pairing.h \
    src/rail/mem.c src/rail/mem.h \
    src/rail/mrail.h \
    src/rail/op.h \
    src/rail/peer.c src/rail/peer.h \
    src/rail/telemetry_export.c \
    src/rail/rail.c src/rail/rail.h \
    src/rail/evict.c \
    src/rail/rma.c \
    src/rail/discovery.c src/rail/discovery.h \
    src/rail/sched.c src/rail/sched.h \
    src/rail/stats.c \
    src/rail/control_thread.c \
    src/rail/fair_share.c src/rail/fair_share.h \
    src/rail/flush.c \
    src/rail/wakeup.c \
    src/rail/stall_detect.c \
    src/rail/wire.c src/rail/wire.h \
    src/rail/throttle.c
libmrail_rail_la_LIBADD = libmrail-orchestrator.la libmrail-telemetry.la \
    libmrail-base.la \
    $(IBVERBS_LIBS) -lpthread -ldl
