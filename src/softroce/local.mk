# src/softroce: the software RoCEv2 device.
# core/: the protocol, no I/O.
noinst_LTLIBRARIES += libsroce-core.la
libsroce_core_la_SOURCES = \
    src/softroce/core/av.c \
    src/softroce/core/comp.c \
    src/softroce/core/core.h \
    src/softroce/core/cq.c \
    src/softroce/core/dev.c \
    src/softroce/core/crc32.c src/softroce/core/crc32.h \
    src/softroce/core/icrc.c src/softroce/core/icrc.h \
    src/softroce/core/delayed_write.c \
    src/softroce/core/mr.c \
    src/softroce/core/pkt.c src/softroce/core/pkt.h \
    src/softroce/core/post.c \
    src/softroce/core/qp.c \
    src/softroce/core/qp_moves.c \
    src/softroce/core/req.c \
    src/softroce/core/resp.c \
    src/softroce/core/rq.c \
    src/softroce/core/sroce.h \
    src/softroce/core/timer.c \
    src/softroce/core/tx.c \
    src/softroce/core/ud.c
libsroce_core_la_LIBADD = $(ISAL_LIBS)

# fault/: fault scripts, no I/O.
noinst_LTLIBRARIES += libsroce-fault.la
libsroce_fault_la_SOURCES = \
    src/softroce/fault/action.c src/softroce/fault/action.h \
    src/softroce/fault/script.c src/softroce/fault/script.h \
    src/softroce/fault/timeline.c src/softroce/fault/timeline.h

# sim/: a virtual network in virtual time.
noinst_LTLIBRARIES += libsroce-sim.la
libsroce_sim_la_SOURCES = \
    src/softroce/sim/faults.c src/softroce/sim/faults.h \
    src/softroce/sim/sim.c src/softroce/sim/sim.h
libsroce_sim_la_LIBADD = libsroce-core.la libsroce-fault.la

# host/: sockets and verbs symbols, put in front of libibverbs by LD_PRELOAD.
softrocedir = $(pkglibdir)
softroce_LTLIBRARIES = libmrail-softroce.la
libmrail_softroce_la_SOURCES = \
    src/softroce/host/credit.c \
    src/softroce/host/ctx.c \
    src/softroce/host/egress.c src/softroce/host/egress.h \
    src/softroce/host/events.c \
    src/softroce/host/fakefs.c \
    src/softroce/host/host.h \
    src/softroce/host/daemon.h \
    src/softroce/host/daemon_msg.c \
    src/softroce/host/net.c \
    src/softroce/host/proc.c \
    src/softroce/host/progress.c \
    src/softroce/host/rate.h \
    src/softroce/host/real.h \
    src/softroce/host/session.c src/softroce/host/session.h \
    src/softroce/host/tx.c \
    src/softroce/host/verbs_dev.c \
    src/softroce/host/verbs_obj.c \
    src/softroce/host/verbs_ops.c \
    src/softroce/host/verbs_qp.c
libmrail_softroce_la_CFLAGS = $(AM_CFLAGS) -pthread
libmrail_softroce_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version \
    -Wl,-z,nodelete -Wl,--no-as-needed
libmrail_softroce_la_LIBADD = libsroce-core.la libmrail-base.la \
    $(IBVERBS_LIBS) -ldl -lpthread
