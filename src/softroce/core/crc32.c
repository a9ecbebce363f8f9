/*
 * CRC-32 (reflected 0x04C11DB7), by carry-less multiplication where the CPU
 * has it, else eight bytes at a time by table.  The tables and the folding
 * constants are computed before main(); the choice is made there too.
 *
 * Source: V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using
 * PCLMULQDQ Instruction", Intel 2009.
 */
#include "config.h"

#include "softroce/core/crc32.h"

#include <endian.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define HAVE_CLMUL 1
#endif

#define POLY 0xedb88320u

static uint32_t table[8][256];
static sroce_crc32_way_t best;

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

static uint32_t crc32_table(uint32_t crc, const uint8_t *p, size_t length)
{
    for (; length >= 8; length -= 8, p += 8) {
        uint64_t v;

        memcpy(&v, p, sizeof(v));
        v = le64toh(v) ^ crc;
        crc = table[7][v & 0xff] ^ table[6][(v >> 8) & 0xff] ^
              table[5][(v >> 16) & 0xff] ^ table[4][(v >> 24) & 0xff] ^
              table[3][(v >> 32) & 0xff] ^ table[2][(v >> 40) & 0xff] ^
              table[1][(v >> 48) & 0xff] ^ table[0][v >> 56];
    }
    while (length-- > 0) {
        crc = (crc >> 8) ^ table[0][(crc ^ *p++) & 0xff];
    }
    return crc;
}

#if HAVE_CLMUL
#define CLMUL __attribute__((target("pclmul,sse4.1")))
#define VCLMUL __attribute__((target("vpclmulqdq,avx2,pclmul,sse4.1")))
#define CLMUL_MIN_BYTES 64
#define VCLMUL_MIN_BYTES 128

/*
 * What takes an accumulator of 128 bits on by a distance of `bits`: its high
 * and its low half are multiplied by x^(bits +- 32), each shifted by one as a
 * product of two reflected numbers needs it.
 */
typedef struct fold_keys {
    uint64_t low, high;
} fold_keys_t;

static struct {
    fold_keys_t by_128, by_256, by_512, by_1024;
    uint64_t x_64;
} keys;

/* Barrett's constants: P, and the quotient x^64 / P. */
#define P_X 0x1db710641ll
#define MU 0x1f7011641ll

static uint64_t shifted_power(uint32_t n)
{
    return (uint64_t)sroce_crc32_x_pow(n) << 1;
}

static fold_keys_t fold_keys(uint32_t bits)
{
    return (fold_keys_t){.low = shifted_power(bits + 32),
                         .high = shifted_power(bits - 32)};
}

static void clmul_init(void)
{
    keys.by_128 = fold_keys(128);
    keys.by_256 = fold_keys(256);
    keys.by_512 = fold_keys(512);
    keys.by_1024 = fold_keys(1024);
    keys.x_64 = shifted_power(64);
    __builtin_cpu_init();
    if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1")) {
        best = SROCE_CRC32_CLMUL;
        if (__builtin_cpu_supports("vpclmulqdq") &&
            __builtin_cpu_supports("avx2")) {
            best = SROCE_CRC32_VCLMUL;
        }
    }
}

CLMUL static inline __m128i load(const void *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

CLMUL static inline __m128i fold(__m128i acc, __m128i k, __m128i next)
{
    __m128i lo = _mm_clmulepi64_si128(acc, k, 0x00);
    __m128i hi = _mm_clmulepi64_si128(acc, k, 0x11);

    return _mm_xor_si128(_mm_xor_si128(lo, hi), next);
}

/* 128 bits to the 32 of the CRC (Barrett). */
CLMUL static inline uint32_t reduce(__m128i x)
{
    const __m128i k = _mm_set_epi64x(0, (long long)keys.by_128.high);
    const __m128i k64 = _mm_set_epi64x(0, (long long)keys.x_64);
    const __m128i pm = _mm_set_epi64x(MU, P_X);
    const __m128i mask = _mm_setr_epi32(-1, 0, -1, 0);
    __m128i t;

    x = _mm_xor_si128(_mm_clmulepi64_si128(k, x, 0x00), _mm_srli_si128(x, 8));
    t = _mm_srli_si128(x, 4);
    x = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(x, mask), k64, 0x00),
                      t);
    t = _mm_clmulepi64_si128(_mm_and_si128(x, mask), pm, 0x10);
    t = _mm_clmulepi64_si128(_mm_and_si128(t, mask), pm, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(x, t), 1);
}

/* The accumulator and what is left, a multiple of 16. */
CLMUL static inline uint32_t finish(__m128i x, const uint8_t *p, size_t length)
{
    const __m128i k128 = load(&keys.by_128);

    for (; length >= 16; p += 16, length -= 16) {
        x = fold(x, k128, load(p));
    }
    return reduce(x);
}

/* length: a multiple of 16, at least CLMUL_MIN_BYTES. */
CLMUL static uint32_t crc32_clmul(uint32_t crc, const uint8_t *p, size_t length)
{
    const __m128i k512 = load(&keys.by_512);
    const __m128i k128 = load(&keys.by_128);
    __m128i x[4];

    for (int i = 0; i < 4; ++i) {
        x[i] = load(p + 16 * i);
    }
    x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)crc));
    for (p += 64, length -= 64; length >= 64; p += 64, length -= 64) {
        for (int i = 0; i < 4; ++i) {
            x[i] = fold(x[i], k512, load(p + 16 * i));
        }
    }
    for (int i = 1; i < 4; ++i) {
        x[0] = fold(x[0], k128, x[i]);
    }
    return finish(x[0], p, length);
}

VCLMUL static inline __m256i load2(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

VCLMUL static inline __m256i fold2(__m256i acc, __m256i k, __m256i next)
{
    __m256i lo = _mm256_clmulepi64_epi128(acc, k, 0x00);
    __m256i hi = _mm256_clmulepi64_epi128(acc, k, 0x11);

    return _mm256_xor_si256(_mm256_xor_si256(lo, hi), next);
}

/* length: a multiple of 16, at least VCLMUL_MIN_BYTES. */
VCLMUL static uint32_t crc32_vclmul(uint32_t crc, const uint8_t *p,
                                    size_t length)
{
    const __m256i k1024 = _mm256_broadcastsi128_si256(load(&keys.by_1024));
    const __m256i k256 = _mm256_broadcastsi128_si256(load(&keys.by_256));
    __m256i x[4];

    for (int i = 0; i < 4; ++i) {
        x[i] = load2(p + 32 * i);
    }
    x[0] = _mm256_xor_si256(
        x[0], _mm256_zextsi128_si256(_mm_cvtsi32_si128((int)crc)));
    for (p += 128, length -= 128; length >= 128; p += 128, length -= 128) {
        for (int i = 0; i < 4; ++i) {
            x[i] = fold2(x[i], k1024, load2(p + 32 * i));
        }
    }
    for (int i = 1; i < 4; ++i) {
        x[0] = fold2(x[0], k256, x[i]);
    }
    return finish(fold(_mm256_castsi256_si128(x[0]), load(&keys.by_128),
                       _mm256_extracti128_si256(x[0], 1)),
                  p, length);
}
#endif

__attribute__((constructor)) static void crc32_init(void)
{
    for (uint32_t i = 0; i < 256; ++i) {
        uint32_t crc = i;

        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc >> 1) ^ ((crc & 1) ? POLY : 0);
        }
        table[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; ++i) {
        for (int t = 1; t < 8; ++t) {
            table[t][i] =
                (table[t - 1][i] >> 8) ^ table[0][table[t - 1][i] & 0xff];
        }
    }
#if HAVE_CLMUL
    clmul_init();
#endif
}

sroce_crc32_way_t sroce_crc32_best(void)
{
    return best;
}

uint32_t sroce_crc32_by(sroce_crc32_way_t way, uint32_t crc, const void *buf,
                        size_t length)
{
    const uint8_t *p = buf;

#if HAVE_CLMUL
    size_t whole = length & ~(size_t)15;

    if ((way == SROCE_CRC32_VCLMUL) && (length >= VCLMUL_MIN_BYTES)) {
        return crc32_table(crc32_vclmul(crc, p, whole), p + whole,
                           length - whole);
    }
    if ((way != SROCE_CRC32_TABLE) && (length >= CLMUL_MIN_BYTES)) {
        return crc32_table(crc32_clmul(crc, p, whole), p + whole,
                           length - whole);
    }
#else
    (void)way;
#endif
    return crc32_table(crc, p, length);
}

uint32_t sroce_crc32(uint32_t crc, const void *buf, size_t length)
{
    return sroce_crc32_by(best, crc, buf, length);
}
