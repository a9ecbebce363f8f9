/*
 * Buffers for MPI in host or device memory. Functions fill them with bytes that
 * a seed selects, and check them. Kernels fill and check device memory if the
 * driver can load them. Otherwise, the bytes are copied to and from the host.
 * Functions exit with a message if they fail, and mpirun kills the other ranks.
 */
#ifndef MRAIL_TOOLS_BENCH_BUFFER_H
#define MRAIL_TOOLS_BENCH_BUFFER_H

#include "tools/bench_device.h"

#include <stddef.h>
#include <stdint.h>

typedef struct mrail_bench_buffer {
    char *mpi; /* the argument of MPI calls */
    /* `mpi` in host memory; NULL if kernels fill and check the buffer;
     * otherwise scratch memory for copies */
    char *host;
    size_t size;
} mrail_bench_buffer_t;

void mrail_bench_buffer_init(mrail_bench_buffer_t *buffer, size_t size,
                             mrail_bench_memory_t memory);
void mrail_bench_buffer_cleanup(mrail_bench_buffer_t *buffer);

/* Fills a range with the bytes of mrail_bench_fill(), and waits until it is
 * filled. */
void mrail_bench_buffer_fill(const mrail_bench_buffer_t *buffer, size_t offset,
                             size_t length, uint64_t seed);
/* Returns the offset of the first wrong byte from the start of the range, or
 * `length` if there is none. */
size_t mrail_bench_buffer_check(const mrail_bench_buffer_t *buffer,
                                size_t offset, size_t length, uint64_t seed);

/* Returns 1 if kernels fill and check the buffer. */
int mrail_bench_buffer_has_kernels(const mrail_bench_buffer_t *buffer);

/* Changes the byte in the middle, to test the check. Does nothing to an empty
 * buffer. */
void mrail_bench_buffer_corrupt(const mrail_bench_buffer_t *buffer);

#endif
