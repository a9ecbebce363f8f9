#include "config.h"
#include "fabric/fabric.h"

#include "base/util.h"

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
    /* The adjacency lists share one array, which begins with node 0's. */
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
