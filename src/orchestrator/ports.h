/*
 * UDP source ports of lanes. The source port determines which uplink of a leaf
 * switch a lane takes.
 *
 * The switch divides the RoCEv2 port range 0xC000-0xFFFF into one segment per
 * uplink. Hosts choose ports so that the lanes of all NICs of a leaf fill the
 * segments equally. Source: [CTCCL] 3.2, "DNLB". Formulas (2) and (3) of the
 * paper disagree where the number of uplinks does not divide 0x4000. This file
 * reduces the segment index first, which gives the same ports wherever (3)
 * holds.
 *
 * The functions have no state, and any thread may call them. Arguments outside
 * the stated ranges are programming errors, caught by assertions. Only
 * mrail_ports_check() accepts unchecked values, from the user's configuration.
 */
#ifndef MRAIL_ORCHESTRATOR_PORTS_H
#define MRAIL_ORCHESTRATOR_PORTS_H

#include <stddef.h>
#include <stdint.h>

#define MRAIL_PORTS_FIRST 0xC000u
#define MRAIL_PORTS_LAST 0xFFFFu
#define MRAIL_PORTS_COUNT 0x4000u
#define MRAIL_PORTS_MAX_UPLINKS 256u

/* Returns the number of ports per segment, floor(0x4000 / uplinks), by formula
 * (1). uplinks: 1 to MRAIL_PORTS_MAX_UPLINKS. */
unsigned mrail_ports_step(unsigned uplinks);

/* Computes the first and last port of segment n < uplinks, by formula (2). The
 * last segment includes the remainder, so the segments cover the range. */
void mrail_ports_segment(unsigned uplinks, unsigned n, uint16_t *first_p,
                         uint16_t *last_p);

/* Returns the segment of `sport` (0xC000 to 0xFFFF). */
unsigned mrail_ports_segment_of(unsigned uplinks, uint16_t sport);

/*
 * Returns the source port of a NIC's lane, by formula (3): the start of segment
 * (nic_index * lanes + lane) mod uplinks. `nic_index` numbers the NICs of the
 * leaf, and each NIC has `lanes` >= 1 lanes to a peer, numbered from 0.
 */
uint16_t mrail_ports_lane(unsigned uplinks, unsigned nic_index, unsigned lanes,
                          unsigned lane);

/*
 * Returns the source port of a lane in a fabric of three tiers, where the
 * uplinks of the spine divide each leaf segment again. Each cycle over the
 * leaf's uplinks uses the next uplink of the spine. spine_uplinks: 1 to
 * mrail_ports_step(); 1 gives mrail_ports_lane().
 */
uint16_t mrail_ports_lane_nested(unsigned uplinks, unsigned spine_uplinks,
                                 unsigned nic_index, unsigned lanes,
                                 unsigned lane);

/*
 * The inverse function: computes the segment of `sport` (0xC000 to 0xFFFF) on
 * the leaf and, within the leaf's segment, on the spine. The last segment of
 * each tier includes the remainder, as in the rules of the switches.
 */
void mrail_ports_segment_of_nested(unsigned uplinks, unsigned spine_uplinks,
                                   uint16_t sport, unsigned *leaf_p,
                                   unsigned *spine_p);

/* Computes the first and last port of the spine's segment `spine` within the
 * leaf's segment `leaf`. */
void mrail_ports_segment_nested(unsigned uplinks, unsigned spine_uplinks,
                                unsigned leaf, unsigned spine,
                                uint16_t *first_p, uint16_t *last_p);

/*
 * Returns the default number of lanes of a NIC to a peer: enough for a single
 * NIC to load all uplinks, but at most MRAIL_PORTS_AUTO_LANES. With more
 * uplinks than that, several NICs together load them all.
 */
#define MRAIL_PORTS_AUTO_LANES 8u
unsigned mrail_ports_auto_lanes(unsigned uplinks, unsigned spine_uplinks);

/*
 * Returns the lane number that connection `connection` < lanes between two NICs
 * has at its local end. The remote end calls this with the indices exchanged.
 * Each end sends from the ports of its own NIC, formula (3). The lanes of a
 * leaf therefore fill its uplinks for any destinations. Wherever both NICs have
 * a lane on the same path, both ends of the connection use it, so that data and
 * acknowledgements depend on one path instead of two.
 *
 * Until the first large transfer there is only connection 0. Its number depends
 * on the mean of the two indices, and on whether their distance is odd.
 * Single-lane traffic is therefore spread equally when NICs with consecutive
 * indices send to NICs at the same distance. It is spread almost equally when
 * as many NICs as uplinks send to all NICs.
 *
 * paths: uplinks times spine uplinks; lanes: 1 to MRAIL_PORTS_MAX_LANES. The
 * result is below `lanes` and differs for each connection.
 */
#define MRAIL_PORTS_MAX_LANES 64u
unsigned mrail_ports_own_lane(unsigned paths, unsigned lanes,
                              uint32_t local_nic, uint32_t remote_nic,
                              unsigned connection);

/*
 * Returns the flow label that makes a NIC use `sport` (0xC000 to 0xFFFF). The
 * NIC computes port = 0xC000 | ((label & 0x3FFF) ^ (label >> 14)). Label 0
 * means "hash of the QP numbers", so it is never returned, and port 0xC000 has
 * label 0x4001. Source: rdma_flow_label_to_udp_sport() in the kernel's
 * ib_verbs.h.
 */
uint32_t mrail_ports_flow_label(uint16_t sport);

/* Returns the port for a flow label (lower 20 bits), or 0 for label 0, because
 * only the NIC knows that hash. */
uint16_t mrail_ports_from_flow_label(uint32_t label);

/*
 * Checks formula (4): the NICs of a leaf times lanes must be at least the
 * number of uplinks. Below cores, the NICs of a pod times lanes must be at
 * least the uplinks of a leaf times the uplinks of a spine. Otherwise some
 * uplinks stay idle. Returns 0, or returns an error and writes a message to
 * `reason`, truncated to reason_size. `reason` may be NULL if reason_size is 0.
 *
 *   -EINVAL  uplinks, spine_uplinks, nics or lanes is out of range
 *   -ERANGE  (4) is violated; ports are valid, but some uplinks are unused
 */
int mrail_ports_check(unsigned uplinks, unsigned spine_uplinks, unsigned nics,
                      unsigned lanes, char *reason, size_t reason_size);

#endif
