/*
 * The table of all address ranges known to the driver, ordered by address. The
 * addresses of device memory are reserved without access rights, so an access
 * by the CPU causes a SIGSEGV. Only this library uses the mappings that contain
 * the data.
 */
#include "config.h"
#include "softgpu/work.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static sgpu_mem_t **table;
static unsigned num_mems, capacity;

/* Returns the index of the first range that ends after the address. */
static unsigned mem_search(uint64_t address)
{
    unsigned low = 0, high = num_mems;

    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (table[middle]->base + table[middle]->size > address) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

sgpu_mem_t *sgpu_mem_find_any(uint64_t address)
{
    unsigned i = mem_search(address);

    return ((i < num_mems) && (table[i]->base <= address)) ? table[i] : NULL;
}

sgpu_mem_t *sgpu_mem_find(uint64_t address)
{
    sgpu_mem_t *mem = sgpu_mem_find_any(address);

    return ((mem != NULL) && !mem->is_freed) ? mem : NULL;
}

int sgpu_mem_overlaps(uint64_t address, uint64_t size)
{
    unsigned i = mem_search(address);

    return (i < num_mems) && (table[i]->base < address + size);
}

sgpu_mem_t *sgpu_mem_first(void)
{
    return (num_mems > 0) ? table[0] : NULL;
}

sgpu_mem_t *sgpu_mem_after(const sgpu_mem_t *mem)
{
    unsigned i = mem_search(mem->base + mem->size);

    return (i < num_mems) ? table[i] : NULL;
}

sgpu_mem_t *sgpu_mem_create(sgpu_mem_kind_t kind, sgpu_dev_t *dev)
{
    sgpu_mem_t *mem = calloc(1, sizeof(*mem));
    sgpu_ctx_t *ctx = sgpu_ctx_current();

    if (mem != NULL) {
        mem->kind = kind;
        mem->refs = 1;
        mem->dev = dev;
        mem->id = ++sgpu.next_id;
        mem->ctx = (ctx != NULL) ? ctx->handle : 0;
        mem->readers = mem->writers = UINT32_MAX;
    }
    return mem;
}

int sgpu_mem_insert(sgpu_mem_t *mem)
{
    unsigned i = mem_search(mem->base);

    if (num_mems == capacity) {
        unsigned grown = MRAIL_MAX(64u, 2 * capacity);
        sgpu_mem_t **larger = realloc(table, grown * sizeof(*table));

        if (larger == NULL) {
            return -1;
        }
        table = larger;
        capacity = grown;
    }
    memmove(&table[i + 1], &table[i], (num_mems - i) * sizeof(*table));
    table[i] = mem;
    ++num_mems;
    return 0;
}

void sgpu_mem_remove(sgpu_mem_t *mem)
{
    unsigned i = mem_search(mem->base);

    --num_mems;
    memmove(&table[i], &table[i + 1], (num_mems - i) * sizeof(*table));
    sgpu_mem_put(mem);
}

void sgpu_mem_get(sgpu_mem_t *mem)
{
    ++mem->refs;
}

/* Releases the addresses, except for reservations and memory that the
 * application owns. */
void sgpu_mem_put(sgpu_mem_t *mem)
{
    if (--mem->refs > 0) {
        return;
    }
    if ((mem->kind != SGPU_MEM_MAPPED) && (mem->kind != SGPU_MEM_REGISTERED)) {
        munmap((void *)(uintptr_t)mem->base,
               MRAIL_DIV_ROUND_UP(mem->size, SGPU_PAGE) * SGPU_PAGE);
    }
    if (mem->phys != NULL) {
        sgpu_phys_put(mem->phys);
    }
    if (mem->pool != 0) {
        sgpu_pool_return(mem->pool, mem->size);
    }
    free(mem);
}

CUresult sgpu_mem_place(sgpu_mem_kind_t kind, sgpu_dev_t *dev,
                        sgpu_phys_t *phys, uint64_t size, sgpu_mem_t **mem_p)
{
    sgpu_mem_t *mem = sgpu_mem_create(kind, dev);
    void *base = MAP_FAILED;

    if (mem == NULL) {
        goto err_phys;
    }
    base = (kind == SGPU_MEM_MANAGED)
               ? mmap(NULL, phys->size, PROT_READ | PROT_WRITE, MAP_SHARED,
                      phys->fd, 0)
               : mmap(NULL, phys->size, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        goto err_free;
    }
    mem->base = (uintptr_t)base;
    mem->size = size;
    mem->phys = phys;
    mem->view = phys->view;
    if (sgpu_mem_insert(mem) != 0) {
        goto err_unmap;
    }
    *mem_p = mem;
    return CUDA_SUCCESS;

err_unmap:
    munmap(base, phys->size);
err_free:
    free(mem);
err_phys:
    sgpu_phys_put(phys);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sgpu_mem_alloc(sgpu_dev_t *dev, sgpu_mem_kind_t kind, uint64_t size,
                        uint64_t pool, sgpu_mem_t **mem_p)
{
    sgpu_phys_t *phys;
    CUresult ret;

    if (size == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    ret = sgpu_phys_create(dev, size, &phys);
    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    ret = sgpu_mem_place(kind, dev, phys, size, mem_p);
    if (ret == CUDA_SUCCESS) {
        (*mem_p)->pool = pool;
    }
    return ret;
}

CUresult cuMemGetInfo_v2(size_t *free_p, size_t *total_p)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    uint64_t total, used;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    total = sgpu.session->memory_bytes;
    used = sgpu_gpu_has(ctx->dev->gpu, SGPU_FAULT_NO_MEMORY)
               ? total
               : sgpu_session_usage(sgpu.session, sgpu.fd, ctx->dev->gpu, NULL);
    if (free_p != NULL) {
        *free_p = total - MRAIL_MIN(used, total);
    }
    if (total_p != NULL) {
        *total_p = total;
    }
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuMemAlloc_v2(CUdeviceptr *address_p, size_t size)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    sgpu_mem_t *mem;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (address_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    ret = sgpu_mem_alloc(ctx->dev, SGPU_MEM_DEVICE, size, 0, &mem);
    if (ret == CUDA_SUCCESS) {
        *address_p = mem->base;
    }
    return sgpu_leave(ret);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *address_p, size_t *pitch_p,
                            size_t width, size_t height, unsigned int element)
{
    size_t pitch = (width + 511) & ~(size_t)511;
    CUresult ret;

    if ((pitch_p == NULL) || (pitch < width) ||
        ((element != 4) && (element != 8) && (element != 16)) ||
        ((height != 0) && (pitch > SIZE_MAX / height))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    ret = cuMemAlloc_v2(address_p, pitch * height);
    if (ret == CUDA_SUCCESS) {
        *pitch_p = pitch;
    }
    return ret;
}

CUresult cuMemAllocManaged(CUdeviceptr *address_p, size_t size,
                           unsigned int flags)
{
    sgpu_ctx_t *ctx;
    CUresult ret = sgpu_enter_ctx(&ctx);
    sgpu_mem_t *mem;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((address_p == NULL) || ((flags != 1) && (flags != 2))) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    ret = sgpu_mem_alloc(ctx->dev, SGPU_MEM_MANAGED, size, 0, &mem);
    if (ret == CUDA_SUCCESS) {
        *address_p = mem->base;
    }
    return sgpu_leave(ret);
}

/* Waits for the work of the device before it frees the memory, as real drivers
 * do. If the work has failed, it still frees the memory, and returns the
 * error. */
CUresult cuMemFree_v2(CUdeviceptr address)
{
    sgpu_ctx_t *ctx;
    sgpu_mem_t *mem;
    CUresult ret = sgpu_enter();

    if ((ret != CUDA_SUCCESS) || (address == 0)) {
        return (ret != CUDA_SUCCESS) ? ret : sgpu_leave(ret);
    }
    mem = sgpu_mem_find(address);
    if ((mem == NULL) || (mem->base != address) ||
        ((mem->kind != SGPU_MEM_DEVICE) && (mem->kind != SGPU_MEM_MANAGED) &&
         (mem->pool == 0))) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    sgpu_mem_get(mem);
    sgpu_dev_drain(mem->dev);
    /* Another thread may have freed the memory during the wait. */
    if (sgpu_mem_find(address) == mem) {
        sgpu_mem_remove(mem);
    } else {
        ret = CUDA_ERROR_INVALID_VALUE;
    }
    sgpu_mem_put(mem);
    ctx = sgpu_ctx_current();
    if ((ret == CUDA_SUCCESS) && (ctx != NULL)) {
        ret = ctx->error;
    }
    return sgpu_leave(ret);
}
