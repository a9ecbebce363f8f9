/* mrail acl reads the uplinks and prefixes of a switch from a fabric file. */
#include "config.h"
#include "tools/acl_command.h"
#include "tools/fabric_file.h"

#include "fabric/fabric.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REASON_MAX 512

/* Adds the subnet of a leaf. All NICs of a leaf are in the same /24. Returns 0
 * or -EINVAL. */
static int add_subnet(const mrail_fabric_t *fabric,
                      const mrail_fabric_node_t *leaf, acl_switch_t *found,
                      char *reason, size_t size)
{
    uint32_t addr;

    if (leaf->num_down == 0) {
        return 0;
    }
    if (found->num_local == ACL_SWITCH_MAX_LOCAL) {
        snprintf(reason, size, "a switch can have at most %d leaves below it",
                 ACL_SWITCH_MAX_LOCAL);
        return -EINVAL;
    }
    addr = fabric->links[leaf->down[0]].addr;
    snprintf(found->local[found->num_local++], sizeof(found->local[0]),
             "%u.%u.%u.0/24", addr >> 24, (addr >> 16) & 0xff,
             (addr >> 8) & 0xff);
    return 0;
}

/* Reads a spine. All leaves below it must have the same number of uplinks, so
 * that they divide the port range in the same way. Returns 0 or -EINVAL. */
static int read_spine(const mrail_fabric_t *fabric, uint32_t spine,
                      acl_switch_t *found, char *reason, size_t size)
{
    const mrail_fabric_node_t *before = NULL;
    int ret = 0;

    for (uint32_t i = 0; i < fabric->num_of[MRAIL_FABRIC_LEAF] && ret == 0;
         ++i) {
        uint32_t index = fabric->of[MRAIL_FABRIC_LEAF][i];
        const mrail_fabric_node_t *leaf = &fabric->nodes[index];

        if (!mrail_fabric_is_above(fabric, spine, index)) {
            continue;
        }
        if (before != NULL && before->num_up != leaf->num_up) {
            snprintf(
                reason, size,
                "below %s, the leaves %s and %s have %u and %u uplinks, but "
                "must have the same number",
                fabric->nodes[spine].name, before->name, leaf->name,
                before->num_up, leaf->num_up);
            return -EINVAL;
        }
        before = leaf;
        found->leaf_uplinks = leaf->num_up;
        ret = add_subnet(fabric, leaf, found, reason, size);
    }
    return ret;
}

static int read_switch(const mrail_fabric_t *fabric, const char *name,
                       acl_switch_t *found, char *reason, size_t size)
{
    uint32_t index = mrail_fabric_node_find(fabric, name);
    const mrail_fabric_node_t *node;

    if (index == MRAIL_FABRIC_NONE) {
        snprintf(reason, size, "the fabric has no switch '%.40s'", name);
        return -EINVAL;
    }
    node = &fabric->nodes[index];
    if (node->tier == MRAIL_FABRIC_HOST) {
        snprintf(reason, size, "%s is a host, not a switch", name);
        return -EINVAL;
    }
    if (node->num_up == 0) {
        snprintf(reason, size, "%s has no uplinks, so it does not need rules",
                 name);
        return -EINVAL;
    }
    *found = (acl_switch_t){.uplinks = node->num_up, .leaf_uplinks = 1};
    if (node->tier == MRAIL_FABRIC_LEAF) {
        return add_subnet(fabric, node, found, reason, size);
    }
    return read_spine(fabric, index, found, reason, size);
}

void acl_switch_read(const char *path, const char *name, acl_switch_t *found)
{
    mrail_fabric_t *fabric = mrail_tool_fabric(ACL_COMMAND, path, NULL, NULL);
    char reason[REASON_MAX];
    int ret = read_switch(fabric, name, found, reason, sizeof(reason));

    mrail_fabric_destroy(fabric);
    if (ret != 0) {
        mrail_tool_usage(ACL_COMMAND, "%s: %s", mrail_tool_file_name(path),
                         reason);
    }
}
