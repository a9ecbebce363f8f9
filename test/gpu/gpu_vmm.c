/* Virtual memory management and memory pools. */
#include "config.h"
#include "gpu_test.h"

#include <unistd.h>

#define GRANULE ((size_t)2 << 20)
#define SIZE ((size_t)100000)

static uint8_t in[SIZE], out[SIZE];

static CUmemAllocationProp prop_of(int dev)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev}};
}

static CUmemAccessDesc access_of(int dev, int flags)
{
    return (CUmemAccessDesc){
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev},
        .flags = flags};
}

static int test_map(void)
{
    CUmemAllocationProp prop = prop_of(1), found;
    CUmemAccessDesc access = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CUmemGenericAllocationHandle handle, again;
    unsigned long long flags;
    size_t granule, before, after;
    CUdeviceptr base;

    gpu_use(1);
    CU(cuMemGetInfo(&before, NULL));
    gpu_use(0);
    CU(cuMemGetAllocationGranularity(&granule, &prop, 0));
    CHECK(granule == GRANULE);
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, 1000, &prop, 0));
    CU(cuMemCreate(&handle, GRANULE, &prop, 0));
    CU(cuMemGetAllocationPropertiesFromHandle(&found, handle));
    CHECK(found.location.id == 1);
    CU(cuMemAddressReserve(&base, 4 * GRANULE, 0, 0, 0));
    CHECK(base % GRANULE == 0);
    RESULT(CUDA_ERROR_INVALID_VALUE,
           cuMemMap(base + 4 * GRANULE, GRANULE, 0, handle, 0));
    CU(cuMemMap(base + GRANULE, GRANULE, 0, handle, 0));
    RESULT(CUDA_ERROR_ALREADY_MAPPED,
           cuMemMap(base + GRANULE, GRANULE, 0, handle, 0));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(base, 4 * GRANULE));
    /* No device has access yet. */
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(base + GRANULE, in, SIZE));
    CU(cuMemSetAccess(base + GRANULE, GRANULE, &access, 1));
    CU(cuMemGetAccess(&flags, &access.location, base + GRANULE));
    CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    gpu_fill(in, SIZE, 1);
    CU(cuMemcpyHtoD(base + GRANULE + 5, in, SIZE));
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    CU(cuMemSetAccess(base + GRANULE, GRANULE, &access, 1));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD(base + GRANULE, in, SIZE));
    CU(cuMemcpyDtoH(out, base + GRANULE + 5, SIZE));
    CHECK(gpu_differs(out, SIZE, 1) == SIZE);
    /* The memory lives as long as a handle or a mapping. */
    CU(cuMemRelease(handle));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemRelease(handle));
    CU(cuMemRetainAllocationHandle(&again,
                                   (void *)(uintptr_t)(base + GRANULE)));
    CU(cuMemUnmap(base + GRANULE, GRANULE));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(base + GRANULE, GRANULE));
    CU(cuMemMap(base, GRANULE, 0, again, 0));
    CU(cuMemRelease(again));
    CU(cuMemSetAccess(base, GRANULE, &access, 1));
    CU(cuMemcpyDtoH(out, base + 5, SIZE));
    CHECK(gpu_differs(out, SIZE, 1) == SIZE);
    CU(cuMemUnmap(base, GRANULE));
    CU(cuMemAddressFree(base, 4 * GRANULE));
    gpu_use(1);
    CU(cuMemGetInfo(&after, NULL));
    CHECK(before == after);
    return 0;
}

/* Exports memory as a descriptor and maps it a second time. */
static int test_export(void)
{
    CUmemAllocationProp prop = prop_of(0);
    CUmemAccessDesc access = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CUmemGenericAllocationHandle handle, imported;
    unsigned long long types;
    CUdeviceptr base;
    int fd, null_fd;

    gpu_use(0);
    CU(cuMemCreate(&handle, GRANULE, &prop, 0));
    CU(cuMemExportToShareableHandle(
        &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CU(cuMemImportFromShareableHandle(
        &imported, (void *)(intptr_t)fd,
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    null_fd = dup(0);
    RESULT(CUDA_ERROR_INVALID_HANDLE,
           cuMemImportFromShareableHandle(
               &imported, (void *)(intptr_t)null_fd,
               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(null_fd);
    CU(cuMemAddressReserve(&base, 2 * GRANULE, 0, 0, 0));
    CU(cuMemMap(base, GRANULE, 0, handle, 0));
    CU(cuMemMap(base + GRANULE, GRANULE, 0, imported, 0));
    CU(cuMemSetAccess(base, 2 * GRANULE, &access, 1));
    CU(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
                             base));
    CHECK(types == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    gpu_fill(in, SIZE, 2);
    CU(cuMemcpyHtoD(base, in, SIZE));
    CU(cuMemcpyDtoH(out, base + GRANULE, SIZE));
    CHECK(gpu_differs(out, SIZE, 2) == SIZE);
    CU(cuMemUnmap(base, 2 * GRANULE));
    CU(cuMemAddressFree(base, 2 * GRANULE));
    CU(cuMemRelease(handle));
    CU(cuMemRelease(imported));
    return 0;
}

static int test_pools(void)
{
    CUmemPoolProps props = {
        .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool, default_pool, found;
    CUdeviceptr a, b;
    CUstream stream;
    cuuint64_t used;

    gpu_use(0);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuDeviceGetDefaultMemPool(&default_pool, 0));
    CU(cuMemPoolCreate(&pool, &props));
    CU(cuMemAllocFromPoolAsync(&a, SIZE, pool, stream));
    CU(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
    CHECK(found == pool);
    CU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    CHECK(used == SIZE);
    CU(cuMemAllocAsync(&b, SIZE, stream));
    gpu_fill(in, SIZE, 3);
    CU(cuMemcpyHtoDAsync(a, in, SIZE, stream));
    CU(cuMemcpyDtoDAsync(b, a, SIZE, stream));
    CU(cuMemFreeAsync(a, stream));
    CU(cuMemcpyDtoHAsync(out, b, SIZE, stream));
    CHECK(gpu_differs(out, SIZE, 3) == SIZE);
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(a, stream));
    CU(cuMemFree(b));
    CU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    CHECK(used == 0);
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(default_pool));
    CU(cuDeviceSetMemPool(0, pool));
    CU(cuDeviceGetMemPool(&found, 0));
    CHECK(found == pool);
    CU(cuMemPoolDestroy(pool));
    CU(cuDeviceGetMemPool(&found, 0));
    CHECK(found == default_pool);
    CU(cuStreamDestroy(stream));
    return 0;
}

int main(void)
{
    static const gpu_case_t cases[] = {{"reserve, create, map", test_map},
                                       {"export and import", test_export},
                                       {"pools", test_pools}};

    return GPU_RUN(cases);
}
