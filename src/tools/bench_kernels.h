/*
 * The kernels of src/kernels that fill and check device memory, and one that
 * takes a given time. They run in the context of the calling thread. Functions
 * exit with a message if they fail.
 */
#ifndef MRAIL_TOOLS_BENCH_KERNELS_H
#define MRAIL_TOOLS_BENCH_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* Loads the kernels. Returns 1, or 0 if the driver cannot load them, or needs
 * PTX and mrail was built without nvcc. */
int mrail_bench_kernels_open(void);

/* Fills device memory with the bytes of mrail_bench_fill(), and waits until it
 * is filled. */
void mrail_bench_kernels_fill(void *memory, size_t size, uint64_t seed);

/* Returns the number of wrong bytes in device memory. */
uint64_t mrail_bench_kernels_verify(const void *memory, size_t size,
                                    uint64_t seed);

/* Runs a kernel of one block that takes `ns` nanoseconds, and waits until it
 * has ended. */
void mrail_bench_kernels_run(uint64_t ns);

/* Like fill and verify, but in a stream and without waiting. All kernels of
 * the process add the number of wrong bytes to one sum, which
 * mrail_bench_kernels_wrong() returns and resets. Synchronise the streams
 * first. */
void mrail_bench_kernels_start_fill(void *stream, void *memory, size_t size,
                                    uint64_t seed);
void mrail_bench_kernels_start_verify(void *stream, const void *memory,
                                      size_t size, uint64_t seed);
uint64_t mrail_bench_kernels_wrong(void);

#endif
