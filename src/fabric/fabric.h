/*
 * A fabric of leaf, spine and core switches with the hosts below them: the
 * description that `mrail lab` builds and that `mrail simulate` uses.
 *
 * A fabric is a folded Clos network. Each link joins a node to one in the tier
 * above, so a packet goes up, turns once, and goes down. The text format is
 * described in mrail-fabric(5).
 *
 * Pure: text in, a description out. A fabric does not change once it has been
 * parsed, and any thread may read it.
 */
#ifndef MRAIL_FABRIC_FABRIC_H
#define MRAIL_FABRIC_FABRIC_H

#include <stddef.h>
#include <stdint.h>

#define MRAIL_FABRIC_NONE UINT32_MAX
#define MRAIL_FABRIC_MAX_NODES 8192
#define MRAIL_FABRIC_MAX_LINKS 131072
#define MRAIL_FABRIC_MAX_NAME 31 /* bytes of a node's name */
#define MRAIL_FABRIC_MAX_TEXT (4 << 20)
#define MRAIL_FABRIC_MAX_UPLINKS 256 /* of a switch: MRAIL_PORTS_MAX_UPLINKS */
#define MRAIL_FABRIC_MAX_NICS 250    /* of a leaf: its subnet is a /24 */

typedef enum mrail_fabric_tier {
    MRAIL_FABRIC_HOST,
    MRAIL_FABRIC_LEAF,
    MRAIL_FABRIC_SPINE,
    MRAIL_FABRIC_CORE,
    MRAIL_FABRIC_NUM_TIERS
} mrail_fabric_tier_t;

typedef struct mrail_fabric_node {
    char name[MRAIL_FABRIC_MAX_NAME + 1];
    mrail_fabric_tier_t tier;
    uint32_t
        place; /* among the nodes of its tier, from 0, in the file's order */
    /* Links to the tier above and to the tier below, in file order. Uplink n of
     * a switch, up[n], carries port segment n. The r-th link of a host is rail
     * r. */
    uint32_t num_up, num_down;
    uint32_t *up, *down;
} mrail_fabric_node_t;

typedef struct mrail_fabric_link {
    uint32_t lower, upper;           /* nodes; upper is one tier above lower */
    uint32_t lower_port, upper_port; /* places in lower's up, upper's down */
    uint64_t bytes_per_s;            /* of each direction */
    /* For a link to a host: the NIC's IPv4 address, in host byte order. It is
     * in the /24 subnet of its leaf, which itself has .1. Otherwise 0. */
    uint32_t addr;
    /* ... and the NIC's index for the choice of source ports. It is the host
     * part of the address or, below cores, the NIC's place in the pod, because
     * the leaves of a pod share the spines. Jobs there set
     * UCX_MRAIL_NIC_INDEX. */
    uint32_t nic_index;
} mrail_fabric_link_t;

typedef struct mrail_fabric {
    uint32_t num_nodes, num_links;
    mrail_fabric_node_t *nodes; /* in the file's order */
    mrail_fabric_link_t *links;
    uint32_t num_of[MRAIL_FABRIC_NUM_TIERS];
    uint32_t *of[MRAIL_FABRIC_NUM_TIERS]; /* nodes of a tier, by place */
} mrail_fabric_t;

/* "host", "leaf", "spine" or "core". */
const char *mrail_fabric_tier_name(mrail_fabric_tier_t tier);

/*
 * Parses `length` bytes of text; `name` is the file's, for messages. Returns 0,
 * and the caller destroys the fabric; or -EINVAL or -ENOMEM with "NAME:LINE:
 * sentence" in `why` and *fabric_p unchanged.
 */
int mrail_fabric_parse(const char *name, const char *text, size_t length,
                       mrail_fabric_t **fabric_p, char *why, size_t why_size);

/* Does nothing if `fabric` is NULL. */
void mrail_fabric_destroy(mrail_fabric_t *fabric);

/* Returns the node of that name, or MRAIL_FABRIC_NONE. */
uint32_t mrail_fabric_node_find(const mrail_fabric_t *fabric, const char *name);

/* Returns the host link with that NIC address, or MRAIL_FABRIC_NONE. */
uint32_t mrail_fabric_addr_find(const mrail_fabric_t *fabric, uint32_t addr);

/* Number of segments of the leaf of a host link, and of the spines above it. 1:
 * the leaf has no uplinks, or the spines have none. */
void mrail_fabric_segments(const mrail_fabric_t *fabric, uint32_t link,
                           unsigned *uplinks_p, unsigned *spine_uplinks_p);

/* Returns 0 if the NICs of each leaf fill its uplinks with `lanes` lanes per
 * peer, and the NICs of each pod fill the uplinks of its spines. For `lanes` 0
 * each leaf has mrail_ports_auto_lanes(). Otherwise
 * returns -ERANGE, and `why` has a sentence about the first leaf where they do
 * not. */
int mrail_fabric_check_lanes(const mrail_fabric_t *fabric, unsigned lanes,
                             char *why, size_t why_size);

/* Returns 1 if `node` is `leaf`, or reaches it by only going down. */
int mrail_fabric_is_above(const mrail_fabric_t *fabric, uint32_t node,
                          uint32_t leaf);

#endif
