/* Keeps the state of a lab's links, and computes the names and addresses of its
 * nodes, links and interfaces. */
#include "config.h"
#include "tools/lab_command.h"

#include "tools/tool.h"

void lab_init(lab_t *lab, mrail_fabric_t *fabric)
{
    lab->fabric = fabric;
    lab->router = mrail_router_create(fabric, lab->routing, 0);
    if (lab->router == NULL) {
        mrail_tool_fail(LAB_COMMAND, "out of memory");
    }
}

void lab_destroy(lab_t *lab)
{
    mrail_router_destroy(lab->router);
    mrail_fabric_destroy(lab->fabric);
}

const char *lab_addr(uint32_t addr, char text[16])
{
    snprintf(text, 16, "%u.%u.%u.%u", addr >> 24, (addr >> 16) & 0xff,
             (addr >> 8) & 0xff, addr & 0xff);
    return text;
}

const char *lab_interface(const lab_t *lab, uint32_t link, int is_upper,
                          char name[16])
{
    const mrail_fabric_link_t *l = &lab->fabric->links[link];

    if (is_upper) {
        snprintf(name, 16, "down%u", l->upper_port);
    } else {
        snprintf(name, 16, "%s%u", (l->addr != 0) ? "rail" : "up",
                 l->lower_port);
    }
    return name;
}

const char *lab_link_name(const lab_t *lab, uint32_t link,
                          char name[LAB_LINK_NAME_MAX])
{
    const mrail_fabric_link_t *l = &lab->fabric->links[link];

    snprintf(name, LAB_LINK_NAME_MAX, "%s-%s.%u", lab_name(lab, l->lower),
             lab_name(lab, l->upper), mrail_fabric_place(lab->fabric, link));
    return name;
}

uint32_t lab_switch_addr(uint32_t link, int is_upper)
{
    return LAB_SWITCH_NET + 2 * link + (uint32_t)is_upper;
}

uint32_t lab_subnet(const lab_t *lab, uint32_t leaf)
{
    const mrail_fabric_t *fabric = lab->fabric;
    const mrail_fabric_node_t *node =
        &fabric->nodes[fabric->of[MRAIL_FABRIC_LEAF][leaf]];

    return (node->num_down > 0) ? fabric->links[node->down[0]].addr & ~0xffu
                                : 0;
}
