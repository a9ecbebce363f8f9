# src/mpi: Open MPI components.  The only folder that sees Open MPI's private
# headers.
EXTRA_DIST += \
    src/mpi/compat/opal/mca/threads/pthreads/threads_pthreads_mutex.h

if HAVE_OMPI
ompicomponentdir = $(pkglibdir)/openmpi
ompicomponent_LTLIBRARIES = mca_hook_mrail.la

mca_hook_mrail_la_SOURCES = \
    src/mpi/hook/mrail_hook.c \
    src/uct/mrail_guard.h src/uct/mrail_tls.h
mca_hook_mrail_la_CPPFLAGS = $(AM_CPPFLAGS) $(OMPI_CPPFLAGS)
mca_hook_mrail_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared
mca_hook_mrail_la_LIBADD = -ldl
endif

if MPIRUN_FEEDS_PMIX
# An empty folder, for PMIx: src/tools/run_plan.c.
nonedir = $(pkglibdir)/none
install-exec-local:
	$(MKDIR_P) "$(DESTDIR)$(nonedir)"
uninstall-local:
	-rmdir "$(DESTDIR)$(nonedir)"
endif
