/*
 * A fabric of leaf, spine and core switches with the hosts below it: the
 * description that `mrail lab` builds and `mrail simulate` computes with.
 *
 * A fabric is a folded Clos network: each link joins a node with one of the tier
 * above, so a packet goes up, turns once, and goes down. mrail-fabric(5) has
 * the text format.
 *
 * Pure: text in, a description out. A fabric does not change after it was parsed;
 * any thread may read it.
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
    /* Links to the tier above and below, in the file's order. Uplink n of a
     * switch, up[n], takes port segment n. The r-th link of a host is rail r. */
    uint32_t num_up, num_down;
    uint32_t *up, *down;
} mrail_fabric_node_t;

typedef struct mrail_fabric_link {
    uint32_t lower, upper;           /* nodes; upper is one tier above lower */
    uint32_t lower_port, upper_port; /* places in lower's up, upper's down */
    uint64_t bytes_per_s;            /* of each direction */
    /* Of a link to a host: IPv4 address of the NIC, in host byte order. It is in
     * the /24 subnet of its leaf, whose address .1 the leaf has. Else 0. */
    uint32_t addr;
    /* ... and its index for the choice of source ports: the host part of the
     * address. Below cores it is its place in the pod, because the leaves of a pod
     * share the spines; jobs there set UCX_MRAIL_NIC_INDEX. */
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
 * Parses `length` bytes of text; `name` is the file's, for messages. The caller
 * destroys the fabric. Returns 0; -EINVAL or -ENOMEM with "NAME:LINE: sentence"
 * in `why`, and *fabric_p unchanged.
 */
int mrail_fabric_parse(const char *name, const char *text, size_t length,
                       mrail_fabric_t **fabric_p, char *why, size_t why_size);

/* NULL is not a fabric. */
void mrail_fabric_destroy(mrail_fabric_t *fabric);

/* The node of that name, or MRAIL_FABRIC_NONE. */
uint32_t mrail_fabric_node_find(const mrail_fabric_t *fabric, const char *name);

/* The host link with that NIC address, or MRAIL_FABRIC_NONE. */
uint32_t mrail_fabric_addr_find(const mrail_fabric_t *fabric, uint32_t addr);

/* Segments of the leaf of a host link, and of the spines above it; 1: it has no
 * uplinks, or they have none. */
void mrail_fabric_segments(const mrail_fabric_t *fabric, uint32_t link,
                           unsigned *uplinks_p, unsigned *spine_uplinks_p);

/* 0 if the NICs of each leaf fill its uplinks with this many lanes per peer, and
 * those of a pod the uplinks of its spines. Else -ERANGE, and `why` has a sentence
 * about the first leaf whose uplinks they do not fill. */
int mrail_fabric_check_lanes(const mrail_fabric_t *fabric, unsigned lanes,
                             char *why, size_t why_size);

/* 1 if `node` is `leaf` or reaches it by going down only. */
int mrail_fabric_is_above(const mrail_fabric_t *fabric, uint32_t node,
                          uint32_t leaf);

#endif
