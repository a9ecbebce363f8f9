/* The parts of device discovery that other files use: the subnet of a GID, its
 * index, and the speed of a port. */
#ifndef MRAIL_RAIL_DISCOVERY_H
#define MRAIL_RAIL_DISCOVERY_H

#include "rail/params.h"

#include <infiniband/verbs.h>
#include <stdint.h>

/*
 * Computes the subnet of a GID, which can be compared between nodes, and its
 * host part. configured_bits: UCX_MRAIL_SUBNET_BITS, or -1 for automatic.
 * netmask_bits: prefix length of the network interface, or 0 if unknown.
 * Returns the prefix length that was used.
 */
unsigned mrail_discovery_subnet(const uint8_t gid[16], int configured_bits,
                                unsigned netmask_bits, uint64_t *subnet_p,
                                unsigned *host_p);

/*
 * Sets attr->nic_index, the index of a rail's NIC for the choice of source
 * ports: the configured one, or `host`, the host part of its address. rail:
 * number of the rail, from 0. Uses the device, port, GID and subnet_bits of
 * `attr`. Returns NULL, or the reason if there is no index: with port rules,
 * IPv6 addresses and addresses in point-to-point subnets have none.
 */
const char *mrail_discovery_nic_index(const mrail_config_t *config,
                                      unsigned rail, unsigned host,
                                      mrail_rail_attr_t *attr);

/* Returns the current index of the RoCEv2 GID in the port's table, or -1. */
int mrail_discovery_find_gid(struct ibv_context *ctx, unsigned port,
                             int table_length, const uint8_t gid[16]);

/* Returns the rate that the port reports now, in bits per second; 0:
 * unknown. */
uint64_t mrail_discovery_speed(struct ibv_context *ctx, unsigned port);

#endif
