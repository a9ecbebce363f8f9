# src/fabric: fabrics of switches: their description, the rules of their
# switches, and flows through them.  Pure: base and orchestrator only.
noinst_LTLIBRARIES += libmrail-fabric.la
libmrail_fabric_la_SOURCES = \
    src/fabric/fabric.c src/fabric/fabric.h src/fabric/fabric_internal.h \
    src/fabric/fabric_finish.c src/fabric/fabric_text.c
libmrail_fabric_la_LIBADD = libmrail-orchestrator.la libmrail-base.la
EXTRA_DIST += src/fabric/acl.h
