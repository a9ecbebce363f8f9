/*
 * The RoCEv2 invariant CRC.
 *
 * CRC-32 (reflected 0x04C11DB7), by carry-less multiplication where the CPU
 * has it, else eight bytes at a time by table.  The tables are filled before
 * main(); the choice is made there too.
 *
 * Source: IBA 7.8.1 and annex A17.3.3; V. Gopal et al., "Fast CRC Computation
 * for Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009.
 */
#include "config.h"

#include "softroce/core/core.h"
#include "softroce/core/icrc.h"

#include <arpa/inet.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define HAVE_CLMUL 1
#endif

#define POLY 0xedb88320u
/* CRC of the masked local route header, eight bytes of ones, from ~0. */
#define LRH_CRC 0xdebb20e3u

static uint32_t table[8][256];
static int use_clmul;
/* x^(-8 * 2^i) mod P: what takes a CRC back over 2^i zero bytes. */
#define BACK_BITS 13
static uint32_t back[BACK_BITS];

/* a * b mod P, bit-reflected: x^0 is the highest bit. */
static uint32_t mul_mod(uint32_t a, uint32_t b)
{
    uint32_t product = 0;

    for (; a != 0; a <<= 1) {
        product ^= (a >> 31) ? b : 0;
        b = (b >> 1) ^ ((b & 1) ? POLY : 0);
    }
    return product;
}

static void back_init(void)
{
    back[0] = 1u << 31;
    for (int bit = 0; bit < 8; ++bit) {
        back[0] = (back[0] >> 31) ? (((back[0] ^ POLY) << 1) | 1)
                                  : (back[0] << 1);
    }
    for (int i = 1; i < BACK_BITS; ++i) {
        back[i] = mul_mod(back[i - 1], back[i - 1]);
    }
}

__attribute__((constructor)) static void icrc_init(void)
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
            table[t][i] = (table[t - 1][i] >> 8) ^
                          table[0][table[t - 1][i] & 0xff];
        }
    }
    back_init();
#if HAVE_CLMUL
    __builtin_cpu_init();
    use_clmul = __builtin_cpu_supports("pclmul") &&
                __builtin_cpu_supports("sse4.1");
#endif
}

uint32_t sroce_crc32_table(uint32_t crc, const void *buf, size_t length)
{
    const uint8_t *p = buf;

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
/*
 * Folding constants, bit-reflected: x^n mod P, shifted by one.
 * test_sroce_icrc.c recomputes them from P.
 */
#define K_512_64 0x1c6e41596ull /* n = 512 - 32 */
#define K_512_0 0x154442bd4ull  /* n = 512 + 32 */
#define K_128_64 0x0ccaa009eull /* n = 128 - 32 */
#define K_128_0 0x1751997d0ull  /* n = 128 + 32 */
#define K_64 0x163cd6124ull     /* n = 64 */
#define P_X 0x1db710641ull      /* P */
#define MU 0x1f7011641ull       /* x^64 / P */

#define CLMUL __attribute__((target("pclmul,sse4.1")))

CLMUL static inline __m128i fold(__m128i acc, __m128i k, __m128i next)
{
    __m128i lo = _mm_clmulepi64_si128(acc, k, 0x00);
    __m128i hi = _mm_clmulepi64_si128(acc, k, 0x11);

    return _mm_xor_si128(_mm_xor_si128(lo, hi), next);
}

CLMUL static inline __m128i load(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* 128 bits to the 32 of the CRC (Barrett). */
CLMUL static uint32_t reduce(__m128i x)
{
    const __m128i k = _mm_set_epi64x(0, (long long)K_128_64);
    const __m128i k64 = _mm_set_epi64x(0, (long long)K_64);
    const __m128i pm = _mm_set_epi64x((long long)MU, (long long)P_X);
    const __m128i mask = _mm_setr_epi32(-1, 0, -1, 0);
    __m128i t;

    x = _mm_xor_si128(_mm_clmulepi64_si128(k, x, 0x00), _mm_srli_si128(x, 8));
    t = _mm_srli_si128(x, 4);
    x = _mm_xor_si128(
        _mm_clmulepi64_si128(_mm_and_si128(x, mask), k64, 0x00), t);
    t = _mm_clmulepi64_si128(_mm_and_si128(x, mask), pm, 0x10);
    t = _mm_clmulepi64_si128(_mm_and_si128(t, mask), pm, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(x, t), 1);
}

/* length: a multiple of 16, at least 64. */
CLMUL static uint32_t crc32_clmul(uint32_t crc, const uint8_t *p,
                                  size_t length)
{
    const __m128i k512 = _mm_set_epi64x((long long)K_512_64,
                                        (long long)K_512_0);
    const __m128i k128 = _mm_set_epi64x((long long)K_128_64,
                                        (long long)K_128_0);
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
    for (; length >= 16; p += 16, length -= 16) {
        x[0] = fold(x[0], k128, load(p));
    }
    return reduce(x[0]);
}
#endif

int sroce_crc32_has_clmul(void)
{
    return use_clmul;
}

uint32_t sroce_crc32(uint32_t crc, const void *buf, size_t length)
{
    const uint8_t *p = buf;

#if HAVE_CLMUL
    if (use_clmul && (length >= 64)) {
        size_t whole = length & ~(size_t)15;

        crc = crc32_clmul(crc, p, whole);
        p += whole;
        length -= whole;
    }
#endif
    return sroce_crc32_table(crc, p, length);
}

/* IPv4, UDP and BTH as the ICRC sees them: what routers change is ones. */
static uint32_t icrc_headers(uint16_t ip_id, uint32_t src_ip, uint32_t dst_ip,
                             uint16_t sport, uint32_t udp_bytes,
                             const uint8_t *bth)
{
    uint32_t udp = udp_bytes + 8, total = udp + 20;
    uint8_t h[40] = {0x45, 0xff, (uint8_t)(total >> 8), (uint8_t)total,
                     (uint8_t)(ip_id >> 8), (uint8_t)ip_id,
                     0x40, 0,                /* DF */
                     0xff, 17,   0xff, 0xff, /* TTL, UDP, checksum */
                     0,    0,    0,    0,    0, 0, 0, 0,
                     (uint8_t)(sport >> 8), (uint8_t)sport,
                     SROCE_UDP_PORT >> 8, SROCE_UDP_PORT & 0xff,
                     (uint8_t)(udp >> 8), (uint8_t)udp, 0xff, 0xff};

    memcpy(h + 12, &src_ip, 4);
    memcpy(h + 16, &dst_ip, 4);
    memcpy(h + 28, bth, SROCE_BTH_BYTES);
    h[32] = 0xff; /* FECN, BECN, reserved */
    return sroce_crc32_table(LRH_CRC, h, sizeof(h));
}

uint32_t sroce_icrc_id(uint16_t ip_id, uint32_t src_ip, uint32_t dst_ip,
                       uint16_t sport, uint32_t udp_bytes,
                       const struct iovec *iov, unsigned iov_count)
{
    /* The BTH is whole in the first element. */
    const uint8_t *bth = iov[0].iov_base;
    uint32_t crc = icrc_headers(ip_id, src_ip, dst_ip, sport, udp_bytes, bth);

    crc = sroce_crc32(crc, bth + SROCE_BTH_BYTES,
                      iov[0].iov_len - SROCE_BTH_BYTES);
    for (unsigned i = 1; i < iov_count; ++i) {
        crc = sroce_crc32(crc, iov[i].iov_base, iov[i].iov_len);
    }
    return ~crc;
}

/*
 * CRCs are linear: the difference to the ICRC of identification 0 is what the
 * identification and the flags alone make of a register of zeros, taken on over
 * the zeros behind them.  Taken back over those, and over the three bytes
 * themselves, it is these three bytes, and nothing above them.
 */
int sroce_icrc_any_id(uint32_t icrc, uint32_t src_ip, uint32_t dst_ip,
                      uint16_t sport, uint32_t udp_bytes,
                      const struct iovec *iov, unsigned iov_count)
{
    uint32_t diff = icrc ^ sroce_icrc(src_ip, dst_ip, sport, udp_bytes, iov,
                                      iov_count);
    /* From the identification to the end: without the 4 bytes before it, the
     * UDP header instead of the ICRC. */
    uint32_t bytes = 16 + 8 + udp_bytes - SROCE_ICRC_BYTES;

    for (int i = 0; (diff != 0) && (bytes != 0); ++i, bytes >>= 1) {
        if (i == BACK_BITS) {
            return 0;
        }
        if (bytes & 1) {
            diff = mul_mod(diff, back[i]);
        }
    }
    return (diff & ~0x40ffffu) == 0;
}

uint32_t sroce_icrc(uint32_t src_ip, uint32_t dst_ip, uint16_t sport,
                    uint32_t udp_bytes, const struct iovec *iov,
                    unsigned iov_count)
{
    return sroce_icrc_id(0, src_ip, dst_ip, sport, udp_bytes, iov, iov_count);
}
