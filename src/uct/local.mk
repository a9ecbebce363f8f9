# src/uct: the UCX transport. The only directory that uses UCX's private
# headers.
#
#   libuct_mrail.so.0  the version shim, which UCX, LD_PRELOAD or the Open MPI
#                      hook loads. It checks the version of UCX, and then loads
#   mrail-uct.so       the transport
if HAVE_UCX
AM_DISTCHECK_CONFIGURE_FLAGS = --with-ucx=$(with_ucx) --with-ucx-src=$(UCX_SRC)
ucxdir = $(libdir)/ucx
ucx_LTLIBRARIES = libuct_mrail.la
pkglib_LTLIBRARIES += mrail-uct.la

libuct_mrail_la_SOURCES = \
    src/uct/mrail_shim.c src/uct/mrail_shim.h \
    src/uct/mrail_direct.h src/uct/mrail_rails.h \
    src/uct/mrail_tls.h
# UCX loads only modules with the same suffix as its own libraries, .so.0
libuct_mrail_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -Wl,-z,nodelete
libuct_mrail_la_LIBADD = $(UCP_LIBS) -ldl

mrail_uct_la_SOURCES = \
    src/uct/mrail_cache.c src/uct/mrail_cache.h \
    src/uct/mrail_compat.h \
    src/uct/mrail_component.c \
    src/uct/mrail_config.c src/uct/mrail_config.h \
    src/uct/mrail_direct.c src/uct/mrail_direct.h \
    src/uct/mrail_ep.c src/uct/mrail_ep.h \
    src/uct/mrail_iface.c src/uct/mrail_iface.h \
    src/uct/mrail_log.c src/uct/mrail_log.h \
    src/uct/mrail_md.c src/uct/mrail_md.h \
    src/uct/mrail_mem.c src/uct/mrail_mem.h \
    src/uct/mrail_rails.c src/uct/mrail_rails.h \
    src/uct/mrail_status.c src/uct/mrail_status.h \
    src/uct/mrail_tls.h
mrail_uct_la_CPPFLAGS = $(UCX_CPPFLAGS) $(AM_CPPFLAGS)
# UCX's offsetof and container_of use members of a null pointer.
mrail_uct_la_CFLAGS = $(AM_CFLAGS) -fno-sanitize=null,object-size
mrail_uct_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
    -Wl,-z,nodelete
mrail_uct_la_LIBADD = libmrail-rail.la $(UCX_LIBS)

DISTCLEANFILES += ucx/config.h
pkgconfig_DATA += src/uct/mrail.pc
else
AM_DISTCHECK_CONFIGURE_FLAGS = --without-ucx
endif

# Prints the last lines of `make install`: the directories of the parts, and the
# commands.
install-data-hook: install-notice
install-notice:
	@echo
	@echo "mrail is installed."
if HAVE_UCX
	@echo "  transport for UCX $(UCX_VERSION):"
	@echo "    $(ucxdir)/libuct_mrail.so.0"
else
	@echo "  The UCX transport was not built; see the output of configure."
endif
if HAVE_OMPI
	@echo "  Open MPI $(OMPI_VERSION) components:"
	@echo "    $(ompicomponentdir)"
	@echo "    (Open MPI's own: $(OMPI_SYSTEM_COMPONENTS))"
else
	@echo "  The Open MPI components were not built; see the output of configure."
endif
if HAVE_UCX
	@echo "To use it:"
	@echo "    $(bindir)/mrail run -np 4 -- ./app"
if HAVE_OMPI
	@echo "or by hand:"
if MPIRUN_FEEDS_PMIX
	@echo "    UCX_TLS=mrail,self,sm mpirun -x UCX_TLS \\"
	@echo "        --mca mca_base_component_path SYSTEM_DEFAULT:$(ompicomponentdir):USER_DEFAULT \\"
	@echo "        --pmixmca mca_base_component_path $(nonedir) ./app"
else
	@echo "    mpirun --mca mca_base_component_path \\"
	@echo "        SYSTEM_DEFAULT:$(ompicomponentdir):USER_DEFAULT \\"
	@echo "        -x UCX_TLS=mrail,self,sm ./app"
endif
endif
	@echo "other programs that use UCX:"
	@echo "    LD_PRELOAD=$(ucxdir)/libuct_mrail.so.0 \\"
	@echo "        UCX_TLS=mrail,self,sm ./app"
endif
.PHONY: install-notice
