# src/uct: the UCX transport.  The only folder that sees UCX's private headers.
#
#   libuct_mrail.so.0  what UCX, LD_PRELOAD or the Open MPI hook loads: checks
#                      the version of UCX, then loads
#   mrail-uct.so       the transport
EXTRA_DIST += m4/mrail_ucx.m4 m4/mrail_ompi.m4
if HAVE_UCX
ucxdir = $(libdir)/ucx
ucx_LTLIBRARIES = libuct_mrail.la
pkglib_LTLIBRARIES += mrail-uct.la

libuct_mrail_la_SOURCES = \
    src/uct/mrail_guard.c src/uct/mrail_guard.h \
    src/uct/mrail_tls.h
# UCX takes modules only by the suffix of its own libraries: .so.0
libuct_mrail_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -Wl,-z,nodelete
libuct_mrail_la_LIBADD = $(UCP_LIBS) -ldl

mrail_uct_la_SOURCES = \
    src/uct/mrail_compat.h \
    src/uct/mrail_component.c \
    src/uct/mrail_config.c src/uct/mrail_config.h \
    src/uct/mrail_ep.c src/uct/mrail_ep.h \
    src/uct/mrail_iface.c src/uct/mrail_iface.h \
    src/uct/mrail_log.c src/uct/mrail_log.h \
    src/uct/mrail_md.c src/uct/mrail_md.h \
    src/uct/mrail_mem.c src/uct/mrail_mem.h \
    src/uct/mrail_status.c src/uct/mrail_status.h \
    src/uct/mrail_tls.h
mrail_uct_la_CPPFLAGS = $(UCX_CPPFLAGS) $(AM_CPPFLAGS)
# ucs_offsetof() trips clang's null check
mrail_uct_la_CFLAGS = $(AM_CFLAGS) -fno-sanitize=null
mrail_uct_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
    -Wl,-z,nodelete
mrail_uct_la_LIBADD = $(UCX_LIBS)

DISTCLEANFILES += ucx/config.h
endif
