/*
 * The functions of a CUDA driver that coll/mrail calls. Preload this library
 * with LD_PRELOAD as libcuda.so.1. FAKE_CUDA is the number of a rank, or "all".
 * Every pointer of that rank, or of all ranks, counts as device memory.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#define ATTRIBUTE_MEMORY_TYPE 2
enum { MEMORY_TYPE_HOST = 1, MEMORY_TYPE_DEVICE };

__attribute__((visibility("default"))) int
cuPointerGetAttribute(void *data, int attribute, unsigned long long pointer);

int cuPointerGetAttribute(void *data, int attribute, unsigned long long pointer)
{
    const char *rank_text = getenv("FAKE_CUDA"),
               *rank = getenv("OMPI_COMM_WORLD_RANK");

    if ((attribute != ATTRIBUTE_MEMORY_TYPE) || (rank_text == NULL) ||
        (rank == NULL)) {
        return 1; /* CUDA_ERROR_INVALID_VALUE */
    }
    *(unsigned *)data =
        ((strcmp(rank_text, "all") == 0) || (strcmp(rank_text, rank) == 0))
            ? MEMORY_TYPE_DEVICE
            : MEMORY_TYPE_HOST;
    return 0;
}
