#include "config.h"
#include "tools/bench_buffer.h"

#include "tools/bench.h"
#include "tools/bench_kernels.h"

#include <stdlib.h>

void mrail_bench_buffer_init(mrail_bench_buffer_t *buffer, size_t size,
                             mrail_bench_memory_t memory)
{
    int has_kernels =
        memory == MRAIL_BENCH_DEVICE && mrail_bench_kernels_open();

    buffer->size = size;
    buffer->host = has_kernels ? NULL : mrail_bench_allocate(size);
    buffer->mpi = (memory == MRAIL_BENCH_HOST)
                      ? buffer->host
                      : mrail_bench_device_allocate(size, memory);
}

int mrail_bench_buffer_has_kernels(const mrail_bench_buffer_t *buffer)
{
    return buffer->host == NULL;
}

void mrail_bench_buffer_cleanup(mrail_bench_buffer_t *buffer)
{
    if (buffer->mpi != buffer->host) {
        mrail_bench_device_free(buffer->mpi);
    }
    free(buffer->host);
}

void mrail_bench_buffer_fill(const mrail_bench_buffer_t *buffer, size_t offset,
                             size_t length, uint64_t seed)
{
    char *to = buffer->mpi + offset;

    if (mrail_bench_buffer_has_kernels(buffer)) {
        mrail_bench_kernels_fill(to, length, seed);
        return;
    }
    mrail_bench_fill(buffer->host + offset, length, seed);
    if (buffer->mpi != buffer->host) {
        mrail_bench_device_copy(to, buffer->host + offset, length);
    }
}

/* Copies device memory to the host and checks it there. */
static size_t check_copy(const char *from, size_t length, uint64_t seed)
{
    char *copy = mrail_bench_allocate(length);
    size_t at;

    mrail_bench_device_copy(copy, from, length);
    at = mrail_bench_check(copy, length, seed);
    free(copy);
    return at;
}

size_t mrail_bench_buffer_check(const mrail_bench_buffer_t *buffer,
                                size_t offset, size_t length, uint64_t seed)
{
    const char *from = buffer->mpi + offset;

    if (buffer->mpi == buffer->host) {
        return mrail_bench_check(from, length, seed);
    }
    if (mrail_bench_buffer_has_kernels(buffer) &&
        mrail_bench_kernels_verify(from, length, seed) == 0) {
        return length;
    }
    return check_copy(from, length, seed);
}

void mrail_bench_buffer_corrupt(const mrail_bench_buffer_t *buffer)
{
    char *at = buffer->mpi + buffer->size / 2, byte;

    if (buffer->size == 0) {
        return;
    }
    if (buffer->mpi == buffer->host) {
        *at ^= 1;
        return;
    }
    mrail_bench_device_copy(&byte, at, 1);
    byte ^= 1;
    mrail_bench_device_copy(at, &byte, 1);
}
