/* CRC-32 (reflected 0x04C11DB7) and its polynomial arithmetic. */
#ifndef SROCE_CORE_CRC32_H
#define SROCE_CORE_CRC32_H

#include <stddef.h>
#include <stdint.h>

/*
 * Extends the CRC `crc` over `buf`, without initial or final inversion. Any
 * thread may call it.
 */
uint32_t sroce_crc32(uint32_t crc, const void *buf, size_t length);

/* Returns a * b mod P. Polynomials are bit-reflected: x^0 is the highest
 * bit. */
uint32_t sroce_crc32_mul(uint32_t a, uint32_t b);
/* Returns x^n mod P. Because P is primitive, x^-n is x^(UINT32_MAX - n). */
uint32_t sroce_crc32_x_pow(uint32_t n);

#endif
