/*
 * Serial-number arithmetic for sequence numbers that wrap around. `a` is before
 * `b` if the distance from a to b, modulo the width, is in (0, half). Source:
 * RFC 1982; for 24-bit packet sequence numbers, InfiniBand Architecture
 * Specification 9.7.1.
 */
#ifndef MRAIL_BASE_SEQ_H
#define MRAIL_BASE_SEQ_H

#include <stdint.h>

#define MRAIL_PSN_MASK 0xffffffu

static inline int mrail_seq16_before(uint16_t a, uint16_t b)
{
    return (int16_t)(uint16_t)(a - b) < 0;
}

static inline int mrail_seq32_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

/* Returns the signed distance b - a of two 24-bit numbers, in [-2^23, 2^23). */
static inline int32_t mrail_psn_diff(uint32_t b, uint32_t a)
{
    return (int32_t)((b - a) << 8) >> 8;
}

static inline uint32_t mrail_psn_add(uint32_t psn, uint32_t n)
{
    return (psn + n) & MRAIL_PSN_MASK;
}

#endif
