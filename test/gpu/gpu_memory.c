/* Tests how src/cuda recognises the kind of memory at an application's
 * pointers. */
#include "config.h"
#include "gpu_test.h"

#include "cuda/device.h"
#include "cuda/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#define GRANULE ((size_t)2 << 20)
#define SIZE ((size_t)300000)

static mrail_cuda_range_t range;

static int look(CUdeviceptr address, size_t length)
{
    memset(&range, 0xff, sizeof(range));
    return mrail_cuda_recognise((void *)(uintptr_t)address, length, &range);
}

#define IS_DEVICE(_device, _base, _size)                                       \
    CHECK((range.memory == MRAIL_CUDA_DEVICE) &&                               \
          (range.device == (_device)) && (range.buffer_id != 0) &&             \
          (range.base == (_base)) && (range.size == (_size)))

static int test_alloc(void)
{
    CUdeviceptr a, b;

    gpu_use(2);
    CU(cuMemAlloc(&a, SIZE));
    gpu_use(1);
    CU(cuMemAlloc(&b, SIZE));
    CHECK(look(a, SIZE) == 0);
    IS_DEVICE(2, a, SIZE);
    CHECK(look(b + SIZE - 1, 1) == 0);
    IS_DEVICE(1, b, SIZE);
    CHECK(look(b + 100, 0) == 0);
    IS_DEVICE(1, b, SIZE);
    CHECK(look(b + 100, SIZE - 100) == 0);
    CHECK(look(b + 100, SIZE - 99) != 0);
    CHECK(range.memory == MRAIL_CUDA_DEVICE);
    CU(cuMemFree(a));
    CU(cuMemFree(b));
    CHECK(look(b, SIZE) == 0);
    CHECK((range.memory == MRAIL_CUDA_HOST) && (range.buffer_id == 0));
    return 0;
}

static int test_host(void)
{
    static uint8_t bytes[SIZE];
    CUdeviceptr managed;
    void *pinned;

    gpu_use(0);
    CHECK(look((uintptr_t)bytes, SIZE) == 0);
    CHECK(range.memory == MRAIL_CUDA_HOST);
    CHECK(look(0, 0) == 0);
    CHECK(range.memory == MRAIL_CUDA_HOST);
    CHECK(look(UINT64_MAX - 1, SIZE) == 0);
    CHECK(range.memory == MRAIL_CUDA_HOST);
    CU(cuMemHostAlloc(&pinned, SIZE, 0));
    CHECK(look((uintptr_t)pinned, SIZE) == 0);
    CHECK(range.memory == MRAIL_CUDA_HOST);
    CU(cuMemFreeHost(pinned));
    CU(cuMemHostRegister(bytes, SIZE, 0));
    CHECK(look((uintptr_t)bytes, SIZE) == 0);
    CHECK(range.memory == MRAIL_CUDA_HOST);
    CU(cuMemHostUnregister(bytes));
    CU(cuMemAllocManaged(&managed, SIZE, CU_MEM_ATTACH_GLOBAL));
    CHECK(look(managed, SIZE) == 0);
    CHECK(range.memory == MRAIL_CUDA_MANAGED);
    CU(cuMemFree(managed));
    return 0;
}

/* A later allocation may have the same address. */
static int test_reuse(void)
{
    unsigned num_same = 0;
    uint64_t id;
    CUdeviceptr a, b;

    gpu_use(0);
    for (unsigned i = 0; i < 20; ++i) {
        CU(cuMemAlloc(&a, SIZE));
        CHECK(look(a, SIZE) == 0);
        id = range.buffer_id;
        CU(cuMemFree(a));
        CU(cuMemAlloc(&b, SIZE));
        CHECK(look(b, SIZE) == 0);
        CHECK(range.buffer_id != id);
        num_same += (a == b);
        CU(cuMemFree(b));
    }
    printf("# %u of 20 addresses were reused\n", num_same);
    CHECK(num_same > 0);
    return 0;
}

/* Memory from cuMemCreate() or from a pool belongs to no context. */
static int test_vmm(void)
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 3}};
    CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handles[2];
    CUdeviceptr base;
    uint64_t offset;
    int fd;

    gpu_use(0);
    CU(cuMemAddressReserve(&base, 4 * GRANULE, 0, 0, 0));
    for (unsigned i = 0; i < 2; ++i) {
        CU(cuMemCreate(&handles[i], GRANULE, &prop, 0));
        CU(cuMemMap(base + (i + 1) * GRANULE, GRANULE, 0, handles[i], 0));
    }
    CU(cuMemSetAccess(base + GRANULE, 2 * GRANULE, &access, 1));
    CHECK(look(base + GRANULE + 7, GRANULE - 7) == 0);
    IS_DEVICE(3, base + GRANULE, GRANULE);
    /* host memory, then device memory, and the reverse */
    CHECK(look(base + GRANULE - 8, 16) == -EFAULT);
    CHECK(range.memory == MRAIL_CUDA_HOST);
    CHECK(strstr(mrail_cuda_range_text(-EFAULT), "host memory") != NULL);
    CHECK(look(base + 3 * GRANULE - 8, 16) == -EFAULT);
    CHECK(range.memory == MRAIL_CUDA_DEVICE);
    /* Two adjacent allocations. */
    CHECK(look(base + 2 * GRANULE - 8, 16) == -ERANGE);
    CHECK(range.base == base + GRANULE);
    CHECK(strstr(mrail_cuda_range_text(-ERANGE), "one allocation") != NULL);
    CHECK(look(base + GRANULE, GRANULE) == 0);
    CHECK(mrail_cuda_export(&range, (void *)(uintptr_t)(base + GRANULE + 5000),
                            10, &fd, &offset) == 0);
    CHECK(offset == 5000 % (unsigned)getpagesize());
    close(fd);
    CU(cuMemUnmap(base + GRANULE, 2 * GRANULE));
    CHECK(look(base + GRANULE, 1) == 0);
    CHECK(range.memory == MRAIL_CUDA_HOST);
    CU(cuMemAddressFree(base, 4 * GRANULE));
    CU(cuMemRelease(handles[0]));
    CU(cuMemRelease(handles[1]));
    return 0;
}

static int test_pool(void)
{
    CUdeviceptr a, b;
    CUstream stream;
    uint64_t id;

    gpu_use(1);
    CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CU(cuMemAllocAsync(&a, SIZE, stream));
    CU(cuMemAllocAsync(&b, SIZE, stream));
    CHECK(look(a, SIZE) == 0);
    IS_DEVICE(1, a, SIZE);
    id = range.buffer_id;
    CHECK(look(b, SIZE) == 0);
    CHECK(range.buffer_id != id);
    CU(cuMemFreeAsync(a, stream));
    CU(cuMemFreeAsync(b, stream));
    CU(cuStreamSynchronize(stream));
    CHECK(look(a, SIZE) == 0);
    CHECK(range.memory == MRAIL_CUDA_HOST);
    CU(cuStreamDestroy(stream));
    return 0;
}

/* The dma-buf holds the bytes of the range, at the offset. */
static int test_export(void)
{
    static uint8_t bytes[SIZE];
    unsigned page = (unsigned)getpagesize();
    CUdeviceptr a;
    uint64_t offset;
    off_t start;
    int fd;

    gpu_use(1);
    CU(cuMemAlloc(&a, SIZE));
    gpu_fill(bytes, SIZE, 5);
    CU(cuMemcpyHtoD(a, bytes, SIZE));
    CHECK(look(a, SIZE) == 0);
    gpu_use(0);
    CHECK(mrail_cuda_export(&range, (void *)(uintptr_t)(a + 3 * page + 77),
                            SIZE - 3 * page - 77, &fd, &offset) == 0);
    CHECK(offset == 77);
    start = lseek(fd, 0, SEEK_CUR);
    CHECK(pread(fd, bytes, 100, start + (off_t)offset) == 100);
    for (unsigned i = 0; i < 100; ++i) {
        CHECK(bytes[i] == gpu_byte(5, 3 * page + 77 + i));
    }
    close(fd);
    CU(cuMemFree(a));
    CHECK(mrail_cuda_export(&range, (void *)(uintptr_t)a, SIZE, &fd, &offset) ==
          -EOPNOTSUPP);
    CU(cuMemAllocManaged(&a, SIZE, CU_MEM_ATTACH_GLOBAL));
    CHECK(look(a, SIZE) == 0);
    CHECK(mrail_cuda_export(&range, (void *)(uintptr_t)a, SIZE, &fd, &offset) ==
          -EOPNOTSUPP);
    CU(cuMemFree(a));
    return 0;
}

static void *export_without_ctx(void *arg)
{
    CUcontext ctx = NULL;
    uint64_t offset;
    int fd;

    *(int *)arg = mrail_cuda_export(&range, (void *)(uintptr_t)range.base, 100,
                                    &fd, &offset);
    if (*(int *)arg == 0) {
        close(fd);
    }
    cuCtxGetCurrent(&ctx);
    if (ctx != NULL) {
        *(int *)arg = 1;
    }
    return NULL;
}

/* The application's contexts remain unchanged. */
static int test_contexts(void)
{
    CUcontext own, current;
    CUdeviceptr a;
    pthread_t thread;
    uint64_t offset;
    unsigned flags;
    int ret, fd, is_active;

    gpu_use(0);
    CU(cuCtxCreate(&own, NULL, 0, 2));
    CU(cuMemAlloc(&a, SIZE));
    gpu_use(0);
    CU(cuCtxGetCurrent(&current));
    CHECK(look(a, SIZE) == 0);
    CHECK(range.ctx == own);
    CHECK(mrail_cuda_export(&range, (void *)(uintptr_t)a, SIZE, &fd, &offset) ==
          0);
    close(fd);
    CU(cuCtxGetCurrent(&own));
    CHECK(own == current);
    CHECK(pthread_create(&thread, NULL, export_without_ctx, &ret) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(ret == 0);
    mrail_cuda_sync_copies(&range);
    CU(cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a));
    CHECK(flags != 0);
    /* memory without a context on a device without a primary context */
    own = range.ctx;
    range.ctx = NULL;
    CU(cuDevicePrimaryCtxGetState(2, &flags, &is_active));
    while (is_active) {
        CU(cuDevicePrimaryCtxRelease(2));
        CU(cuDevicePrimaryCtxGetState(2, &flags, &is_active));
    }
    CHECK(mrail_cuda_enter(&range) == 0);
    CU(cuDevicePrimaryCtxGetState(2, &flags, &is_active));
    CHECK(is_active);
    mrail_cuda_leave(&range);
    CU(cuDevicePrimaryCtxGetState(2, &flags, &is_active));
    CHECK(!is_active);
    CU(cuCtxGetCurrent(&range.ctx));
    CHECK(range.ctx == current);
    /* a context that the application has destroyed */
    range.ctx = own;
    CU(cuCtxDestroy(own));
    CHECK(mrail_cuda_enter(&range) == -EIO);
    CHECK(mrail_cuda_export(&range, (void *)(uintptr_t)a, SIZE, &fd, &offset) ==
          -EIO);
    CHECK(look(a, SIZE) == 0);
    CHECK(range.memory == MRAIL_CUDA_HOST);
    return 0;
}

static int test_devices(void)
{
    mrail_cuda_device_t devices[MRAIL_CUDA_MAX_DEVICES];

    gpu_use(0);
    CHECK(mrail_cuda_devices(mrail_cuda_find(), devices) == 4);
    for (int i = 0; i < 4; ++i) {
        char pci[16];

        snprintf(pci, sizeof(pci), "0000:%02x:00.0", 0x40 + i);
        CHECK(strcmp(devices[i].pci, pci) == 0);
        CHECK(devices[i].ordinal == i);
        CHECK(strstr(devices[i].name, "software GPU") != NULL);
        CHECK(devices[i].has_dmabuf && devices[i].has_rdma);
        CHECK(devices[i].memory > 0);
        CHECK(devices[i].peers == (0xfu & ~(1u << i)));
    }
    CHECK(memcmp(&devices[0].uuid, &devices[1].uuid, 16) != 0);
    return 0;
}

int main(void)
{
    static const gpu_case_t cases[] = {
        {"memory from cuMemAlloc on two devices", test_alloc},
        {"host, pinned and managed memory", test_host},
        {"memory that was freed and reused", test_reuse},
        {"virtual memory, and ranges that extend beyond it", test_vmm},
        {"memory from pools", test_pool},
        {"dma-buf of a subrange", test_export},
        {"contexts remain unchanged", test_contexts},
        {"devices", test_devices}};

    return GPU_RUN(cases);
}
