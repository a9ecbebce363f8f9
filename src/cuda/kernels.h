/* Loads the kernels of src/kernels. */
#ifndef MRAIL_CUDA_KERNELS_H
#define MRAIL_CUDA_KERNELS_H

#include "cuda/driver.h"

/* Loads the kernels into the current context: the image on software GPUs,
 * otherwise the PTX that nvcc compiled when mrail was built. The caller unloads
 * the module. Returns the driver's error if it rejects both, and
 * CUDA_ERROR_INVALID_IMAGE if mrail was built without nvcc. */
CUresult mrail_cuda_kernels_load(const mrail_cuda_t *cuda, CUmodule *module_p);

#endif
