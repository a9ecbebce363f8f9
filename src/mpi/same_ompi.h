/* The check of Open MPI's version that coll components make. */
#ifndef MRAIL_MPI_SAME_OMPI_H
#define MRAIL_MPI_SAME_OMPI_H

#include <mpi.h>

#include <stdio.h>
#include <string.h>

/* The structures of coll change between releases without a new version number.
 * Refuse every other version of Open MPI instead of using a wrong layout.
 * Returns 1 if this is the version of the build. Otherwise returns 0, and the
 * version that runs in `text`, which has MPI_MAX_LIBRARY_VERSION_STRING
 * bytes. */
static inline int mrail_same_ompi(char *text)
{
    char wanted[64];
    int length;

    snprintf(wanted, sizeof(wanted), "Open MPI v%s,", MRAIL_OMPI_VERSION);
    MPI_Get_library_version(text, &length);
    return strncmp(text, wanted, strlen(wanted)) == 0;
}

#endif
