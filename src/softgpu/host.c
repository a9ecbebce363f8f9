/* Host memory that the driver has allocated or the program has registered. It
 * is pinned, and every device can use it at its host address. */
#include "config.h"
#include "softgpu/state.h"

#include <stdlib.h>
#include <sys/mman.h>

#define HOST_ALLOC_FLAGS                                                       \
    (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |                    \
     CU_MEMHOSTALLOC_WRITECOMBINED)
#define HOST_REGISTER_FLAGS                                                    \
    (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |              \
     CU_MEMHOSTREGISTER_READ_ONLY)

static CUresult host_insert(sgpu_mem_kind_t kind, sgpu_ctx_t *ctx,
                            void *pointer, size_t size, unsigned flags)
{
    sgpu_mem_t *mem = sgpu_mem_create(kind, ctx->dev);

    if (mem == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    mem->base = (uintptr_t)pointer;
    mem->view = pointer;
    mem->size = size;
    mem->flags = flags;
    if (sgpu_mem_insert(mem) != 0) {
        free(mem);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **pointer_p, size_t size, unsigned int flags)
{
    size_t length = MRAIL_DIV_ROUND_UP(size, SGPU_PAGE) * SGPU_PAGE;
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    void *pointer;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((pointer_p == NULL) || (size == 0) ||
        ((flags & ~(unsigned)HOST_ALLOC_FLAGS) != 0)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    pointer = (length < size) ? MAP_FAILED
                              : mmap(NULL, length, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pointer == MAP_FAILED) {
        return sgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    ret = host_insert(SGPU_MEM_HOST, ctx, pointer, size, flags);
    if (ret != CUDA_SUCCESS) {
        munmap(pointer, length);
        return sgpu_leave(ret);
    }
    *pointer_p = pointer;
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuMemAllocHost_v2(void **pointer_p, size_t size)
{
    return cuMemHostAlloc(pointer_p, size, 0);
}

/* Finds the memory of this kind that begins at the pointer. */
static sgpu_mem_t *host_find(sgpu_mem_kind_t kind, const void *pointer)
{
    sgpu_mem_t *mem = sgpu_mem_find((uintptr_t)pointer);

    return ((mem != NULL) && (mem->kind == kind) &&
            (mem->base == (uintptr_t)pointer))
               ? mem
               : NULL;
}

CUresult cuMemFreeHost(void *pointer)
{
    CUresult ret = sgpu_enter();
    sgpu_mem_t *mem;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    mem = host_find(SGPU_MEM_HOST, pointer);
    if (mem == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    for (unsigned i = 0; i < sgpu.num_devs; ++i) {
        sgpu_dev_drain(&sgpu.devs[i]);
    }
    mem = host_find(SGPU_MEM_HOST, pointer);
    if (mem != NULL) {
        sgpu_mem_remove(mem);
    }
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuMemHostRegister_v2(void *pointer, size_t size, unsigned int flags)
{
    uintptr_t address = (uintptr_t)pointer;
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    sgpu_mem_t *mem;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((pointer == NULL) || (size == 0) || (address + size < address) ||
        ((flags & ~(unsigned)HOST_REGISTER_FLAGS) != 0)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (sgpu_mem_overlaps(address, size)) {
        mem = sgpu_mem_find(address);
        return sgpu_leave(((mem != NULL) && !sgpu_mem_is_host(mem))
                              ? CUDA_ERROR_INVALID_VALUE
                              : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    }
    ret = host_insert(SGPU_MEM_REGISTERED, ctx, pointer, size, flags);
    return sgpu_leave(ret);
}

CUresult cuMemHostUnregister(void *pointer)
{
    CUresult ret = sgpu_enter();
    sgpu_mem_t *mem;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    mem = host_find(SGPU_MEM_REGISTERED, pointer);
    if (mem == NULL) {
        return sgpu_leave(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    }
    sgpu_mem_remove(mem);
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address_p, void *pointer,
                                      unsigned int flags)
{
    CUresult ret = sgpu_enter();
    sgpu_mem_t *mem;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    mem = sgpu_mem_find((uintptr_t)pointer);
    if ((address_p == NULL) || (flags != 0) || (mem == NULL) ||
        !sgpu_mem_is_host(mem)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *address_p = (uintptr_t)pointer;
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuMemHostGetFlags(unsigned int *flags_p, void *pointer)
{
    CUresult ret = sgpu_enter();
    sgpu_mem_t *mem;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    mem = sgpu_mem_find((uintptr_t)pointer);
    if ((flags_p == NULL) || (mem == NULL) || !sgpu_mem_is_host(mem)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    *flags_p = mem->flags;
    return sgpu_leave(CUDA_SUCCESS);
}
