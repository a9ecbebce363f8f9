/*
 * A fabric of leaf, spine and core switches with the hosts below them. `mrail
 * lab` builds it, and `mrail simulate` computes the load of its links.
 *
 * A fabric is a folded Clos network. Each link joins a node to one in the tier
 * above, so a packet goes up, turns once, and goes down. mrail-fabric(5)
 * describes the text format.
 *
 * The parser converts text to a description without I/O. A parsed fabric is
 * immutable, and any thread may read it.
 */
#ifndef MRAIL_FABRIC_FABRIC_H
#define MRAIL_FABRIC_FABRIC_H

#include <stddef.h>
#include <stdint.h>

#define MRAIL_FABRIC_NONE UINT32_MAX
#define MRAIL_FABRIC_MAX_NODES 8192
#define MRAIL_FABRIC_MAX_LINKS 131072
#define MRAIL_FABRIC_MAX_NAME 31 /* maximum length of a node name */
#define MRAIL_FABRIC_MAX_TEXT (4 << 20)
#define MRAIL_FABRIC_MAX_UPLINKS 256 /* per switch: MRAIL_PORTS_MAX_UPLINKS */
#define MRAIL_FABRIC_MAX_NICS 250    /* per leaf, because its subnet is a /24 */

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
    uint32_t place; /* index within its tier, in file order */
    /* Links to the tier above and to the tier below, in file order. Uplink n of
     * a switch, up[n], carries port segment n. The r-th link of a host is rail
     * r. */
    uint32_t num_up, num_down;
    uint32_t *up, *down;
} mrail_fabric_node_t;

typedef struct mrail_fabric_link {
    uint32_t lower, upper; /* nodes; upper is one tier above lower */
    /* index in lower's `up` and in upper's `down` */
    uint32_t lower_port, upper_port;
    uint64_t bytes_per_s; /* rate of each direction */
    /* For a link to a host, the IPv4 address of the NIC in host byte order, in
     * the /24 subnet of its leaf (the leaf itself has .1). For any other link,
     * 0. */
    uint32_t addr;
    /* The NIC index for the choice of source ports, which is the host part of
     * the address. In a fabric with cores, it is instead the index within the
     * pod, because the leaves of a pod share the spines; jobs there set
     * UCX_MRAIL_NIC_INDEX. */
    uint32_t nic_index;
} mrail_fabric_link_t;

typedef struct mrail_fabric {
    uint32_t num_nodes, num_links;
    mrail_fabric_node_t *nodes; /* nodes in file order */
    mrail_fabric_link_t *links;
    uint32_t num_of[MRAIL_FABRIC_NUM_TIERS];
    uint32_t *of[MRAIL_FABRIC_NUM_TIERS]; /* nodes of each tier, by `place` */
} mrail_fabric_t;

/* Returns "host", "leaf", "spine" or "core". */
const char *mrail_fabric_tier_name(mrail_fabric_tier_t tier);

/*
 * Parses `length` bytes of text. `name` is the file name for messages. Returns
 * 0, and the caller destroys the fabric; or -EINVAL or -ENOMEM with "NAME:LINE:
 * MESSAGE" in `reason` and *fabric_p unchanged.
 */
int mrail_fabric_parse(const char *name, const char *text, size_t length,
                       mrail_fabric_t **fabric_p, char *reason,
                       size_t reason_size);

/* `fabric` may be NULL. */
void mrail_fabric_destroy(mrail_fabric_t *fabric);

/* Returns the node with this name, or MRAIL_FABRIC_NONE. */
uint32_t mrail_fabric_node_find(const mrail_fabric_t *fabric, const char *name);

/* Returns the host link with this NIC address, or MRAIL_FABRIC_NONE. */
uint32_t mrail_fabric_addr_find(const mrail_fabric_t *fabric, uint32_t addr);

/* Returns the number of port segments of a host link's leaf, and of the spines
 * above it. Switches without uplinks have one segment. */
void mrail_fabric_segments(const mrail_fabric_t *fabric, uint32_t link,
                           unsigned *uplinks_p, unsigned *spine_uplinks_p);

/* Returns the position of a link among those that join the same two nodes. */
uint32_t mrail_fabric_place(const mrail_fabric_t *fabric, uint32_t link);

/* Returns the number of leaf segments that the port rules of a switch divide: 1
 * on a leaf, and on a spine the number of uplinks of the first leaf below. */
unsigned mrail_fabric_leaf_uplinks(const mrail_fabric_t *fabric, uint32_t node);

/* Checks that with `lanes` lanes per peer, the NICs of each leaf use all its
 * uplinks, and the NICs of each pod use all uplinks of its spines. If `lanes`
 * is 0, each leaf has mrail_ports_auto_lanes() lanes. Returns 0, or -ERANGE
 * with a message about the first leaf with idle uplinks. */
int mrail_fabric_check_lanes(const mrail_fabric_t *fabric, unsigned lanes,
                             char *reason, size_t reason_size);

/* Returns 1 if `node` is `leaf`, or reaches it over downward links alone. */
int mrail_fabric_is_above(const mrail_fabric_t *fabric, uint32_t node,
                          uint32_t leaf);

#endif
