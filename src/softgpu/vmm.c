/*
 * Implements virtual memory management: address reservations, physical memory
 * with handles, and mappings from addresses to memory. A copy must stay within
 * one mapping.
 */
#include "config.h"
#include "softgpu/work.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct vmm_range {
    mrail_list_t list;
    uint64_t base, size;
} vmm_range_t;

static mrail_list_t reservations = {&reservations, &reservations};

/* Returns the reservation that contains the range, or NULL. */
static vmm_range_t *vmm_find(uint64_t address, uint64_t size)
{
    vmm_range_t *range;

    mrail_list_for_each(range, &reservations, vmm_range_t, list) {
        if ((address >= range->base) &&
            (address - range->base <= range->size) &&
            (size <= range->size - (address - range->base))) {
            return range;
        }
    }
    return NULL;
}

static int vmm_is_granular(uint64_t number)
{
    return (number != 0) && (number % SGPU_GRANULE == 0);
}

/* Maps `size` bytes at a multiple of `alignment`. Maps a larger range, and
 * unmaps the rest. */
static void *vmm_map_aligned(uint64_t size, uint64_t alignment)
{
    uint64_t base, first;
    void *map = mmap(NULL, size + alignment, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (map == MAP_FAILED) {
        return NULL;
    }
    base = (uintptr_t)map;
    first = MRAIL_DIV_ROUND_UP(base, alignment) * alignment;
    if (first > base) {
        munmap(map, first - base);
    }
    if (first < base + alignment) {
        munmap((void *)(uintptr_t)(first + size), base + alignment - first);
    }
    return (void *)(uintptr_t)first;
}

/* The address hint is ignored. */
CUresult cuMemAddressReserve(CUdeviceptr *address_p, size_t size,
                             size_t alignment, CUdeviceptr hint,
                             unsigned long long flags)
{
    CUresult ret = sgpu_enter();
    vmm_range_t *range;
    void *base;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((address_p == NULL) || !vmm_is_granular(size) || (flags != 0) ||
        ((alignment & (alignment - 1)) != 0)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    range = malloc(sizeof(*range));
    base = (range != NULL)
               ? vmm_map_aligned(size,
                                 MRAIL_MAX((uint64_t)alignment, SGPU_GRANULE))
               : NULL;
    if (base == NULL) {
        free(range);
        return sgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    range->base = (uintptr_t)base;
    range->size = size;
    mrail_list_add_tail(&reservations, &range->list);
    *address_p = range->base;
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size)
{
    CUresult ret = sgpu_enter();
    vmm_range_t *range;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    range = vmm_find(address, size);
    if ((range == NULL) || (range->base != address) || (range->size != size) ||
        sgpu_mem_overlaps(address, size)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    mrail_list_del(&range->list);
    munmap((void *)(uintptr_t)address, size);
    free(range);
    return sgpu_leave(CUDA_SUCCESS);
}

/* ---- Physical memory ---- */

static sgpu_dev_t *vmm_dev_of(const CUmemLocation *location)
{
    return ((location->type == CU_MEM_LOCATION_TYPE_DEVICE) &&
            (location->id >= 0) && ((unsigned)location->id < sgpu.num_devs))
               ? &sgpu.devs[location->id]
               : NULL;
}

static CUresult vmm_check_prop(const CUmemAllocationProp *prop)
{
    if ((prop == NULL) || (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if ((prop->requestedHandleTypes &
         ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return (vmm_dev_of(&prop->location) != NULL) ? CUDA_SUCCESS
                                                 : CUDA_ERROR_INVALID_DEVICE;
}

/* Creates a handle, which takes over the caller's reference to `phys`. */
static CUresult vmm_make_handle(sgpu_phys_t *phys,
                                CUmemGenericAllocationHandle *handle_p)
{
    uint64_t handle = sgpu_handle_create(SGPU_HANDLE_PHYS, phys);

    if (handle == 0) {
        sgpu_phys_put(phys);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *handle_p = handle;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle_p, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    CUresult ret = sgpu_enter();
    sgpu_phys_t *phys;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    ret = vmm_check_prop(prop);
    if ((ret == CUDA_SUCCESS) &&
        ((handle_p == NULL) || !vmm_is_granular(size) || (flags != 0))) {
        ret = CUDA_ERROR_INVALID_VALUE;
    }
    if (ret == CUDA_SUCCESS) {
        ret = sgpu_phys_create(vmm_dev_of(&prop->location), size, &phys);
    }
    if (ret == CUDA_SUCCESS) {
        phys->is_shareable = prop->requestedHandleTypes ==
                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
        ret = vmm_make_handle(phys, handle_p);
    }
    return sgpu_leave(ret);
}

/* Enters the library (sgpu_enter()), and finds the physical memory of a
 * handle. */
static CUresult vmm_enter(CUmemGenericAllocationHandle handle,
                          sgpu_phys_t **phys_p)
{
    CUresult ret = sgpu_enter();

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    *phys_p = sgpu_handle_find(SGPU_HANDLE_PHYS, handle);
    return (*phys_p != NULL) ? CUDA_SUCCESS
                             : sgpu_leave(CUDA_ERROR_INVALID_VALUE);
}

/* Releases only the handle; mappings keep the memory alive. */
CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    sgpu_phys_t *phys;
    CUresult ret = vmm_enter(handle, &phys);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    sgpu_handle_destroy(handle);
    sgpu_phys_put(phys);
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuMemGetAllocationGranularity(size_t *bytes_p,
                                       const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    CUresult ret = sgpu_enter();

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    ret = vmm_check_prop(prop);
    if ((bytes_p == NULL) || (option < 0) || (option > 1)) {
        ret = CUDA_ERROR_INVALID_VALUE;
    }
    if (ret == CUDA_SUCCESS) {
        *bytes_p = SGPU_GRANULE;
    }
    return sgpu_leave(ret);
}

CUresult
cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop_p,
                                       CUmemGenericAllocationHandle handle)
{
    sgpu_phys_t *phys;
    CUresult ret = vmm_enter(handle, &phys);

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (prop_p == NULL) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    memset(prop_p, 0, sizeof(*prop_p));
    prop_p->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop_p->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop_p->location.id = (phys->dev != NULL) ? (int)phys->dev->ordinal : -1;
    prop_p->requestedHandleTypes =
        phys->is_shareable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                           : CU_MEM_HANDLE_TYPE_NONE;
    return sgpu_leave(CUDA_SUCCESS);
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle_p,
                                     void *address)
{
    CUresult ret = sgpu_enter();
    sgpu_mem_t *mem;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    mem = sgpu_mem_find((uintptr_t)address);
    if ((handle_p == NULL) || (mem == NULL) || (mem->kind != SGPU_MEM_MAPPED)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    sgpu_phys_get(mem->phys);
    return sgpu_leave(vmm_make_handle(mem->phys, handle_p));
}

CUresult cuMemExportToShareableHandle(void *shareable,
                                      CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type,
                                      unsigned long long flags)
{
    sgpu_phys_t *phys;
    CUresult ret = vmm_enter(handle, &phys);
    int fd;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((shareable == NULL) || (flags != 0) || !phys->is_shareable ||
        (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    fd = sgpu_phys_reopen(phys, 0);
    if (fd < 0) {
        return sgpu_leave(CUDA_ERROR_OPERATING_SYSTEM);
    }
    memcpy(shareable, &fd, sizeof(fd));
    return sgpu_leave(CUDA_SUCCESS);
}

/* The pointer itself contains the number of the descriptor, which the caller
 * keeps. */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle_p,
                                        void *shareable,
                                        CUmemAllocationHandleType type)
{
    CUresult ret = sgpu_enter();
    sgpu_phys_t *phys;
    int fd;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((handle_p == NULL) ||
        (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    fd = fcntl((int)(intptr_t)shareable, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    ret = sgpu_phys_import(fd, &phys);
    if (ret == CUDA_SUCCESS) {
        phys->is_shareable = 1;
        ret = vmm_make_handle(phys, handle_p);
    }
    return sgpu_leave(ret);
}

/* ---- Mappings ---- */

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    sgpu_phys_t *phys;
    CUresult ret = vmm_enter(handle, &phys);
    sgpu_mem_t *mem;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if (!vmm_is_granular(size) || (address % SGPU_GRANULE != 0) ||
        (offset % SGPU_GRANULE != 0) || (flags != 0) || (offset > phys->size) ||
        (size > phys->size - offset) || (vmm_find(address, size) == NULL)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    if (sgpu_mem_overlaps(address, size)) {
        return sgpu_leave(CUDA_ERROR_ALREADY_MAPPED);
    }
    mem = sgpu_mem_create(SGPU_MEM_MAPPED,
                          (phys->dev != NULL) ? phys->dev : &sgpu.devs[0]);
    if (mem == NULL) {
        return sgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    mem->base = address;
    mem->size = size;
    mem->phys = phys;
    mem->offset = offset;
    mem->view = phys->view + offset;
    mem->readers = mem->writers = 0; /* cuMemSetAccess() grants access */
    mem->ctx = 0;
    if (sgpu_mem_insert(mem) != 0) {
        free(mem);
        return sgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
    }
    sgpu_phys_get(phys);
    return sgpu_leave(CUDA_SUCCESS);
}

/* Calls func for every mapping in the range. The mappings must cover the range
 * exactly, without gaps. */
static CUresult vmm_for_each(uint64_t address, uint64_t size,
                             void (*func)(sgpu_mem_t *mem, const void *arg),
                             const void *arg)
{
    for (int pass = 0; pass < 2; ++pass) {
        uint64_t at = address;

        while (at < address + size) {
            sgpu_mem_t *mem = sgpu_mem_find(at);

            if ((mem == NULL) || (mem->kind != SGPU_MEM_MAPPED) ||
                (mem->base != at) || (mem->size > address + size - at)) {
                return CUDA_ERROR_INVALID_VALUE;
            }
            at += mem->size;
            if (pass == 1) {
                func(mem, arg);
            }
        }
    }
    return CUDA_SUCCESS;
}

static void vmm_unmap(sgpu_mem_t *mem, const void *arg)
{
    sgpu_mem_remove(mem);
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size)
{
    CUresult ret = sgpu_enter();

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    for (unsigned i = 0; i < sgpu.num_devs; ++i) {
        sgpu_dev_drain(&sgpu.devs[i]);
    }
    return sgpu_leave(vmm_for_each(address, size, vmm_unmap, NULL));
}

static void vmm_set_access(sgpu_mem_t *mem, const void *arg)
{
    const CUmemAccessDesc *desc = arg;
    uint32_t bit = 1u << desc->location.id;

    mem->readers &= ~bit;
    mem->writers &= ~bit;
    if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) {
        mem->readers |= bit;
    }
    if (desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
        mem->writers |= bit;
    }
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size,
                        const CUmemAccessDesc *descs, size_t num)
{
    CUresult ret = sgpu_enter();

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    if ((descs == NULL) || (size == 0)) {
        ret = CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; (ret == CUDA_SUCCESS) && (i < num); ++i) {
        if (vmm_dev_of(&descs[i].location) == NULL) {
            ret = CUDA_ERROR_INVALID_DEVICE;
        }
    }
    for (size_t i = 0; (ret == CUDA_SUCCESS) && (i < num); ++i) {
        ret = vmm_for_each(address, size, vmm_set_access, &descs[i]);
    }
    return sgpu_leave(ret);
}

CUresult cuMemGetAccess(unsigned long long *flags_p,
                        const CUmemLocation *location, CUdeviceptr address)
{
    CUresult ret = sgpu_enter();
    sgpu_mem_t *mem;
    uint32_t bit;

    if (ret != CUDA_SUCCESS) {
        return ret;
    }
    mem = sgpu_mem_find(address);
    if ((flags_p == NULL) || (location == NULL) || (mem == NULL) ||
        (vmm_dev_of(location) == NULL)) {
        return sgpu_leave(CUDA_ERROR_INVALID_VALUE);
    }
    bit = 1u << location->id;
    *flags_p = (mem->writers & bit)   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
               : (mem->readers & bit) ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                      : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return sgpu_leave(CUDA_SUCCESS);
}
