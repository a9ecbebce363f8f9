/*
 * UDP source ports of lanes: which uplink of a leaf switch a lane takes.
 *
 * The switch cuts the RoCEv2 port range 0xC000-0xFFFF into as many segments
 * as it has uplinks and sends each segment through one of them; the hosts
 * choose ports so that the lanes of all NICs of a leaf fill the segments
 * equally.  Source: CTCCL (ICS '25), section 3.2, "DNLB".  Where the number
 * of uplinks does not divide 0x4000 the paper's (3) drifts out of step with
 * its (2); here the segment's index is reduced first, which is the same
 * wherever the paper's holds.
 *
 * Pure functions, any thread.  Arguments outside the stated ranges are a
 * programming error (asserted), except in mrail_ports_check(), which is meant
 * for what a user configured.
 */
#ifndef MRAIL_ORCHESTRATOR_PORTS_H
#define MRAIL_ORCHESTRATOR_PORTS_H

#include <stddef.h>
#include <stdint.h>

#define MRAIL_PORTS_FIRST 0xC000u
#define MRAIL_PORTS_LAST 0xFFFFu
#define MRAIL_PORTS_COUNT 0x4000u
#define MRAIL_PORTS_MAX_UPLINKS 256u

/* Ports per segment: floor(0x4000 / uplinks), formula (1).  uplinks: 1 to
 * MRAIL_PORTS_MAX_UPLINKS. */
unsigned mrail_ports_step(unsigned uplinks);

/* First and last port of segment n < uplinks, formula (2), both inclusive.
 * The last segment also takes the remainder, so that the segments tile the
 * range. */
void mrail_ports_segment(unsigned uplinks, unsigned n, uint16_t *first_p,
                         uint16_t *last_p);

/* The segment that `sport` (0xC000 to 0xFFFF) lies in. */
unsigned mrail_ports_segment_of(unsigned uplinks, uint16_t sport);

/*
 * Source port of lane `lane` (from 0) of the NIC with index `nic_index` among
 * the NICs of its leaf, each with `lanes` >= 1 lanes to a peer. It is the start
 * of segment (nic_index * lanes + lane) mod uplinks: [CTCCL] formula (3).
 */
uint16_t mrail_ports_lane(unsigned uplinks, unsigned nic_index, unsigned lanes,
                          unsigned lane);

/*
 * The same for three tiers: each leaf segment is cut again by the uplinks of
 * the spine, and consecutive rounds over the leaf's uplinks take consecutive
 * spine uplinks.  spine_uplinks: 1 to step; 1 gives mrail_ports_lane().
 */
uint16_t mrail_ports_lane_nested(unsigned uplinks, unsigned spine_uplinks,
                                 unsigned nic_index, unsigned lanes,
                                 unsigned lane);

/*
 * The rail and lane of a peer with only one lane (small messages, before the
 * first large transfer). Rails rotate fastest, then lanes. So consecutive
 * `rotation` values visit every (rail, lane) equally often, and single-lane
 * traffic uses all segments, too. Pass the sum of the two ends' indices for a
 * symmetric choice: both ends open the same path, and no receiver's rail is
 * favoured. rails, lanes >= 1.
 */
void mrail_ports_first_lane(uint32_t rotation, unsigned rails, unsigned lanes,
                            unsigned *rail_p, unsigned *lane_p);

/*
 * The flow label that makes a NIC use `sport` (0xC000 to 0xFFFF):
 * port = 0xC000 | ((label & 0x3FFF) ^ (label >> 14)), and label 0 means "hash
 * of the QP numbers", so port 0xC000 is reached by 0x4001.  Never returns 0.
 * Source: rdma_flow_label_to_udp_sport() in the kernel's ib_verbs.h.
 */
uint32_t mrail_ports_flow_label(uint16_t sport);

/* The port of a flow label (its lower 20 bits); 0 for label 0: the port is a
 * hash that only the NIC knows. */
uint16_t mrail_ports_from_flow_label(uint32_t label);

/*
 * Checks formula (4): the NICs of a leaf times their lanes must be at least
 * the number of uplinks, or uplinks stay idle.  0, or, with a sentence in
 * `why` (cut to why_size; may be NULL if 0):
 *   -EINVAL  uplinks, nics or lanes is out of range;
 *   -ERANGE  (4) is violated; ports are still valid, just not all used.
 */
int mrail_ports_check(unsigned uplinks, unsigned nics, unsigned lanes,
                      char *why, size_t why_size);

#endif
