# What contrib/bench measures with, besides the installed programs.
noinst_PROGRAMS += udp_limit
udp_limit_SOURCES = test/bench/udp_limit.c
if HAVE_MPICC
noinst_PROGRAMS += mpi_stream
mpi_stream_SOURCES = test/bench/mpi_stream.c
mpi_stream_CFLAGS = $(AM_CFLAGS) $(MPI_CFLAGS)
mpi_stream_LDADD = $(MPI_LIBS)
endif
