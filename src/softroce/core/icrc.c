/*
 * Computes the RoCEv2 invariant CRC.
 *
 * Source: IBA 7.8.1 and annex A17.3.3.
 */
#include "config.h"

#include "softroce/core/core.h"
#include "softroce/core/crc32.h"
#include "softroce/core/icrc.h"

#include <arpa/inet.h>

/* CRC of the masked local route header (eight 0xff bytes), starting from ~0. */
#define LRH_CRC 0xdebb20e3u
/* x^(-8 * 2^i) mod P. Multiplying a CRC by it undoes 2^i zero bytes. */
#define BACK_BITS 13
static uint32_t back[BACK_BITS];

__attribute__((constructor)) static void icrc_init(void)
{
    for (int i = 0; i < BACK_BITS; ++i) {
        back[i] = sroce_crc32_x_pow(UINT32_MAX - (8u << i));
    }
}

/* Computes the CRC of the IPv4, UDP and BTH headers as the ICRC covers them,
 * with mutable fields all ones. */
static uint32_t icrc_headers(uint16_t ip_id, uint32_t src_ip, uint32_t dst_ip,
                             uint16_t sport, uint32_t udp_bytes,
                             const uint8_t *bth)
{
    uint32_t udp = udp_bytes + 8, total = udp + 20;
    uint8_t h[40] = {0x45,
                     0xff,
                     (uint8_t)(total >> 8),
                     (uint8_t)total,
                     (uint8_t)(ip_id >> 8),
                     (uint8_t)ip_id,
                     0x40,
                     0, /* DF */
                     0xff,
                     17,
                     0xff,
                     0xff, /* TTL, UDP, checksum */
                     0,
                     0,
                     0,
                     0,
                     0,
                     0,
                     0,
                     0,
                     (uint8_t)(sport >> 8),
                     (uint8_t)sport,
                     SROCE_UDP_PORT >> 8,
                     SROCE_UDP_PORT & 0xff,
                     (uint8_t)(udp >> 8),
                     (uint8_t)udp,
                     0xff,
                     0xff};

    memcpy(h + 12, &src_ip, 4);
    memcpy(h + 16, &dst_ip, 4);
    memcpy(h + 28, bth, SROCE_BTH_BYTES);
    h[32] = 0xff; /* FECN, BECN, reserved */
    return sroce_crc32(LRH_CRC, h, sizeof(h));
}

uint32_t sroce_icrc_id(uint16_t ip_id, uint32_t src_ip, uint32_t dst_ip,
                       uint16_t sport, uint32_t udp_bytes,
                       const struct iovec *iov, unsigned iov_count)
{
    /* The first iovec contains the whole BTH. */
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
 * A CRC is linear. Packets that differ only in the identification and flags
 * differ in three bytes. The difference of their ICRCs is the CRC, from
 * register 0, of the difference of those bytes followed by zeros. Undoing the
 * zeros and the three bytes recovers those bytes. Any other remainder means
 * that the packet is damaged.
 */
int sroce_icrc_any_id(uint32_t icrc, uint32_t src_ip, uint32_t dst_ip,
                      uint16_t sport, uint32_t udp_bytes,
                      const struct iovec *iov, unsigned iov_count)
{
    uint32_t diff =
        icrc ^ sroce_icrc(src_ip, dst_ip, sport, udp_bytes, iov, iov_count);
    /* Bytes from the identification to the end, without the ICRC: 16 of the
     * IPv4 header, 8 of the UDP header, and the UDP payload. */
    uint32_t bytes = 16 + 8 + udp_bytes - SROCE_ICRC_BYTES;

    for (int i = 0; (diff != 0) && (bytes != 0); ++i, bytes >>= 1) {
        if (i == BACK_BITS) {
            return 0;
        }
        if (bytes & 1) {
            diff = sroce_crc32_mul(diff, back[i]);
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
