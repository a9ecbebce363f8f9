/*
 * The function of a CUDA driver that coll/mrail calls. Preload this library
 * with LD_PRELOAD as libcuda.so.1. FAKE_CUDA is the number of a rank, or "all".
 * Every pointer of that rank, or of all ranks, counts as device memory.
 */
#include "config.h"
#include "cuda/abi.h"

#include <stdlib.h>
#include <string.h>

CUresult cuPointerGetAttributes(unsigned num, CUpointer_attribute *attributes,
                                void **values, CUdeviceptr address)
{
    const char *rank_text = getenv("FAKE_CUDA"),
               *rank = getenv("OMPI_COMM_WORLD_RANK");

    if ((rank_text == NULL) || (rank == NULL)) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    for (unsigned i = 0; i < num; ++i) {
        if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
            *(unsigned *)values[i] = ((strcmp(rank_text, "all") == 0) ||
                                      (strcmp(rank_text, rank) == 0))
                                         ? CU_MEMORYTYPE_DEVICE
                                         : CU_MEMORYTYPE_HOST;
        }
    }
    return CUDA_SUCCESS;
}
