#include "config.h"
#include "orchestrator/ports.h"

#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#define LABEL_MASK 0xFFFFFu         /* a flow label has 20 bits */
#define LABEL_OF_FIRST_PORT 0x4001u /* smallest label of port 0xC000 */

unsigned mrail_ports_step(unsigned uplinks)
{
    assert(uplinks >= 1 && uplinks <= MRAIL_PORTS_MAX_UPLINKS);
    return MRAIL_PORTS_COUNT / uplinks;
}

void mrail_ports_segment(unsigned uplinks, unsigned n, uint16_t *first_p,
                         uint16_t *last_p)
{
    unsigned step = mrail_ports_step(uplinks);

    assert(n < uplinks);
    *first_p = (uint16_t)(MRAIL_PORTS_FIRST + n * step);
    *last_p = (n == uplinks - 1)
                  ? MRAIL_PORTS_LAST
                  : (uint16_t)(MRAIL_PORTS_FIRST + (n + 1) * step - 1);
}

unsigned mrail_ports_segment_of(unsigned uplinks, uint16_t sport)
{
    unsigned n;

    assert(sport >= MRAIL_PORTS_FIRST);
    n = (sport - MRAIL_PORTS_FIRST) / mrail_ports_step(uplinks);
    return MRAIL_MIN(n, uplinks - 1);
}

unsigned mrail_ports_auto_lanes(unsigned uplinks, unsigned spine_uplinks)
{
    assert(uplinks >= 1 && spine_uplinks >= 1);
    if (uplinks >= MRAIL_PORTS_AUTO_LANES ||
        spine_uplinks >= MRAIL_PORTS_AUTO_LANES) {
        return MRAIL_PORTS_AUTO_LANES;
    }
    return MRAIL_MIN(uplinks * spine_uplinks, MRAIL_PORTS_AUTO_LANES);
}

uint16_t mrail_ports_lane(unsigned uplinks, unsigned nic_index, unsigned lanes,
                          unsigned lane)
{
    return mrail_ports_lane_nested(uplinks, 1, nic_index, lanes, lane);
}

uint16_t mrail_ports_lane_nested(unsigned uplinks, unsigned spine_uplinks,
                                 unsigned nic_index, unsigned lanes,
                                 unsigned lane)
{
    unsigned step = mrail_ports_step(uplinks);
    /* nic_index may use all 32 bits, so the product needs 64. */
    uint64_t flow = (uint64_t)nic_index * lanes + lane;
    unsigned leaf = (unsigned)(flow % uplinks);
    unsigned spine;

    assert(lanes >= 1);
    assert(spine_uplinks >= 1 && spine_uplinks <= step);
    spine = (unsigned)((flow / uplinks) % spine_uplinks);
    return (uint16_t)(MRAIL_PORTS_FIRST + leaf * step +
                      spine * (step / spine_uplinks));
}

void mrail_ports_segment_nested(unsigned uplinks, unsigned spine_uplinks,
                                unsigned leaf, unsigned spine,
                                uint16_t *first_p, uint16_t *last_p)
{
    unsigned step = mrail_ports_step(uplinks) / spine_uplinks;
    uint16_t first, last;

    assert(spine_uplinks >= 1 && spine_uplinks <= mrail_ports_step(uplinks));
    assert(spine < spine_uplinks);
    mrail_ports_segment(uplinks, leaf, &first, &last);
    *first_p = (uint16_t)(first + spine * step);
    *last_p =
        (spine == spine_uplinks - 1) ? last : (uint16_t)(*first_p + step - 1);
}

void mrail_ports_segment_of_nested(unsigned uplinks, unsigned spine_uplinks,
                                   uint16_t sport, unsigned *leaf_p,
                                   unsigned *spine_p)
{
    unsigned step = mrail_ports_step(uplinks) / spine_uplinks;
    unsigned leaf = mrail_ports_segment_of(uplinks, sport);
    uint16_t first, last;

    assert(spine_uplinks >= 1 && spine_uplinks <= mrail_ports_step(uplinks));
    mrail_ports_segment(uplinks, leaf, &first, &last);
    *leaf_p = leaf;
    *spine_p = MRAIL_MIN((sport - first) / step, spine_uplinks - 1);
}

/* Finds the lane of NIC `to` that takes the same path as lane `lane` of NIC
 * `from`. If several lanes share a path, the n-th lane matches the n-th.
 * Returns a value of at least `lanes` if there is no such lane. */
static unsigned same_path_lane(unsigned paths, unsigned lanes, uint32_t from,
                               uint32_t to, unsigned lane)
{
    uint64_t path = (uint64_t)from * lanes + lane;
    uint64_t first = (uint64_t)to * lanes % paths;

    return (unsigned)((path % paths + paths - first) % paths +
                      lane / paths * paths);
}

/* Like same_path_lane(), but lanes without a match on their path are matched in
 * order. */
static unsigned matching_lane(unsigned paths, unsigned lanes, uint32_t from,
                              uint32_t to, unsigned lane)
{
    unsigned match = same_path_lane(paths, lanes, from, to, lane);
    unsigned rank = 0;

    if (match < lanes) {
        return match;
    }
    for (unsigned i = 0; i < lane; ++i) {
        rank += (same_path_lane(paths, lanes, from, to, i) >= lanes);
    }
    for (match = 0;; ++match) {
        assert(match < lanes);
        if ((same_path_lane(paths, lanes, to, from, match) >= lanes) &&
            (rank-- == 0)) {
            return match;
        }
    }
}

static unsigned common_divisor(unsigned a, unsigned b)
{
    while (b != 0) {
        unsigned rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

unsigned mrail_ports_own_lane(unsigned paths, unsigned lanes,
                              uint32_t local_nic, uint32_t remote_nic,
                              unsigned connection)
{
    uint32_t low = MRAIL_MIN(local_nic, remote_nic);
    uint32_t high = MRAIL_MAX(local_nic, remote_nic);
    uint32_t middle = low + (high - low) / 2;
    /* This many consecutive NICs start at different paths. After that, the
     * starts repeat, and the rotation advances. */
    unsigned starts = paths / common_divisor(lanes, paths);
    /* Over the peers of a NIC, the mean runs through only half of the range.
     * Odd distances therefore take the other half. */
    unsigned half = ((high - low) % 2) * (lanes / 2);
    unsigned lane;

    assert(lanes >= 1 && lanes <= MRAIL_PORTS_MAX_LANES);
    assert(paths >= 1 && connection < lanes);
    lane = (connection + middle / starts % lanes + half) % lanes;
    return (local_nic == low) ? lane
                              : matching_lane(paths, lanes, low, high, lane);
}

uint32_t mrail_ports_flow_label(uint16_t sport)
{
    uint32_t low = sport & (MRAIL_PORTS_COUNT - 1);

    assert(sport >= MRAIL_PORTS_FIRST);
    return (low != 0) ? low : LABEL_OF_FIRST_PORT;
}

uint16_t mrail_ports_from_flow_label(uint32_t label)
{
    label &= LABEL_MASK;
    if (label == 0) {
        return 0;
    }
    return (uint16_t)(MRAIL_PORTS_FIRST |
                      ((label & (MRAIL_PORTS_COUNT - 1)) ^ (label >> 14)));
}

int mrail_ports_check(unsigned uplinks, unsigned spine_uplinks, unsigned nics,
                      unsigned lanes, char *reason, size_t reason_size)
{
    uint64_t flows = (uint64_t)nics * lanes, paths;
    int is_pod = spine_uplinks > 1;
    char what[64];

    if (uplinks < 1 || uplinks > MRAIL_PORTS_MAX_UPLINKS) {
        snprintf(reason, reason_size,
                 "%u uplinks: a leaf can have 1 to %u uplinks", uplinks,
                 MRAIL_PORTS_MAX_UPLINKS);
        return -EINVAL;
    }
    if (spine_uplinks < 1 || spine_uplinks > mrail_ports_step(uplinks)) {
        snprintf(
            reason, reason_size,
            "%u spine uplinks: with %u leaf uplinks, a spine can have 1 to %u",
            spine_uplinks, uplinks, mrail_ports_step(uplinks));
        return -EINVAL;
    }
    if (flows == 0) {
        snprintf(reason, reason_size,
                 "%u NICs with %u lanes: both numbers must be at least 1", nics,
                 lanes);
        return -EINVAL;
    }
    paths = (uint64_t)uplinks * spine_uplinks;
    if (flows >= paths) {
        return 0;
    }
    snprintf(what, sizeof(what), is_pod ? "%u x %u paths" : "%u uplinks",
             uplinks, spine_uplinks);
    snprintf(reason, reason_size,
             "%u NICs x %u lanes = %llu source ports per %s, fewer than its "
             "%s: %llu %s stay idle; %llu lanes per rail would use all",
             nics, lanes, (unsigned long long)flows, is_pod ? "pod" : "leaf",
             what, (unsigned long long)(paths - flows),
             is_pod ? "paths" : "uplinks",
             (unsigned long long)MRAIL_DIV_ROUND_UP(paths, nics));
    return -ERANGE;
}
