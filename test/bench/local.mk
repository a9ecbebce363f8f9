# Programs that contrib/bench needs besides the installed ones.
noinst_PROGRAMS += udp_limit
udp_limit_SOURCES = test/bench/udp_limit.c
noinst_PROGRAMS += window_figure
window_figure_SOURCES = test/bench/window_figure.c test/sim/metered_lane.c \
    test/sim/metered_lane.h
window_figure_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/sim
window_figure_LDADD = libmrail-base.la -lm
if HAVE_MPICC
noinst_PROGRAMS += mpi_stream
mpi_stream_SOURCES = test/bench/mpi_stream.c
mpi_stream_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
mpi_stream_LDADD = $(MPI_LIBS)
noinst_PROGRAMS += mpi_calls
mpi_calls_SOURCES = test/bench/mpi_calls.c
mpi_calls_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
mpi_calls_LDFLAGS = $(AM_LDFLAGS) -rdynamic
mpi_calls_LDADD = $(MPI_LIBS)
noinst_PROGRAMS += mpi_osu
mpi_osu_SOURCES = test/bench/mpi_osu.c src/tools/bench_data.c \
    src/tools/bench.h
mpi_osu_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
mpi_osu_LDADD = libmrail-base.la $(MPI_LIBS)
noinst_PROGRAMS += mpi_collectives
mpi_collectives_SOURCES = test/bench/mpi_collectives.c \
    test/mpi/mpi_test.h test/mpi/persistent.h \
    src/tools/bench_coll.c src/tools/bench_coll.h
mpi_collectives_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/mpi
mpi_collectives_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
mpi_collectives_LDADD = libmrail-base.la $(MPI_LIBS)
noinst_PROGRAMS += mpi_many
mpi_many_SOURCES = test/bench/mpi_many.c
mpi_many_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
mpi_many_LDADD = $(MPI_LIBS)
endif
noinst_PROGRAMS += plan_time
plan_time_SOURCES = test/bench/plan_time.c
plan_time_LDADD = libmrail-planner.la
noinst_PROGRAMS += peer_scale
peer_scale_SOURCES = test/bench/peer_scale.c test/sim/scripted_peers.c
peer_scale_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/test/sim
peer_scale_LDADD = libtest-engine.la
