/* mrail acl: uplinks and prefixes of a switch, from a fabric file. */
#include "config.h"
#include "tools/acl_verb.h"

#include "fabric/fabric.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WHY_MAX 512

static mrail_fabric_t *read_fabric(const char *path)
{
    mrail_fabric_t *fabric = NULL;
    char why[WHY_MAX] = "", *text;
    size_t length;
    int ret;

    text = mrail_tool_read(ACL_VERB, path, MRAIL_FABRIC_MAX_TEXT, &length);
    ret = mrail_fabric_parse(mrail_tool_file_name(path), text, length, &fabric,
                             why, sizeof(why));
    free(text);
    if (ret == -EINVAL) {
        mrail_tool_usage(ACL_VERB, "%s", why);
    }
    if (ret != 0) {
        mrail_tool_fail(ACL_VERB, "%s", why);
    }
    return fabric;
}

/* The leaf's subnet: each NIC of a leaf is in the same /24. */
static void add_subnet(const mrail_fabric_t *fabric,
                       const mrail_fabric_node_t *leaf, acl_switch_t *found)
{
    uint32_t addr;

    if (leaf->num_down == 0) {
        return;
    }
    if (found->num_local == ACL_SWITCH_MAX_LOCAL) {
        mrail_tool_usage(ACL_VERB, "more than %d leaves below a switch",
                         ACL_SWITCH_MAX_LOCAL);
    }
    addr = fabric->links[leaf->down[0]].addr;
    snprintf(found->local[found->num_local++], sizeof(found->local[0]),
             "%u.%u.%u.0/24", addr >> 24, (addr >> 16) & 0xff,
             (addr >> 8) & 0xff);
}

/* All leaves below a spine divide the range alike, or one rule set cannot do. */
static void read_spine(const mrail_fabric_t *fabric,
                       const mrail_fabric_node_t *spine, acl_switch_t *found)
{
    const mrail_fabric_node_t *before = NULL;

    for (uint32_t i = 0; i < fabric->num_of[MRAIL_FABRIC_LEAF]; ++i) {
        uint32_t index = fabric->of[MRAIL_FABRIC_LEAF][i];
        const mrail_fabric_node_t *leaf = &fabric->nodes[index];

        if (!mrail_fabric_is_above(fabric, (uint32_t)(spine - fabric->nodes),
                                   index)) {
            continue;
        }
        if (before != NULL && before->num_up != leaf->num_up) {
            mrail_tool_usage(ACL_VERB,
                             "%s: leaves %s and %s below it have %u and %u "
                             "uplinks, but must have equally many",
                             spine->name, before->name, leaf->name,
                             before->num_up, leaf->num_up);
        }
        before = leaf;
        found->leaf_uplinks = leaf->num_up;
        add_subnet(fabric, leaf, found);
    }
}

void acl_switch_read(const char *path, const char *name, acl_switch_t *found)
{
    mrail_fabric_t *fabric = read_fabric(path);
    uint32_t index = mrail_fabric_node_find(fabric, name);
    const mrail_fabric_node_t *node;

    if (index == MRAIL_FABRIC_NONE) {
        mrail_tool_usage(ACL_VERB, "%s has no switch '%.40s'",
                         mrail_tool_file_name(path), name);
    }
    node = &fabric->nodes[index];
    if (node->tier == MRAIL_FABRIC_HOST) {
        mrail_tool_usage(ACL_VERB, "%s is a host, not a switch", node->name);
    }
    if (node->num_up == 0) {
        mrail_tool_usage(ACL_VERB, "%s has no uplinks, so it needs no rules",
                         node->name);
    }
    *found = (acl_switch_t){.uplinks = node->num_up, .leaf_uplinks = 1};
    if (node->tier == MRAIL_FABRIC_LEAF) {
        add_subnet(fabric, node, found);
    } else {
        read_spine(fabric, node, found);
    }
    mrail_fabric_destroy(fabric);
}
