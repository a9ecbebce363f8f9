/* Tests CRC-32 and the RoCEv2 ICRC. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <string.h>

#include "base/rng.h"
#include "softroce/core/crc32.h"
#include "softroce/core/icrc.h"
#include "softroce/core/sroce.h"

/* Computes the CRC bit by bit, by its definition. */
static uint32_t crc_bitwise(uint32_t crc, const uint8_t *p, size_t length)
{
    while (length-- > 0) {
        crc ^= *p++;
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc >> 1) ^ ((crc & 1) ? 0xedb88320u : 0);
        }
    }
    return crc;
}

static void test_check_value(void **state)
{
    /* The check value of CRC-32: "123456789" gives 0xCBF43926. */
    assert_int_equal(~sroce_crc32(~0u, "123456789", 9), 0xcbf43926u);
}

static void test_lengths_and_offsets(void **state)
{
    uint8_t buf[4200];
    mrail_rng_t rng;

    mrail_rng_init(&rng, 1);
    for (unsigned i = 0; i < sizeof(buf); ++i) {
        buf[i] = (uint8_t)mrail_rng_next(&rng);
    }
    for (unsigned n = 0; n < 1500; ++n) {
        size_t off = mrail_rng_below(&rng, 64);
        size_t length = (n < 600) ? n : mrail_rng_below(&rng, 4096);
        uint32_t seed = (uint32_t)mrail_rng_next(&rng);
        uint32_t want = crc_bitwise(seed, buf + off, length);

        assert_int_equal(sroce_crc32(seed, buf + off, length), want);
    }
}

static void test_powers(void **state)
{
    uint8_t zeros[512] = {0};

    for (uint32_t n = 1; n <= sizeof(zeros); ++n) {
        uint32_t on = sroce_crc32_x_pow(8 * n);

        assert_int_equal(sroce_crc32_mul(12345, on),
                         crc_bitwise(12345, zeros, n));
        /* Checks the inverse, x^-n. */
        assert_int_equal(
            sroce_crc32_mul(on, sroce_crc32_x_pow(UINT32_MAX - 8 * n)),
            1u << 31);
    }
}

static void test_incremental(void **state)
{
    uint8_t buf[3000];
    mrail_rng_t rng;

    mrail_rng_init(&rng, 2);
    for (unsigned i = 0; i < sizeof(buf); ++i) {
        buf[i] = (uint8_t)mrail_rng_next(&rng);
    }
    for (unsigned n = 0; n < 300; ++n) {
        size_t cut = mrail_rng_below(&rng, sizeof(buf));
        uint32_t crc = sroce_crc32(7, buf, cut);

        assert_int_equal(sroce_crc32(crc, buf + cut, sizeof(buf) - cut),
                         sroce_crc32(7, buf, sizeof(buf)));
    }
}

/* Builds the pseudo packet of the specification, bit by bit. */
static uint32_t icrc_by_definition(uint16_t ip_id, uint32_t src, uint32_t dst,
                                   uint16_t sport, const uint8_t *bth,
                                   uint32_t length)
{
    uint32_t udp = length + 4 + 8, ip = udp + 20;
    uint8_t p[5000];

    memset(p, 0xff, 8 + 28); /* LRH; TOS, TTL and checksums stay all ones */
    p[8] = 0x45;
    p[10] = (uint8_t)(ip >> 8);
    p[11] = (uint8_t)ip;
    p[12] = (uint8_t)(ip_id >> 8);
    p[13] = (uint8_t)ip_id;
    p[14] = 0x40;
    p[15] = 0;
    p[17] = 17;
    memcpy(p + 20, &src, 4);
    memcpy(p + 24, &dst, 4);
    p[28] = (uint8_t)(sport >> 8);
    p[29] = (uint8_t)sport;
    p[30] = 4791 >> 8;
    p[31] = 4791 & 0xff;
    p[32] = (uint8_t)(udp >> 8);
    p[33] = (uint8_t)udp;
    memcpy(p + 36, bth, length);
    p[36 + 4] = 0xff;
    return ~crc_bitwise(~0u, p, 36 + length);
}

static void test_icrc(void **state)
{
    uint32_t src = inet_addr("127.9.1.2"), dst = inet_addr("127.9.1.3");
    uint8_t pkt[4200];
    mrail_rng_t rng;

    mrail_rng_init(&rng, 3);
    for (unsigned i = 0; i < sizeof(pkt); ++i) {
        pkt[i] = (uint8_t)mrail_rng_next(&rng);
    }
    for (unsigned n = 0; n < 200; ++n) {
        uint32_t length = 12 + 4 * mrail_rng_below(&rng, 1030);
        uint32_t cut = 12 + mrail_rng_below(&rng, length - 11);
        uint16_t id = (uint16_t)mrail_rng_next(&rng);
        struct iovec iov[2] = {{pkt, cut}, {pkt + cut, length - cut}};
        uint32_t want = icrc_by_definition(id, src, dst, 50000, pkt, length);

        assert_int_equal(sroce_icrc_id(id, src, dst, 50000, length + 4, iov, 2),
                         want);
        assert_int_equal(sroce_icrc(src, dst, 50000, length + 4, iov, 2),
                         icrc_by_definition(0, src, dst, 50000, pkt, length));
    }
}

/* Checks a fixed vector. Packets captured from ConnectX NICs agree with this
 * code in all four bytes. */
static void test_icrc_vector(void **state)
{
    static const uint8_t pkt[] = {0x04, 0x40, 0xff, 0xff, 0x00, 0x00, 0x00,
                                  0x11, 0x80, 0x12, 0x34, 0x56, 0xde, 0xad,
                                  0xbe, 0xef, 0x00, 0x01, 0x02, 0x03};
    struct iovec iov = {(void *)(uintptr_t)pkt, sizeof(pkt)};

    assert_int_equal(sroce_icrc(inet_addr("10.0.0.1"), inet_addr("10.0.0.2"),
                                0xc000, sizeof(pkt) + 4, &iov, 1),
                     0x17714474u);
}

/* The IP identification of packets from external hosts is unknown. */
static void test_any_id(void **state)
{
    uint32_t src = inet_addr("10.9.1.2"), dst = inet_addr("10.9.1.3");
    unsigned passed = 0;
    uint8_t pkt[4500];
    mrail_rng_t rng;

    mrail_rng_init(&rng, 4);
    for (unsigned i = 0; i < sizeof(pkt); ++i) {
        pkt[i] = (uint8_t)mrail_rng_next(&rng);
    }
    for (unsigned n = 0; n < 20000; ++n) {
        uint32_t length = 12 + 4 * mrail_rng_below(&rng, (n < 100) ? 1100 : 40);
        uint16_t id = (n < 2) ? 0 : (uint16_t)mrail_rng_next(&rng);
        uint32_t at = 5 + mrail_rng_below(&rng, length - 5);
        struct iovec iov = {pkt, length};
        uint32_t icrc = icrc_by_definition(id, src, dst, 50000, pkt, length);

        assert_true(
            sroce_icrc_any_id(icrc, src, dst, 50000, length + 4, &iov, 1));
        /* The ICRC covers the source port and every byte except the masked
         * one. */
        assert_false(
            sroce_icrc_any_id(icrc, src, dst, 50001, length + 4, &iov, 1));
        pkt[at] ^= (uint8_t)(1 + mrail_rng_below(&rng, 255));
        passed += sroce_icrc_any_id(icrc, src, dst, 50000, length + 4, &iov, 1);
    }
    assert_in_range(passed, 0, 5); /* about 2^-15 of the packets */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check_value),
        cmocka_unit_test(test_lengths_and_offsets),
        cmocka_unit_test(test_powers),
        cmocka_unit_test(test_incremental),
        cmocka_unit_test(test_icrc),
        cmocka_unit_test(test_icrc_vector),
        cmocka_unit_test(test_any_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
