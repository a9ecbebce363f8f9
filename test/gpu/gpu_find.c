/* Tests how src/cuda finds the driver, to which this program is not linked. */
#include "config.h"
#include "gpu_test.h"

#include "cuda/device.h"
#include "cuda/memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs a case in a separate process, which has not loaded the driver. */
static int in_process(int (*func)(void))
{
    int status;

    fflush(stdout);
    if (fork() == 0) {
        _exit(func() != 0);
    }
    CHECK((wait(&status) > 0) && (status == 0));
    return 0;
}

static int has_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);

    return library != NULL;
}

static int later(void)
{
    mrail_cuda_range_t range;
    char byte;

    CHECK(mrail_cuda_find() == NULL);
    CHECK(!mrail_cuda_is_used());
    CHECK(mrail_cuda_recognise(&byte, 1, &range) == 0);
    CHECK(range.memory == MRAIL_CUDA_HOST);
    CHECK(!has_driver());
    CHECK(dlopen("libm.so.6", RTLD_NOW) != NULL);
    CHECK(mrail_cuda_find() == NULL);
    CHECK(dlopen("libcuda.so.1", RTLD_NOW) != NULL);
    CHECK(mrail_cuda_find() != NULL);
    CHECK(mrail_cuda_is_used());
    /* Before cuInit(). */
    CHECK(mrail_cuda_recognise(&byte, 1, &range) == 0);
    CHECK(range.memory == MRAIL_CUDA_HOST);
    return 0;
}

static int test_later(void)
{
    return in_process(later);
}

static int visible(void)
{
    mrail_cuda_device_t devices[MRAIL_CUDA_MAX_DEVICES];
    const mrail_cuda_t *cuda;
    mrail_cuda_range_t range;
    CUdeviceptr address;
    CUcontext ctx;
    char reason[128];

    setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
    CHECK(mrail_cuda_open(&cuda, reason, sizeof(reason)) == 0);
    CHECK(mrail_cuda_devices(cuda, devices) == 2);
    CHECK(strcmp(devices[0].pci, "0000:42:00.0") == 0);
    CHECK(strcmp(devices[1].pci, "0000:40:00.0") == 0);
    CU(cuda->cuDevicePrimaryCtxRetain(&ctx, 1));
    CU(cuda->cuCtxPushCurrent(ctx));
    CU(cuda->cuMemAlloc(&address, 1000));
    CHECK(mrail_cuda_recognise((void *)(uintptr_t)address, 1000, &range) == 0);
    CHECK((range.memory == MRAIL_CUDA_DEVICE) && (range.device == 1));
    CU(cuda->cuMemFree(address));
    return 0;
}

static int test_visible(void)
{
    return in_process(visible);
}

static int none(void)
{
    const mrail_cuda_t *cuda = NULL;
    char reason[128];

    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    CHECK(mrail_cuda_open(&cuda, reason, sizeof(reason)) == -ENODEV);
    CHECK(strcmp(reason, "the CUDA driver has no device") == 0);
    CHECK(cuda == NULL);
    return 0;
}

static int test_none(void)
{
    return in_process(none);
}

int main(void)
{
    static const gpu_case_t cases[] = {
        {"a driver that is loaded later", test_later},
        {"a different order of the devices", test_visible},
        {"a driver without devices", test_none}};

    return GPU_RUN(cases);
}
