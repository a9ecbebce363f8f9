#include "config.h"
#include "tools/bench_kernels.h"

#include "tools/bench_device.h"

#include "base/util.h"
#include "cuda/driver.h"
#include "cuda/kernels.h"
#include "kernels/args.h"

#include <stdio.h>
#include <stdlib.h>

#define THREADS 256
#define MAX_BLOCKS 16u
#define BLOCK_BYTES 65536u /* minimum number of bytes per block */

typedef struct kernels {
    const mrail_cuda_t *cuda;
    CUfunction fill, verify, wait;
    uint64_t *wrong; /* wrong bytes found so far, in device memory */
} kernels_t;

static kernels_t kernels;

static void check(CUresult result, const char *what)
{
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "mrail bench: kernel: %s: %s\n", what,
                mrail_cuda_error(result));
        exit(1);
    }
}

int mrail_bench_kernels_open(void)
{
    const mrail_cuda_t *cuda = mrail_cuda_find();
    CUmodule module;

    if (kernels.wrong != NULL) {
        return 1;
    }
    if (cuda == NULL ||
        mrail_cuda_kernels_load(cuda, &module) != CUDA_SUCCESS) {
        return 0;
    }
    kernels.cuda = cuda;
    check(cuda->cuModuleGetFunction(&kernels.fill, module, "mrail_kernel_fill"),
          "fill");
    check(cuda->cuModuleGetFunction(&kernels.verify, module,
                                    "mrail_kernel_verify"),
          "verify");
    check(cuda->cuModuleGetFunction(&kernels.wait, module, "mrail_kernel_wait"),
          "wait");
    kernels.wrong =
        mrail_bench_device_allocate(sizeof(*kernels.wrong), MRAIL_BENCH_DEVICE);
    (void)mrail_bench_kernels_wrong(); /* sets the number to 0 */
    return 1;
}

static void launch(void *stream, CUfunction func, unsigned blocks, void *args)
{
    void *params[] = {args};

    check(kernels.cuda->cuLaunchKernel(func, blocks, 1, 1, THREADS, 1, 1, 0,
                                       stream, params, NULL),
          "cuLaunchKernel");
}

/* Launches a kernel that fills or verifies memory. */
static void launch_pattern(void *stream, CUfunction func,
                           mrail_kernel_pattern_t *args)
{
    uint64_t blocks = MRAIL_DIV_ROUND_UP(args->bytes, BLOCK_BYTES);

    if (blocks > 0) {
        launch(stream, func, (unsigned)MRAIL_MIN(blocks, MAX_BLOCKS), args);
    }
}

static void synchronize(void)
{
    check(kernels.cuda->cuStreamSynchronize(NULL), "cuStreamSynchronize");
}

void mrail_bench_kernels_start_fill(void *stream, void *memory, size_t size,
                                    uint64_t seed)
{
    mrail_kernel_pattern_t args = {(uintptr_t)memory, size, 0, seed, 0};

    launch_pattern(stream, kernels.fill, &args);
}

void mrail_bench_kernels_start_verify(void *stream, const void *memory,
                                      size_t size, uint64_t seed)
{
    mrail_kernel_pattern_t args = {(uintptr_t)memory, size, 0, seed,
                                   (uintptr_t)kernels.wrong};

    launch_pattern(stream, kernels.verify, &args);
}

uint64_t mrail_bench_kernels_wrong(void)
{
    const uint64_t none = 0;
    uint64_t wrong;

    mrail_bench_device_copy(&wrong, kernels.wrong, sizeof(wrong));
    mrail_bench_device_copy(kernels.wrong, &none, sizeof(none));
    return wrong;
}

void mrail_bench_kernels_fill(void *memory, size_t size, uint64_t seed)
{
    mrail_bench_kernels_start_fill(NULL, memory, size, seed);
    synchronize();
}

uint64_t mrail_bench_kernels_verify(const void *memory, size_t size,
                                    uint64_t seed)
{
    mrail_bench_kernels_start_verify(NULL, memory, size, seed);
    synchronize();
    return mrail_bench_kernels_wrong();
}

void mrail_bench_kernels_run(uint64_t ns)
{
    mrail_kernel_wait_t args = {ns};

    launch(NULL, kernels.wait, 1, &args);
    synchronize();
}
