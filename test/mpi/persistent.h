/* Persistent exchanges, under the names of MPI 4.0. Open MPI 4.1 has them as an
 * extension. */
#ifndef MRAIL_TEST_MPI_PERSISTENT_H
#define MRAIL_TEST_MPI_PERSISTENT_H

#include <mpi.h>

#if MPI_VERSION >= 4
#define MT_HAS_PERSISTENT 1
#else
#include <mpi-ext.h>
#ifdef OMPI_HAVE_MPI_EXT_PCOLLREQ
#define MT_HAS_PERSISTENT 1
#define MPI_Alltoall_init MPIX_Alltoall_init
#define MPI_Alltoallv_init MPIX_Alltoallv_init
#define MPI_Alltoallw_init MPIX_Alltoallw_init
#endif
#endif

/* Returns a duplicate of a communicator whose info states that all ranks start
 * persistent requests and other collectives in the same order. */
static inline MPI_Comm mt_dup_ordered(MPI_Comm comm)
{
    MPI_Comm dup;
    MPI_Info info;

    MPI_Info_create(&info);
    MPI_Info_set(info, "mrail_ordered_starts", "true");
    MPI_Comm_dup_with_info(comm, info, &dup);
    MPI_Info_free(&info);
    return dup;
}

#endif
