/* Tests valid and invalid calls for devices, contexts, memory and addresses.
 * The session has 4 GPUs with 64 MiB each and mesh links. */
#include "config.h"
#include "gpu_test.h"

#include <sys/mman.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define MEMORY (64 * MIB)

static int test_before_init(void)
{
    int n;
    void *func;

    RESULT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&n));
    CU(cuDriverGetVersion(&n));
    CHECK(n >= 12000);
    CU(cuGetProcAddress("cuInit", &func, 12000, 0, NULL));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuInit(1));
    CU(cuInit(0));
    CU(cuInit(0));
    return 0;
}

static int test_devices(void)
{
    char name[64], first[32], second[32];
    CUuuid uuids[2];
    CUdevice dev;
    size_t bytes;
    int n;

    CU(cuDeviceGetCount(&n));
    CHECK(n == 4);
    CU(cuDeviceGet(&dev, 3));
    CHECK(dev == 3);
    RESULT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&dev, 4));
    RESULT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&dev, -1));
    CU(cuDeviceGetName(name, sizeof(name), 0));
    CHECK(strstr(name, "software") != NULL);
    CU(cuDeviceTotalMem(&bytes, 1));
    CHECK(bytes == MEMORY);
    CU(cuDeviceGetUuid_v2(&uuids[0], 0));
    CU(cuDeviceGetUuid_v2(&uuids[1], 1));
    CHECK(memcmp(&uuids[0], &uuids[1], sizeof(uuids[0])) != 0);
    CU(cuDeviceGetPCIBusId(first, sizeof(first), 0));
    CU(cuDeviceGetPCIBusId(second, sizeof(second), 1));
    CHECK(strcmp(first, second) != 0);
    CU(cuDeviceGetByPCIBusId(&dev, second));
    CHECK(dev == 1);
    RESULT(CUDA_ERROR_INVALID_DEVICE,
           cuDeviceGetByPCIBusId(&dev, "0000:01:00.0"));
    return 0;
}

static int test_attributes(void)
{
    int value, bus;

    CU(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0));
    CHECK(value == 1);
    CU(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0));
    CHECK(value == 1);
    CU(cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0));
    CU(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 2));
    CHECK(value != bus);
    CU(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    CHECK(value == 32);
    RESULT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&value, 0, 0));
    CU(cuDeviceCanAccessPeer(&value, 0, 1));
    CHECK(value == 1);
    CU(cuDeviceCanAccessPeer(&value, 1, 1));
    CHECK(value == 0);
    CU(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED,
                               0, 3));
    CHECK(value == 1);
    return 0;
}

static int test_primary_context(void)
{
    CUcontext ctx, again, current;
    unsigned flags;
    CUdevice dev;
    int active;

    CU(cuCtxGetCurrent(&current));
    CHECK(current == NULL);
    RESULT(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetDevice(&dev));
    CU(cuDevicePrimaryCtxGetState(1, &flags, &active));
    CHECK(active == 0);
    CU(cuDevicePrimaryCtxRetain(&ctx, 1));
    CU(cuDevicePrimaryCtxRetain(&again, 1));
    CHECK(ctx == again);
    CU(cuDevicePrimaryCtxGetState(1, &flags, &active));
    CHECK(active == 1);
    CU(cuCtxPushCurrent(ctx));
    CU(cuCtxGetDevice(&dev));
    CHECK(dev == 1);
    CU(cuCtxPopCurrent(&current));
    CHECK(current == ctx);
    RESULT(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent(&current));
    CU(cuDevicePrimaryCtxRelease(1));
    CU(cuCtxPushCurrent(ctx));
    CU(cuCtxPopCurrent(NULL));
    CU(cuDevicePrimaryCtxRelease(1));
    RESULT(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(1));
    RESULT(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent(ctx));
    RESULT(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(ctx));
    return 0;
}

/* Destroying a context also destroys its streams and its memory. */
static int test_destroyed_context(void)
{
    unsigned long long ids[2];
    size_t before, after;
    CUdeviceptr address;
    CUcontext ctx;
    CUstream stream;

    gpu_use(2);
    CU(cuMemGetInfo(&before, NULL));
    CU(cuCtxGetId(NULL, &ids[0]));
    CU(cuCtxCreate(&ctx, NULL, 0, 2));
    CU(cuCtxGetId(ctx, &ids[1]));
    CHECK(ids[0] != ids[1]);
    CU(cuMemAlloc(&address, MIB));
    CU(cuStreamCreate(&stream, 0));
    CU(cuMemsetD8Async(address, 1, MIB, stream));
    CU(cuCtxDestroy(ctx));
    RESULT(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(ctx));
    gpu_use(2);
    RESULT(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(stream));
    RESULT(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(NULL, NULL, address));
    CU(cuMemGetInfo(&after, NULL));
    CHECK(before == after);
    return 0;
}

static int test_bad_handles(void)
{
    CUstream bad_stream = (CUstream)(uintptr_t)0x1234560, stream;
    CUevent bad_event = (CUevent)(uintptr_t)0x7fff12345678, event;
    CUcontext bad_ctx = (CUcontext)(uintptr_t)-1;

    gpu_use(0);
    RESULT(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(bad_ctx));
    RESULT(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(bad_stream));
    RESULT(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(bad_stream));
    RESULT(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(bad_event));
    RESULT(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(bad_event, NULL));
    RESULT(CUDA_ERROR_INVALID_HANDLE, cuStreamWaitEvent(NULL, bad_event, 0));
    RESULT(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(CU_STREAM_LEGACY));
    CU(cuStreamCreate(&stream, 0));
    CU(cuEventCreate(&event, 0));
    /* a handle of the wrong type, and stale handles */
    RESULT(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery((CUstream)event));
    RESULT(CUDA_ERROR_INVALID_HANDLE, cuEventQuery((CUevent)stream));
    CU(cuStreamDestroy(stream));
    CU(cuEventDestroy(event));
    RESULT(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(stream));
    RESULT(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(event));
    RESULT(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(stream));
    RESULT(CUDA_ERROR_INVALID_HANDLE, cuEventDestroy(event));
    return 0;
}

static int test_memory(void)
{
    CUdeviceptr address, base;
    size_t size, before, after, total;

    gpu_use(0);
    CU(cuMemGetInfo(&before, &total));
    CHECK((before == MEMORY) && (total == MEMORY));
    CU(cuMemAlloc(&address, 3 * MIB + 5));
    CU(cuMemGetAddressRange(&base, &size, address + MIB));
    CHECK((base == address) && (size == 3 * MIB + 5));
    RESULT(CUDA_ERROR_NOT_FOUND,
           cuMemGetAddressRange(&base, &size, address + size));
    CU(cuMemGetInfo(&after, NULL));
    CHECK((before - after >= size) && (before - after < size + MIB));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemFree(address + 1));
    CU(cuMemFree(address));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemFree(address));
    CU(cuMemFree(0));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&address, 0));
    CU(cuMemGetInfo(&after, NULL));
    CHECK(before == after);
    return 0;
}

static int test_out_of_memory(void)
{
    CUdeviceptr most, rest, other;

    gpu_use(0);
    RESULT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&most, MEMORY + 1));
    RESULT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&most, SIZE_MAX));
    CU(cuMemAlloc(&most, MEMORY - MIB));
    RESULT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&rest, 2 * MIB));
    CU(cuMemAlloc(&rest, MIB));
    RESULT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&other, 1));
    gpu_use(1); /* has its own memory */
    CU(cuMemAlloc(&other, MEMORY));
    CU(cuMemFree(other));
    CU(cuMemFree(most));
    CU(cuMemFree(rest));
    return 0;
}

static int test_pointer_attributes(void)
{
    CUpointer_attribute attrs[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    unsigned type, is_managed, sync = 1, read = 0;
    unsigned long long ids[2];
    CUdeviceptr address, managed;
    CUcontext ctx, found;
    int ordinal, host;
    void *data[] = {&type, &ordinal, &found, &is_managed};

    ctx = gpu_use(3);
    CU(cuMemAlloc(&address, MIB));
    CU(cuPointerGetAttributes(4, attrs, data, address + 100));
    CHECK((type == CU_MEMORYTYPE_DEVICE) && (ordinal == 3));
    CHECK((found == ctx) && (is_managed == 0));
    CU(cuPointerGetAttribute(&ids[0], CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
    CU(cuPointerSetAttribute(&sync, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
    CU(cuPointerGetAttribute(&read, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
    CHECK(read == 1);
    /* Freed and reallocated: a different buffer. */
    CU(cuMemFree(address));
    CU(cuMemAlloc(&address, MIB));
    CU(cuPointerGetAttribute(&ids[1], CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
    CHECK(ids[0] != ids[1]);
    CU(cuMemFree(address));
    /* For ordinary host memory, the call for several attributes returns no
     * error, but the call for one attribute does. */
    CU(cuPointerGetAttributes(4, attrs, data, (uintptr_t)&host));
    CHECK((type == 0) && (ordinal == -2) && (found == NULL));
    RESULT(CUDA_ERROR_INVALID_VALUE,
           cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 (uintptr_t)&host));
    CU(cuMemAllocManaged(&managed, MIB, CU_MEM_ATTACH_GLOBAL));
    CU(cuPointerGetAttributes(4, attrs, data, managed));
    CHECK((type == CU_MEMORYTYPE_DEVICE) && (is_managed == 1));
    *(volatile int *)(uintptr_t)managed = 7;
    CU(cuMemFree(managed));
    return 0;
}

static int test_host_memory(void)
{
    static char buffer[3 * 65536];
    CUdeviceptr address;
    unsigned type, flags;
    void *pointer;

    gpu_use(0);
    CU(cuMemHostRegister(buffer, sizeof(buffer), CU_MEMHOSTREGISTER_PORTABLE));
    RESULT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
           cuMemHostRegister(buffer + 65536, 65536, 0));
    CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                             (uintptr_t)buffer + 5));
    CHECK(type == CU_MEMORYTYPE_HOST);
    CU(cuMemHostGetDevicePointer(&address, buffer, 0));
    CHECK(address == (uintptr_t)buffer);
    CU(cuMemHostUnregister(buffer));
    RESULT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(buffer));
    CU(cuMemHostAlloc(&pointer, 100000, CU_MEMHOSTALLOC_DEVICEMAP));
    memset(pointer, 1, 100000);
    CU(cuMemHostGetFlags(&flags, pointer));
    CHECK(flags == CU_MEMHOSTALLOC_DEVICEMAP);
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemFree((uintptr_t)pointer));
    CU(cuMemFreeHost(pointer));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(pointer));
    /* Device memory is not host memory. */
    CU(cuMemAlloc(&address, MIB));
    RESULT(CUDA_ERROR_INVALID_VALUE,
           cuMemHostRegister((void *)(uintptr_t)address, 4096, 0));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost((void *)(uintptr_t)address));
    CU(cuMemFree(address));
    return 0;
}

static int test_peer_access(void)
{
    CUcontext other = gpu_use(1), own = gpu_use(0);

    RESULT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(other));
    CU(cuCtxEnablePeerAccess(other, 0));
    RESULT(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
           cuCtxEnablePeerAccess(other, 0));
    RESULT(CUDA_ERROR_INVALID_VALUE, cuCtxEnablePeerAccess(other, 1));
    RESULT(CUDA_ERROR_INVALID_DEVICE, cuCtxEnablePeerAccess(own, 0));
    CU(cuCtxDisablePeerAccess(other));
    return 0;
}

static int test_errors(void)
{
    const char *text;

    CU(cuGetErrorName(CUDA_ERROR_NOT_READY, &text));
    CHECK(strcmp(text, "CUDA_ERROR_NOT_READY") == 0);
    CU(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    CHECK(strcmp(text, "out of memory") == 0);
    RESULT(CUDA_ERROR_INVALID_VALUE, cuGetErrorName((CUresult)12345, &text));
    CHECK(text == NULL);
    return 0;
}

static int test_proc_address(void)
{
    CUdriverProcAddressQueryResult status = 9;
    CUresult (*create)(CUcontext *, unsigned, CUdevice);
    CUresult (*refused)(void);
    CUcontext ctx;
    void *func;

    gpu_use(0);
    CU(cuGetProcAddress("cuMemAlloc", &func, 12000, 0, &status));
    CHECK((status == CU_GET_PROC_ADDRESS_SUCCESS) &&
          (func == (void *)cuMemAlloc));
    /* An old program is given the interface that it was built for. */
    CU(cuGetProcAddress("cuCtxCreate", (void **)&create, 11000, 0, NULL));
    CU(create(&ctx, 0, 0));
    CU(cuCtxDestroy(ctx));
    RESULT(CUDA_ERROR_NOT_FOUND,
           cuGetProcAddress("cuNoSuchThing", &func, 12000, 0, &status));
    CHECK((status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND) && (func == NULL));
    RESULT(CUDA_ERROR_NOT_FOUND,
           cuGetProcAddress("cuLaunchHostFunc", &func, 9000, 0, &status));
    CHECK(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    CU(cuGetProcAddress("cuGraphLaunch", (void **)&refused, 12000, 0, NULL));
    RESULT(CUDA_ERROR_NOT_SUPPORTED, refused());
    return 0;
}

int main(void)
{
    static const gpu_case_t cases[] = {
        {"calls before cuInit", test_before_init},
        {"devices", test_devices},
        {"attributes of devices", test_attributes},
        {"primary contexts", test_primary_context},
        {"a destroyed context", test_destroyed_context},
        {"bad handles", test_bad_handles},
        {"memory", test_memory},
        {"out of memory", test_out_of_memory},
        {"attributes of addresses", test_pointer_attributes},
        {"host memory", test_host_memory},
        {"peer access", test_peer_access},
        {"texts of errors", test_errors},
        {"cuGetProcAddress", test_proc_address}};

    return GPU_RUN(cases);
}
