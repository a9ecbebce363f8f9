/*
 * UDP source ports of lanes. The source port decides which uplink of a leaf
 * switch a lane takes.
 *
 * The switch divides the RoCEv2 port range 0xC000-0xFFFF into one segment per
 * uplink. Hosts choose ports so that the lanes of all NICs of a leaf fill the
 * segments equally. Source: [CTCCL] 3.2, "DNLB". Formulas (2) and (3) of the
 * paper disagree where the number of uplinks does not divide 0x4000. This file
 * reduces the index of the segment first, which gives the same ports wherever
 * (3) holds.
 *
 * All functions are pure, for any thread. Arguments outside the stated ranges
 * are programming errors and asserted. Only mrail_ports_check() takes unchecked
 * values, from the user's configuration.
 */
#ifndef MRAIL_ORCHESTRATOR_PORTS_H
#define MRAIL_ORCHESTRATOR_PORTS_H

#include <stddef.h>
#include <stdint.h>

#define MRAIL_PORTS_FIRST 0xC000u
#define MRAIL_PORTS_LAST 0xFFFFu
#define MRAIL_PORTS_COUNT 0x4000u
#define MRAIL_PORTS_MAX_UPLINKS 256u

/* Ports per segment: floor(0x4000 / uplinks), formula (1). uplinks: 1 to
 * MRAIL_PORTS_MAX_UPLINKS. */
unsigned mrail_ports_step(unsigned uplinks);

/* First and last port of segment n < uplinks, both inclusive, formula (2). The
 * last segment includes the remainder, so the segments cover the range. */
void mrail_ports_segment(unsigned uplinks, unsigned n, uint16_t *first_p,
                         uint16_t *last_p);

/* Segment of `sport` (0xC000 to 0xFFFF). */
unsigned mrail_ports_segment_of(unsigned uplinks, uint16_t sport);

/*
 * Source port of lane `lane` (from 0) of a NIC, formula (3): the start of
 * segment (nic_index * lanes + lane) mod uplinks. `nic_index` counts the NICs
 * of the leaf. Each NIC has `lanes` >= 1 lanes to a peer.
 */
uint16_t mrail_ports_lane(unsigned uplinks, unsigned nic_index, unsigned lanes,
                          unsigned lane);

/*
 * Source port of a lane in a fabric of three tiers. The uplinks of the spine
 * divide each leaf segment again. Each cycle over the uplinks of the leaf takes
 * the next uplink of the spine. spine_uplinks: 1 to mrail_ports_step(); 1 gives
 * mrail_ports_lane().
 */
uint16_t mrail_ports_lane_nested(unsigned uplinks, unsigned spine_uplinks,
                                 unsigned nic_index, unsigned lanes,
                                 unsigned lane);

/*
 * The inverse: segments of `sport` (0xC000 to 0xFFFF) on the leaf and, inside the
 * leaf's segment, on the spine. The last segment of each tier includes the
 * remainder, as the rules of the switches do.
 */
void mrail_ports_segment_of_nested(unsigned uplinks, unsigned spine_uplinks,
                                   uint16_t sport, unsigned *leaf_p,
                                   unsigned *spine_p);

/* First and last port of segment `spine` of the spine inside segment `leaf`. */
void mrail_ports_segment_nested(unsigned uplinks, unsigned spine_uplinks,
                                unsigned leaf, unsigned spine,
                                uint16_t *first_p, uint16_t *last_p);

/*
 * The lane number that connection `connection` < lanes between two NICs has at
 * its local end; the remote end calls it with the indices exchanged. Each end
 * sends from the ports of its own NIC, formula (3), so the lanes of a leaf fill
 * its uplinks whatever their destinations. The two numbers of a connection take
 * the same path wherever both NICs have a lane there: then data and
 * acknowledgements depend on one path, not on two.
 *
 * Connection 0 is the only one until the first large transfer. Its number
 * depends on the mean of the two indices. So NICs with consecutive indices that
 * send to NICs at one distance, or to all, spread single-lane traffic equally.
 *
 * paths: uplinks times spine uplinks; lanes: 1 to MRAIL_PORTS_MAX_LANES. The
 * result is below `lanes`, and different for each connection.
 */
#define MRAIL_PORTS_MAX_LANES 64u
unsigned mrail_ports_own_lane(unsigned paths, unsigned lanes,
                              uint32_t local_nic, uint32_t remote_nic,
                              unsigned connection);

/*
 * Flow label that makes a NIC use `sport` (0xC000 to 0xFFFF). The NIC computes
 * port = 0xC000 | ((label & 0x3FFF) ^ (label >> 14)). Label 0 means "hash of
 * the QP numbers", so port 0xC000 has label 0x4001. Never returns 0. Source:
 * rdma_flow_label_to_udp_sport() in the kernel's ib_verbs.h.
 */
uint32_t mrail_ports_flow_label(uint16_t sport);

/* Port of a flow label (its lower 20 bits). 0 for label 0, because only the NIC
 * knows that hash. */
uint16_t mrail_ports_from_flow_label(uint32_t label);

/*
 * Checks formula (4): NICs of a leaf times lanes must be at least the number of
 * uplinks. Below cores, NICs of a pod times lanes must be at least the uplinks of
 * a leaf times those of a spine. Otherwise uplinks stay idle. Returns 0, or writes
 * a sentence to `why` and returns an error. The sentence is cut to why_size; `why`
 * may be NULL if why_size is 0.
 *
 *   -EINVAL  uplinks, spine_uplinks, nics or lanes is out of range
 *   -ERANGE  (4) is violated; ports are valid, but some uplinks are unused
 */
int mrail_ports_check(unsigned uplinks, unsigned spine_uplinks, unsigned nics,
                      unsigned lanes, char *why, size_t why_size);

#endif
