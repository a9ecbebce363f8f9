# src/softroce: the software RoCEv2 device.
# core/: the protocol, no I/O.
noinst_LTLIBRARIES += libsroce-core.la
libsroce_core_la_SOURCES = \
    src/softroce/core/av.c \
    src/softroce/core/comp.c \
    src/softroce/core/core.h \
    src/softroce/core/cq.c \
    src/softroce/core/dev.c \
    src/softroce/core/icrc.c src/softroce/core/icrc.h \
    src/softroce/core/mr.c \
    src/softroce/core/pkt.c src/softroce/core/pkt.h \
    src/softroce/core/qp.c \
    src/softroce/core/qp_moves.c \
    src/softroce/core/req.c \
    src/softroce/core/resp.c \
    src/softroce/core/rq.c \
    src/softroce/core/sroce.h \
    src/softroce/core/timer.c \
    src/softroce/core/tx.c \
    src/softroce/core/ud.c
