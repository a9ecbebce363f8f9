# src/fabric: fabrics of switches: their description, the rules of their
# switches, and flows through them.  Pure: base and orchestrator only.
noinst_LTLIBRARIES += libmrail-fabric.la
libmrail_fabric_la_SOURCES = \
    src/fabric/bundle.c src/fabric/bundle.h \
    src/fabric/fabric.c src/fabric/fabric.h src/fabric/fabric_internal.h \
    src/fabric/fabric_finish.c src/fabric/fabric_text.c \
    src/fabric/fluid.c src/fabric/fluid.h \
    src/fabric/pattern.c src/fabric/pattern.h \
    src/fabric/route.c src/fabric/route.h \
    src/fabric/simulate.c src/fabric/simulate.h
libmrail_fabric_la_LIBADD = libmrail-orchestrator.la libmrail-base.la -lm
EXTRA_DIST += src/fabric/acl.h
