/* CRC-32 (reflected 0x04C11DB7), and its arithmetic. */
#ifndef SROCE_CORE_CRC32_H
#define SROCE_CORE_CRC32_H

#include <stddef.h>
#include <stdint.h>

/*
 * CRC-32 of `buf`, after what gave `crc`.  No initial or final inversion.  Any
 * thread.
 */
uint32_t sroce_crc32(uint32_t crc, const void *buf, size_t length);

/* Ways to compute it; who has one has those before it. */
typedef enum sroce_crc32_way {
    SROCE_CRC32_TABLE,
    SROCE_CRC32_CLMUL,  /* PCLMULQDQ, 16 bytes at a time */
    SROCE_CRC32_VCLMUL, /* VPCLMULQDQ with AVX2, 32 bytes at a time */
} sroce_crc32_way_t;

/* The fastest way of this CPU, which sroce_crc32() takes. */
sroce_crc32_way_t sroce_crc32_best(void);
/* sroce_crc32() by `way`, at most sroce_crc32_best(). */
uint32_t sroce_crc32_by(sroce_crc32_way_t way, uint32_t crc, const void *buf,
                        size_t length);

/* a * b mod P.  Polynomials are bit-reflected: x^0 is the highest bit. */
uint32_t sroce_crc32_mul(uint32_t a, uint32_t b);
/* x^n mod P.  x^-n is x^(UINT32_MAX - n): P is primitive. */
uint32_t sroce_crc32_x_pow(uint32_t n);

#endif
