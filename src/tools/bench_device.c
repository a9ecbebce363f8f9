#include "config.h"
#include "tools/bench_device.h"

#include "base/util.h"
#include "cuda/driver.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static const mrail_cuda_t *cuda;

static void check(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "mrail bench: device memory: %s: %s\n", what,
                mrail_cuda_error(result));
        exit(1);
    }
}

/* Returns the local rank of this process on its node. */
static int local_rank(void)
{
    const char *text = getenv("OMPI_COMM_WORLD_LOCAL_RANK");

    return (text != NULL) ? atoi(text) : 0;
}

void mrail_bench_device_open(void)
{
    char reason[128];
    CUcontext ctx;
    int count = 0;

    if (mrail_cuda_open(&cuda, reason, sizeof(reason)) < 0) {
        fprintf(stderr, "mrail bench: device memory: %s\n", reason);
        exit(1);
    }
    check(cuda->cuDeviceGetCount(&count), "cuDeviceGetCount");
    check(cuda->cuDevicePrimaryCtxRetain(&ctx, local_rank() % count),
          "cuDevicePrimaryCtxRetain");
    check(cuda->cuCtxPushCurrent(ctx), "cuCtxPushCurrent");
}

void *mrail_bench_device_allocate(size_t size, mrail_bench_memory_t memory)
{
    CUdeviceptr address;

    size = MRAIL_MAX(size, 1);
    check((memory == MRAIL_BENCH_MANAGED)
              ? cuda->cuMemAllocManaged(&address, size, CU_MEM_ATTACH_GLOBAL)
              : cuda->cuMemAlloc(&address, size),
          "out of memory");
    return (void *)(uintptr_t)address;
}

void mrail_bench_device_free(void *memory)
{
    check(cuda->cuMemFree((uintptr_t)memory), "cuMemFree");
}

void mrail_bench_device_copy(void *to, const void *from, size_t size)
{
    if (size > 0) {
        check(cuda->cuMemcpyAsync((uintptr_t)to, (uintptr_t)from, size, NULL),
              "cuMemcpyAsync");
        check(cuda->cuStreamSynchronize(NULL), "cuStreamSynchronize");
    }
}
