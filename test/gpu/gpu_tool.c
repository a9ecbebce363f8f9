/*
 * Helper of soft-gpus.sh.
 *
 *   gpu_tool count        prints the numbers of the node's devices, in the
 *                         order of this process, or the error of cuInit
 *   gpu_tool work DEVICE  allocates 4 MiB, fills 1 MiB by a kernel, and copies
 *                         1 MiB in, to the other device and out; calls an
 *                         unsupported function three times; prints "ready", and
 *                         waits for end of file on stdin
 *   gpu_tool copy         copies 4 MiB from device 0 to device 1; prints
 *                         "copied", or the error
 */
#include "config.h"
#include "gpu_test.h"
#include "kernels/args.h"
#include "kernels/image.h"

CUresult cuModuleLoad(void **module_p, const char *name);

#define MIB ((size_t)1 << 20)

static int count(void)
{
    CUresult ret = cuInit(0);
    int num, bus, first = 0x40;

    if (ret != CUDA_SUCCESS) {
        printf("init %d\n", (int)ret);
        return 0;
    }
    CU(cuDeviceGetCount(&num));
    printf("devices");
    for (int i = 0; i < num; ++i) {
        CU(cuDeviceGetAttribute(&bus, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, i));
        printf(" %d", bus - first);
    }
    printf("\n");
    return 0;
}

static int run_kernel(CUdeviceptr buffer)
{
    mrail_kernel_pattern_t args = {.address = buffer, .bytes = MIB};
    void *params[] = {&args};
    CUfunction func;
    CUmodule kernels;

    CU(cuModuleLoadData(&kernels, &mrail_kernel_image));
    CU(cuModuleGetFunction(&func, kernels, "mrail_kernel_fill"));
    CU(cuLaunchKernel(func, 2, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    CU(cuCtxSynchronize());
    return 0;
}

static int work(int dev)
{
    static uint8_t bytes[MIB];
    CUcontext other = gpu_use(1 - dev), own = gpu_use(dev);
    CUdeviceptr a, b;
    void *module;

    CU(cuMemAlloc(&a, 2 * MIB));
    CU(cuCtxSetCurrent(other));
    CU(cuMemAlloc(&b, 2 * MIB));
    CU(cuCtxSetCurrent(own));
    CU(cuCtxEnablePeerAccess(other, 0));
    CHECK(run_kernel(a) == 0);
    CU(cuMemcpyHtoD(a, bytes, MIB));
    CU(cuMemcpyDtoD(b, a, MIB));
    CU(cuMemcpyDtoH(bytes, b, MIB));
    for (unsigned i = 0; i < 3; ++i) {
        RESULT(CUDA_ERROR_NOT_SUPPORTED, cuModuleLoad(&module, "file"));
    }
    printf("ready\n");
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return 0;
}

static int copy(void)
{
    CUcontext other = gpu_use(1), own = gpu_use(0);
    CUdeviceptr from, to;
    CUresult ret;

    CU(cuMemAlloc(&from, 4 * MIB));
    CU(cuCtxSetCurrent(other));
    CU(cuMemAlloc(&to, 4 * MIB));
    CU(cuCtxSetCurrent(own));
    CU(cuCtxEnablePeerAccess(other, 0));
    CU(cuMemcpyDtoD(to, from, 4 * MIB));
    ret = cuCtxSynchronize();
    if (ret == CUDA_SUCCESS) {
        printf("copied\n");
    } else {
        printf("error %d\n", (int)ret);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if ((argc > 2) && (strcmp(argv[1], "work") == 0)) {
        return work(atoi(argv[2])) != 0;
    }
    if ((argc > 1) && (strcmp(argv[1], "copy") == 0)) {
        return copy() != 0;
    }
    return count() != 0;
}
