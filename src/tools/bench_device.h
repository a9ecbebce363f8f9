/*
 * Device memory of benchmarks and tests. The CUDA driver is loaded at run time.
 * Functions exit with a message if they fail, and mpirun kills the other ranks.
 */
#ifndef MRAIL_TOOLS_BENCH_DEVICE_H
#define MRAIL_TOOLS_BENCH_DEVICE_H

#include <stddef.h>

/* Selects the visible GPU whose number is the local rank of this process. Its
 * context becomes the current context of the thread. */
void mrail_bench_device_open(void);

typedef enum mrail_bench_memory {
    MRAIL_BENCH_HOST,
    MRAIL_BENCH_DEVICE, /* the CPU cannot access it */
    /* the driver moves its pages; neither NICs nor other processes can access
     * it */
    MRAIL_BENCH_MANAGED,
} mrail_bench_memory_t;

/* Allocates device memory or managed memory. */
void *mrail_bench_device_allocate(size_t size, mrail_bench_memory_t memory);
void mrail_bench_device_free(void *memory);

/* Copies `size` bytes. Each address may be in host or device memory. Returns
 * when the copy is complete. */
void mrail_bench_device_copy(void *to, const void *from, size_t size);

#endif
