/* Internals of the ICRC for its tests. The interface is in sroce.h. */
#ifndef SROCE_CORE_ICRC_H
#define SROCE_CORE_ICRC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* sroce_icrc() with another IPv4 identification (DF set as well). */
uint32_t sroce_icrc_id(uint16_t ip_id, uint32_t src_ip, uint32_t dst_ip,
                       uint16_t sport, uint32_t udp_bytes,
                       const struct iovec *iov, unsigned iov_count);
/* 1: `icrc` is that of the packet with some identification, DF set or not.
 * Other arguments as of sroce_icrc().  Of damaged packets one in 2^15 passes. */
int sroce_icrc_any_id(uint32_t icrc, uint32_t src_ip, uint32_t dst_ip,
                      uint16_t sport, uint32_t udp_bytes,
                      const struct iovec *iov, unsigned iov_count);

#endif
