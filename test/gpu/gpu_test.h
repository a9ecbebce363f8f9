/*
 * Helpers of the tests of software GPUs. A program writes TAP: one result per
 * case, which consists of checks. The first failing check prints its line and
 * ends the case.
 */
#ifndef MRAIL_TEST_GPU_TEST_H
#define MRAIL_TEST_GPU_TEST_H

#include "cuda/abi.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends a case, which is a function that returns int. */
#define CHECK(_condition)                                                      \
    do {                                                                       \
        if (!(_condition)) {                                                   \
            printf("# %s:%d: %s\n", __FILE__, __LINE__, #_condition);          \
            return -1;                                                         \
        }                                                                      \
    } while (0)

/* Checks the result of a driver call. */
#define RESULT(_wanted, _call)                                                 \
    do {                                                                       \
        CUresult result_ = (_call);                                            \
                                                                               \
        if (result_ != (_wanted)) {                                            \
            printf("# %s:%d: %s gives %d, not %d\n", __FILE__, __LINE__,       \
                   #_call, (int)result_, (int)(_wanted));                      \
            return -1;                                                         \
        }                                                                      \
    } while (0)

#define CU(_call) RESULT(CUDA_SUCCESS, _call)

typedef struct gpu_case {
    const char *name;
    int (*func)(void);
} gpu_case_t;

/* Runs the cases in order, and returns the exit status of the program. */
static inline int gpu_run_cases(const gpu_case_t *cases, unsigned num)
{
    unsigned failed = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (unsigned i = 0; i < num; ++i) {
        int ok = (cases[i].func() == 0);

        printf("%sok %u - %s\n", ok ? "" : "not ", i + 1, cases[i].name);
        failed += !ok;
    }
    printf("1..%u\n", num);
    return failed != 0;
}

#define GPU_RUN(_cases)                                                        \
    gpu_run_cases(_cases, sizeof(_cases) / sizeof((_cases)[0]))

/* Makes the primary context of a device current. Exits on failure. */
static inline CUcontext gpu_use(CUdevice dev)
{
    CUcontext ctx;

    if ((cuInit(0) != CUDA_SUCCESS) ||
        (cuDevicePrimaryCtxRetain(&ctx, dev) != CUDA_SUCCESS) ||
        (cuCtxSetCurrent(ctx) != CUDA_SUCCESS)) {
        printf("Bail out! cannot use device %d\n", dev);
        exit(1);
    }
    return ctx;
}

/* Byte i of a pattern that a seed selects. */
static inline uint8_t gpu_byte(uint64_t seed, uint64_t i)
{
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15ull + i * 0xbf58476d1ce4e5b9ull;

    return (uint8_t)(x >> 56);
}

static inline void gpu_fill(void *buffer, size_t size, uint64_t seed)
{
    for (size_t i = 0; i < size; ++i) {
        ((uint8_t *)buffer)[i] = gpu_byte(seed, i);
    }
}

/* Returns the index of the first byte that differs from the pattern, or
 * `size`. */
static inline size_t gpu_differs(const void *buffer, size_t size, uint64_t seed)
{
    size_t i = 0;

    while ((i < size) && (((const uint8_t *)buffer)[i] == gpu_byte(seed, i))) {
        ++i;
    }
    return i;
}

#endif
