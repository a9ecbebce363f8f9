# src/fabric: fabrics of switches: their description, the rules of their
# switches, and flows through them.  Pure: base and orchestrator only.
noinst_LTLIBRARIES += libmrail-fabric.la
libmrail_fabric_la_SOURCES = \
    src/fabric/acl.c src/fabric/acl.h src/fabric/acl_check.c \
    src/fabric/acl_eos.c src/fabric/acl_internal.h src/fabric/acl_ios.c \
    src/fabric/acl_json.c src/fabric/acl_json.h src/fabric/acl_linux.c \
    src/fabric/acl_list.c src/fabric/acl_nvue.c src/fabric/acl_sonic.c \
    src/fabric/acl_text.c \
    src/fabric/fabric.c src/fabric/fabric.h src/fabric/fabric_internal.h \
    src/fabric/fabric_finish.c src/fabric/fabric_text.c
libmrail_fabric_la_LIBADD = libmrail-orchestrator.la libmrail-base.la
