# src/mpi: Open MPI components. The only directory under src that may include
# Open MPI's private headers.
EXTRA_DIST += \
    src/mpi/compat/ompi/mpi/fortran/base/fint_2_int.h \
    src/mpi/compat/opal/mca/threads/pthreads/threads_pthreads_mutex.h \
    src/mpi/compat/opal/mca/threads/pthreads/threads_pthreads_threads.h \
    src/mpi/compat/opal/mca/threads/pthreads/threads_pthreads_tsd.h

# Decisions that must be equal on all ranks. No MPI here.
noinst_LTLIBRARIES += libmrail-coll.la
libmrail_coll_la_SOURCES = \
    src/mpi/coll/fingerprint.c \
    src/mpi/coll/gpus.c src/mpi/coll/gpus.h \
    src/mpi/coll/mode.h src/mpi/coll/rail_view.h \
    src/mpi/coll/inflight.c src/mpi/coll/inflight.h \
    src/mpi/coll/plan_cost.h \
    src/mpi/coll/pool_shape.c src/mpi/coll/pool_shape.h \
    src/mpi/coll/record.c src/mpi/coll/record.h \
    src/mpi/coll/relay_quota.c src/mpi/coll/relay_quota.h \
    src/mpi/coll/schedule.c src/mpi/coll/schedule.h \
    src/mpi/coll/schedule_cut.c src/mpi/coll/schedule_internal.h \
    src/mpi/coll/schedule_machine.c \
    src/mpi/coll/topo_file.c src/mpi/coll/topo_file.h \
    src/mpi/coll/topology.c src/mpi/coll/topology.h \
    src/mpi/coll/unplanned.c src/mpi/coll/unplanned.h \
    src/mpi/coll/uplinks.c src/mpi/coll/uplinks.h \
    src/uct/mrail_direct.h src/uct/mrail_rails.h
# As for the planner: all ranks must compute the same numbers.
libmrail_coll_la_CFLAGS = $(PLAN_CFLAGS)
libmrail_coll_la_LIBADD = libmrail-topology.la libmrail-planner.la \
    libmrail-relay.la libmrail-base.la

# A library for programs: communication in CUDA streams. Any MPI will do.
if HAVE_MPICC
lib_LTLIBRARIES += libmrail-stream.la
libmrail_stream_la_SOURCES = \
    src/mpi/stream/stream.c src/mpi/stream/stream.h \
    src/mpi/stream/stream_comm.c \
    src/mpi/stream/stream_error.c \
    src/mpi/stream/stream_internal.h \
    src/mpi/stream/stream_op.c \
    src/mpi/stream/stream_thread.c \
    src/mpi/coll/copy.c src/mpi/coll/copy.h
libmrail_stream_la_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
libmrail_stream_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 \
    -export-symbols-regex \
    '^mrail_(stream_comm_create|stream_error|alltoallv_enqueue|send_enqueue|recv_enqueue)$$'
libmrail_stream_la_LIBADD = libmrail-cuda.la libmrail-base.la $(MPI_LIBS) \
    -lpthread
pkginclude_HEADERS += src/mpi/stream/stream.h
dist_man_MANS += src/mpi/stream/mrail-stream.3
pkgconfig_DATA += src/mpi/stream/mrail-stream.pc
endif

if HAVE_OMPI
ompicomponentdir = $(pkglibdir)/openmpi
ompicomponent_LTLIBRARIES = mca_hook_mrail.la

mca_hook_mrail_la_SOURCES = \
    src/mpi/hook/mrail_hook.c \
    src/uct/mrail_shim.h src/uct/mrail_tls.h
mca_hook_mrail_la_CPPFLAGS = $(AM_CPPFLAGS) $(OMPI_CPPFLAGS)
mca_hook_mrail_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared
mca_hook_mrail_la_LIBADD = -ldl

if HAVE_OMPI_COLL
ompicomponent_LTLIBRARIES += mca_coll_mrail.la
mca_coll_mrail_la_SOURCES = \
    src/mpi/coll/allgather_gain.h \
    src/mpi/coll/args.c src/mpi/coll/args.h \
    src/mpi/coll/copy.c src/mpi/coll/copy.h \
    src/mpi/coll/direct.c src/mpi/coll/direct.h src/mpi/coll/direct_ep.c \
    src/mpi/coll/gather.c src/mpi/coll/gather.h \
    src/mpi/coll/modex.c src/mpi/coll/modex.h \
    src/mpi/coll/mrail_coll.h \
    src/mpi/coll/mrail_coll_agree.c \
    src/mpi/coll/mrail_coll_allgatherv.c \
    src/mpi/coll/mrail_coll_call.c \
    src/mpi/coll/mrail_coll_component.c \
    src/mpi/coll/mrail_coll_exchange.c \
    src/mpi/coll/mrail_coll_explain.c \
    src/mpi/coll/mrail_coll_export.c \
    src/mpi/coll/mrail_coll_functions.c \
    src/mpi/coll/mrail_coll_gpus.c \
    src/mpi/coll/mrail_coll_module.c \
    src/mpi/coll/mrail_coll_op.c src/mpi/coll/mrail_coll_op_post.c \
    src/mpi/coll/mrail_coll_persistent.c \
    src/mpi/coll/mrail_coll_pool.c \
    src/mpi/coll/mrail_coll_setup.c \
    src/mpi/coll/mrail_coll_plan.c \
    src/mpi/coll/mrail_coll_records.c \
    src/mpi/coll/mrail_coll_pairwise.c \
    src/mpi/coll/dt_segment.c src/mpi/coll/dt_segment.h \
    src/mpi/coll/neighbors.c src/mpi/coll/neighbors.h \
    src/mpi/coll/peer.c src/mpi/coll/peer.h \
    src/mpi/coll/relay_net.c src/mpi/coll/relay_net.h \
    src/mpi/coll/relay_net_internal.h src/mpi/coll/relay_net_message.c \
    src/mpi/coll/request.h \
    src/mpi/coll/shadow.c src/mpi/coll/shadow.h \
    src/mpi/coll/staged.c src/mpi/coll/staged.h \
    src/mpi/same_ompi.h src/mpi/signatures.h src/mpi/telemetry_env.h
mca_coll_mrail_la_CPPFLAGS = $(AM_CPPFLAGS) $(OMPI_CPPFLAGS)
# Do not export the symbols of the planner, which is linked in.
mca_coll_mrail_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
    -export-symbols-regex '^mca_coll_mrail_component$$'
mca_coll_mrail_la_LIBADD = libmrail-coll.la libmrail-cuda-relay.la \
    libmrail-cuda.la libmrail-telemetry.la -ldl

ompicomponent_LTLIBRARIES += mca_coll_mrailcalls.la
mca_coll_mrailcalls_la_SOURCES = \
    src/mpi/calls/calls_component.c \
    src/mpi/calls/calls_module.c \
    src/mpi/calls/calls_waits.c \
    src/mpi/calls/mrail_calls.h \
    src/mpi/same_ompi.h src/mpi/signatures.h src/mpi/telemetry_env.h \
    src/uct/mrail_tls.h
mca_coll_mrailcalls_la_CPPFLAGS = $(AM_CPPFLAGS) $(OMPI_CPPFLAGS)
mca_coll_mrailcalls_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
    -export-symbols-regex '^mca_coll_mrailcalls_component$$'
mca_coll_mrailcalls_la_LIBADD = libmrail-telemetry.la libmrail-base.la
endif
endif

if MPIRUN_FEEDS_PMIX
# An empty directory for PMIx (see src/tools/mpirun_cmd.c).
nonedir = $(pkglibdir)/none
install-exec-local:
	$(MKDIR_P) "$(DESTDIR)$(nonedir)"
endif
