/*
 * Code shared by the fuzz targets. A target is one file with one function,
 * LLVMFuzzerTestOneInput(), linked with libFuzzer (contrib/fuzz) or with
 * replay.c (make check). The input bytes control the target: fuzz_u8() and its
 * variants take bytes from the front, and return 0 when none are left.
 */
#ifndef MRAIL_TEST_FUZZ_H
#define MRAIL_TEST_FUZZ_H

#include "base/util.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Marks checks with many comparisons, which the fuzzer must not trace. Tracing
 * them would not guide the fuzzer, and would take half of the run time. */
#ifdef __clang__
#define FUZZ_UNTRACED __attribute__((no_sanitize("coverage")))
#else
#define FUZZ_UNTRACED
#endif

/* An invariant. A violation counts as a finding. */
#define FUZZ_CHECK(_cond, ...)                                                 \
    do {                                                                       \
        if (MRAIL_UNLIKELY(!(_cond))) {                                        \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #_cond);        \
            fprintf(stderr, __VA_ARGS__);                                      \
            fputc('\n', stderr);                                               \
            abort();                                                           \
        }                                                                      \
    } while (0)

typedef struct fuzz_in {
    const uint8_t *p;
    const uint8_t *end;
} fuzz_in_t;

static inline size_t fuzz_left(const fuzz_in_t *in)
{
    return (size_t)(in->end - in->p);
}

/* Reads `length` bytes. If fewer are left, sets the rest to zero. Returns the
 * number of bytes read. */
static inline size_t fuzz_bytes(fuzz_in_t *in, void *to, size_t length)
{
    size_t n = MRAIL_MIN(length, fuzz_left(in));

    mrail_copy(to, in->p, n);
    memset((uint8_t *)to + n, 0, length - n);
    in->p += n;
    return n;
}

static inline uint8_t fuzz_u8(fuzz_in_t *in)
{
    return (in->p == in->end) ? 0 : *in->p++;
}

static inline uint16_t fuzz_u16(fuzz_in_t *in)
{
    uint16_t hi = fuzz_u8(in);

    return (uint16_t)((hi << 8) | fuzz_u8(in));
}

static inline uint32_t fuzz_u32(fuzz_in_t *in)
{
    uint32_t hi = fuzz_u16(in);

    return (hi << 16) | fuzz_u16(in);
}

static inline uint64_t fuzz_u64(fuzz_in_t *in)
{
    uint64_t hi = fuzz_u32(in);

    return (hi << 32) | fuzz_u32(in);
}

#endif
