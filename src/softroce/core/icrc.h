/* ICRC internals, for the tests. The public function is in sroce.h. */
#ifndef SROCE_CORE_ICRC_H
#define SROCE_CORE_ICRC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Like sroce_icrc(), but for a given IPv4 identification, with or without
 * DF. */
uint32_t sroce_icrc_id(uint16_t ip_id, uint32_t src_ip, uint32_t dst_ip,
                       uint16_t sport, uint32_t udp_bytes,
                       const struct iovec *iov, unsigned iov_count);
/* Returns 1 if `icrc` is correct for any identification, with or without DF.
 * The other arguments are as for sroce_icrc(). One damaged packet in 2^15
 * passes. */
int sroce_icrc_any_id(uint32_t icrc, uint32_t src_ip, uint32_t dst_ip,
                      uint16_t sport, uint32_t udp_bytes,
                      const struct iovec *iov, unsigned iov_count);

#endif
