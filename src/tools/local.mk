# src/tools

# mrail soft: software rails.
pkglibexec_PROGRAMS += mrail-soft
mrail_soft_SOURCES = \
    src/softroce/host/keeper.c src/softroce/host/keeper.h \
    src/softroce/host/keeper_msg.c \
    src/softroce/host/session.c src/softroce/host/session.h \
    src/tools/soft.c src/tools/soft.h \
    src/tools/soft_ctl.c \
    src/tools/soft_run.c
mrail_soft_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/src/tools \
    -DPKGLIBDIR='"$(pkglibdir)"' -DPKGLIBEXECDIR='"$(pkglibexecdir)"'
