#include "config.h"
#include "cuda/kernels.h"

#include "kernels/image.h"

CUresult mrail_cuda_kernels_load(const mrail_cuda_t *cuda, CUmodule *module_p)
{
    CUresult result = cuda->cuModuleLoadData(module_p, &mrail_kernel_image);

    return ((result != CUDA_SUCCESS) && (mrail_kernel_ptx != NULL))
               ? cuda->cuModuleLoadData(module_p, mrail_kernel_ptx)
               : result;
}
