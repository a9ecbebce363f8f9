#include "config.h"
#include "fabric/fabric.h"

#include "base/util.h"
#include "orchestrator/ports.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

const char *mrail_fabric_tier_name(mrail_fabric_tier_t tier)
{
    static const char *const names[] = {"host", "leaf", "spine", "core"};

    return names[tier];
}

void mrail_fabric_destroy(mrail_fabric_t *fabric)
{
    if (fabric == NULL) {
        return;
    }
    /* The adjacency lists share one array, whose start is node 0's list. */
    if (fabric->num_nodes != 0 && fabric->nodes != NULL) {
        free(fabric->nodes[0].up);
    }
    for (unsigned tier = 0; tier < MRAIL_FABRIC_NUM_TIERS; ++tier) {
        free(fabric->of[tier]);
    }
    free(fabric->nodes);
    free(fabric->links);
    free(fabric);
}

uint32_t mrail_fabric_node_find(const mrail_fabric_t *fabric, const char *name)
{
    for (uint32_t i = 0; i < fabric->num_nodes; ++i) {
        if (strcmp(fabric->nodes[i].name, name) == 0) {
            return i;
        }
    }
    return MRAIL_FABRIC_NONE;
}

uint32_t mrail_fabric_addr_find(const mrail_fabric_t *fabric, uint32_t addr)
{
    for (uint32_t i = 0; i < fabric->num_links; ++i) {
        if (addr != 0 && fabric->links[i].addr == addr) {
            return i;
        }
    }
    return MRAIL_FABRIC_NONE;
}

int mrail_fabric_is_above(const mrail_fabric_t *fabric, uint32_t node,
                          uint32_t leaf)
{
    const mrail_fabric_node_t *here = &fabric->nodes[node];

    if (here->tier <= MRAIL_FABRIC_LEAF) {
        return node == leaf;
    }
    for (uint32_t i = 0; i < here->num_down; ++i) {
        if (mrail_fabric_is_above(fabric, fabric->links[here->down[i]].lower,
                                  leaf)) {
            return 1;
        }
    }
    return 0;
}

void mrail_fabric_segments(const mrail_fabric_t *fabric, uint32_t link,
                           unsigned *uplinks_p, unsigned *spine_uplinks_p)
{
    const mrail_fabric_node_t *leaf = &fabric->nodes[fabric->links[link].upper];

    *uplinks_p = MRAIL_MAX(leaf->num_up, 1);
    *spine_uplinks_p = 1;
    if (leaf->num_up != 0) {
        uint32_t spine = fabric->links[leaf->up[0]].upper;

        *spine_uplinks_p = MRAIL_MAX(fabric->nodes[spine].num_up, 1);
    }
}

uint32_t mrail_fabric_place(const mrail_fabric_t *fabric, uint32_t link)
{
    const mrail_fabric_link_t *self = &fabric->links[link];
    const uint32_t *up = fabric->nodes[self->lower].up;
    uint32_t place = 0;

    for (uint32_t port = 0; port < self->lower_port; ++port) {
        place += (fabric->links[up[port]].upper == self->upper);
    }
    return place;
}

unsigned mrail_fabric_leaf_uplinks(const mrail_fabric_t *fabric, uint32_t node)
{
    const mrail_fabric_node_t *n = &fabric->nodes[node];

    return (n->tier == MRAIL_FABRIC_LEAF || n->num_down == 0)
               ? 1
               : fabric->nodes[fabric->links[n->down[0]].lower].num_up;
}

/* Returns the number of NICs that share the uplinks of a leaf, or, if is_pod is
 * 1, the uplinks of the spines in its pod. */
static unsigned nics_beside(const mrail_fabric_t *fabric,
                            const mrail_fabric_node_t *leaf, int is_pod)
{
    unsigned nics = 0;

    for (uint32_t i = 0; is_pod && i < fabric->num_of[MRAIL_FABRIC_LEAF]; ++i) {
        const mrail_fabric_node_t *other =
            &fabric->nodes[fabric->of[MRAIL_FABRIC_LEAF][i]];

        if (other->num_up != 0 && fabric->links[other->up[0]].upper ==
                                      fabric->links[leaf->up[0]].upper) {
            nics += other->num_down;
        }
    }
    return is_pod ? nics : leaf->num_down;
}

int mrail_fabric_check_lanes(const mrail_fabric_t *fabric, unsigned lanes,
                             char *reason, size_t reason_size)
{
    for (uint32_t i = 0; i < fabric->num_of[MRAIL_FABRIC_LEAF]; ++i) {
        const mrail_fabric_node_t *leaf =
            &fabric->nodes[fabric->of[MRAIL_FABRIC_LEAF][i]];
        unsigned uplinks, spine_uplinks;
        char sentence[256];

        if (leaf->num_up == 0 || leaf->num_down == 0) {
            continue;
        }
        mrail_fabric_segments(fabric, leaf->down[0], &uplinks, &spine_uplinks);
        if (mrail_ports_check(
                uplinks, spine_uplinks,
                nics_beside(fabric, leaf, spine_uplinks > 1),
                (lanes != 0) ? lanes
                             : mrail_ports_auto_lanes(uplinks, spine_uplinks),
                sentence, sizeof(sentence)) != 0) {
            snprintf(reason, reason_size, "leaf %s: %s", leaf->name, sentence);
            return -ERANGE;
        }
    }
    return 0;
}
