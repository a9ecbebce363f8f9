/* The check of Open MPI's version that coll components make. */
#ifndef MRAIL_MPI_SAME_OMPI_H
#define MRAIL_MPI_SAME_OMPI_H

#include <mpi.h>

#include <stdio.h>
#include <string.h>

/* The structures of coll change between releases without a new version number.
 * The components therefore reject every version of Open MPI except the one of
 * the build. Returns 1 if the running version is the same. Otherwise, returns 0
 * and writes the running version to `text`, which has
 * MPI_MAX_LIBRARY_VERSION_STRING bytes. */
static inline int mrail_same_ompi(char *text)
{
    char wanted[64];
    int length;

    snprintf(wanted, sizeof(wanted), "Open MPI v%s,", MRAIL_OMPI_VERSION);
    MPI_Get_library_version(text, &length);
    return strncmp(text, wanted, strlen(wanted)) == 0;
}

#endif
