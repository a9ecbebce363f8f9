# src/fabric: descriptions of switch fabrics, switch rules, and flows through
# fabrics. It uses only base and orchestrator, and has no I/O and no clock.
noinst_LTLIBRARIES += libmrail-fabric.la
libmrail_fabric_la_SOURCES = \
    src/fabric/acl.c src/fabric/acl.h src/fabric/acl_applied.c \
    src/fabric/acl_check.c \
    src/fabric/acl_eos.c src/fabric/acl_internal.h src/fabric/acl_ios.c \
    src/fabric/acl_json.c src/fabric/acl_json.h src/fabric/acl_linux.c \
    src/fabric/acl_linux_chains.c src/fabric/acl_linux_internal.h \
    src/fabric/acl_linux_nft.c src/fabric/acl_linux_read.c \
    src/fabric/acl_linux_rule.c src/fabric/acl_list.c \
    src/fabric/acl_nvue.c src/fabric/acl_sonic.c \
    src/fabric/acl_text.c \
    src/fabric/bundle.c src/fabric/bundle.h \
    src/fabric/ethereal.c src/fabric/ethereal.h \
    src/fabric/fabric.c src/fabric/fabric.h src/fabric/fabric_internal.h \
    src/fabric/fabric_finish.c src/fabric/fabric_text.c \
    src/fabric/flowlets.c src/fabric/flowlets.h \
    src/fabric/fluid.c src/fabric/fluid.h \
    src/fabric/pattern.c src/fabric/pattern.h \
    src/fabric/route.c src/fabric/route.h \
    src/fabric/simulate.c src/fabric/simulate.h \
    src/fabric/simulate_bound.c src/fabric/simulate_ethereal.c \
    src/fabric/simulate_internal.h
libmrail_fabric_la_LIBADD = libmrail-orchestrator.la libmrail-base.la -lm
