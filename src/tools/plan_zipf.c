/*
 * Powers in integer arithmetic. The pow(), exp() and log() of C libraries
 * differ in the last bit between machines, and one bit can determine the expert
 * to which a token goes. Therefore, n^-s is computed as 2^-(s log2 n): the
 * logarithm with integer squares, and the power with integer square roots.
 */
#include "config.h"
#include "tools/plan_demand.h"

typedef unsigned __int128 wide_t;

#define ONE62 ((uint64_t)1 << 62)

/* Returns log2(n) in units of 2^-32, for n >= 1. Squaring doubles the
 * logarithm, so each squaring yields the next bit. */
static uint64_t log2_of(uint32_t n)
{
    unsigned whole = 31u - (unsigned)__builtin_clz(n);
    /* a number in [1, 2) with 31 fractional bits */
    uint64_t x = ((uint64_t)n << 31) >> whole;
    uint64_t log = whole;

    for (unsigned i = 0; i < 32; ++i) {
        x = (x * x) >> 31;
        log <<= 1;
        if (x >= ((uint64_t)1 << 32)) {
            x >>= 1;
            log |= 1;
        }
    }
    return log;
}

/* Returns the largest x with x * x <= square. */
static uint64_t root_of(wide_t square)
{
    uint64_t x = 0;

    for (uint64_t bit = (uint64_t)1 << 63; bit != 0; bit >>= 1) {
        if ((wide_t)(x | bit) * (x | bit) <= square) {
            x |= bit;
        }
    }
    return x;
}

/* table[i] = 2^-(2^-(i + 1)) in units of 2^-62. */
static void fill_roots(uint64_t table[32])
{
    uint64_t x = ONE62 / 2;

    for (unsigned i = 0; i < 32; ++i) {
        x = root_of((wide_t)x << 62);
        table[i] = x;
    }
}

/* Returns 2^40 * 2^-y, but at least 1. y is in units of 2^-32. */
static uint64_t weight_of(uint64_t y, const uint64_t table[32])
{
    uint64_t x = ONE62;

    if ((y >> 32) >= 40) {
        return 1;
    }
    for (unsigned i = 0; i < 32; ++i) {
        if ((y >> (31 - i)) & 1) {
            x = (uint64_t)(((wide_t)x * table[i]) >> 62);
        }
    }
    x >>= 22 + (y >> 32);
    return (x > 0) ? x : 1;
}

void plan_zipf(unsigned num, uint64_t exponent_ppm, uint64_t *weights)
{
    uint64_t table[32];

    fill_roots(table);
    for (unsigned i = 0; i < num; ++i) {
        /* The product is at most 16 * 2^32 * 4e6 < 2^59. */
        weights[i] = weight_of(log2_of(i + 1) * exponent_ppm / PLAN_PPM, table);
    }
}
