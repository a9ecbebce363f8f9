/*
 * Computes CRC-32 (reflected 0x04C11DB7). ISA-L computes the CRC of a buffer;
 * the polynomial arithmetic is here.
 */
#include "config.h"

#include "softroce/core/crc32.h"

#include <isa-l/crc.h>

#define POLY 0xedb88320u

uint32_t sroce_crc32_mul(uint32_t a, uint32_t b)
{
    uint32_t product = 0;

    for (; a != 0; a <<= 1) {
        product ^= (a >> 31) ? b : 0;
        b = (b >> 1) ^ ((b & 1) ? POLY : 0);
    }
    return product;
}

uint32_t sroce_crc32_x_pow(uint32_t n)
{
    uint32_t power = 1u << 31, square = 1u << 30;

    for (; n != 0; n >>= 1) {
        if (n & 1) {
            power = sroce_crc32_mul(power, square);
        }
        square = sroce_crc32_mul(square, square);
    }
    return power;
}

uint32_t sroce_crc32(uint32_t crc, const void *buf, size_t length)
{
    /* The library inverts the CRC on entry and on return. */
    return ~crc32_gzip_refl(~crc, buf, length);
}
