/*
 * Routes of the lab's switches, as a routing protocol would compute them. Each
 * switch has one route to the subnet of each leaf, over all live links on
 * shortest paths (ECMP). The route leads down if the leaf is below the switch,
 * and up otherwise.
 *
 * Port rules are added to these routes. Upwards, they come from fabric/acl.h.
 * Downwards, they matter only for parallel links: packets from the k-th link
 * take the k-th link to the next switch, as with the VRFs in [CTCCL] 4.1.
 */
#include "config.h"
#include "tools/lab_command.h"

#include "base/util.h"
#include "fabric/acl.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

#define PROTOCOL_ROUTES 145  /* routes and rules that this file adds */
#define PRIORITY_AROUND 4600 /* rules that bypass an uplink without a path */
#define PRIORITY_DOWN 4700   /* rules of parallel links */
/* table of the k-th parallel links: TABLE_DOWN + k */
#define TABLE_DOWN 1000

static uint32_t num_leaves(const lab_t *lab)
{
    return lab->fabric->num_of[MRAIL_FABRIC_LEAF];
}

static uint8_t *cell(uint8_t *matrix, const lab_t *lab, uint32_t node,
                     uint32_t leaf)
{
    return &matrix[(size_t)node * num_leaves(lab) + leaf];
}

/* ---- Reachability ---- */

static int any_neighbour(const lab_t *lab, uint8_t *matrix, uint32_t node,
                         uint32_t leaf, int is_down)
{
    const mrail_fabric_node_t *n = &lab->fabric->nodes[node];
    const uint32_t *links = is_down ? n->down : n->up;
    uint32_t num = is_down ? n->num_down : n->num_up;

    for (uint32_t i = 0; i < num; ++i) {
        const mrail_fabric_link_t *link = &lab->fabric->links[links[i]];

        if (!lab->is_down[links[i]] &&
            *cell(matrix, lab, is_down ? link->lower : link->upper, leaf)) {
            return 1;
        }
    }
    return 0;
}

static void find_tier(lab_t *lab, unsigned tier, int is_down)
{
    const mrail_fabric_t *fabric = lab->fabric;

    for (uint32_t i = 0; i < fabric->num_of[tier]; ++i) {
        uint32_t node = fabric->of[tier][i];

        for (uint32_t leaf = 0; leaf < num_leaves(lab); ++leaf) {
            if (is_down) {
                *cell(lab->goes_down, lab, node, leaf) =
                    node == fabric->of[MRAIL_FABRIC_LEAF][leaf] ||
                    (tier > MRAIL_FABRIC_LEAF &&
                     any_neighbour(lab, lab->goes_down, node, leaf, 1));
            } else {
                *cell(lab->reaches, lab, node, leaf) =
                    *cell(lab->goes_down, lab, node, leaf) ||
                    any_neighbour(lab, lab->reaches, node, leaf, 0);
            }
        }
    }
}

void lab_routes_find(lab_t *lab)
{
    for (unsigned t = MRAIL_FABRIC_LEAF; t < MRAIL_FABRIC_NUM_TIERS; ++t) {
        find_tier(lab, t, 1);
    }
    for (unsigned t = MRAIL_FABRIC_NUM_TIERS; t-- > MRAIL_FABRIC_LEAF;) {
        find_tier(lab, t, 0);
    }
}

/* ---- Batches ---- */

typedef struct batch {
    char *text;
    size_t length;
    FILE *stream;
} batch_t;

static void batch_open(batch_t *batch)
{
    batch->stream = open_memstream(&batch->text, &batch->length);
    if (batch->stream == NULL) {
        mrail_tool_fail(LAB_COMMAND, "out of memory");
    }
}

static void batch_close(batch_t *batch)
{
    if (fclose(batch->stream) != 0) {
        mrail_tool_fail(LAB_COMMAND, "out of memory");
    }
}

static void print_hop(const lab_t *lab, uint32_t link, int is_down,
                      FILE *stream)
{
    char addr[16], name[16];

    fprintf(stream, " nexthop via %s dev %s",
            lab_addr(lab_switch_addr(link, !is_down), addr),
            lab_interface(lab, link, is_down, name));
}

/* Prints the live links of a node that lead to a leaf, and returns their
 * number. */
static unsigned print_hops(const lab_t *lab, uint32_t node, uint32_t leaf,
                           FILE *stream)
{
    const mrail_fabric_node_t *n = &lab->fabric->nodes[node];
    int is_down = *cell(lab->goes_down, lab, node, leaf);
    const uint32_t *links = is_down ? n->down : n->up;
    uint32_t num = is_down ? n->num_down : n->num_up;
    unsigned hops = 0;

    for (uint32_t i = 0; i < num; ++i) {
        const mrail_fabric_link_t *link = &lab->fabric->links[links[i]];
        uint32_t next = is_down ? link->lower : link->upper;

        if (!lab->is_down[links[i]] &&
            *cell(is_down ? lab->goes_down : lab->reaches, lab, next, leaf)) {
            print_hop(lab, links[i], is_down, stream);
            ++hops;
        }
    }
    return hops;
}

static void print_routes(const lab_t *lab, uint32_t node, FILE *stream)
{
    char net[16];

    for (uint32_t leaf = 0; leaf < num_leaves(lab); ++leaf) {
        uint32_t subnet = lab_subnet(lab, leaf);
        batch_t hops;

        if (subnet == 0 || node == lab->fabric->of[MRAIL_FABRIC_LEAF][leaf]) {
            continue;
        }
        batch_open(&hops);
        if (print_hops(lab, node, leaf, hops.stream) == 0) {
            fprintf(stream, "route replace unreachable %s/24 protocol %d\n",
                    lab_addr(subnet, net), PROTOCOL_ROUTES);
        }
        batch_close(&hops);
        if (hops.length > 0) {
            fprintf(stream, "route replace %s/24 protocol %d%s\n",
                    lab_addr(subnet, net), PROTOCOL_ROUTES, hops.text);
        }
        free(hops.text);
    }
}

/* ---- Rules on the way down ---- */

static unsigned num_parallel(const lab_t *lab, uint32_t node)
{
    const mrail_fabric_node_t *n = &lab->fabric->nodes[node];
    unsigned most = 0;

    for (uint32_t i = 0; i < n->num_down; ++i) {
        most = MRAIL_MAX(most, lab_parallel_place(lab, n->down[i]) + 1);
    }
    return most;
}

/* Prints the routing table of the k-th parallel links. */
static void print_parallel(const lab_t *lab, uint32_t node, unsigned place,
                           FILE *stream)
{
    const mrail_fabric_node_t *n = &lab->fabric->nodes[node];
    char net[16], addr[16], name[16];

    for (uint32_t i = 0; i < n->num_down; ++i) {
        uint32_t link = n->down[i], lower = lab->fabric->links[link].lower;

        if (lab_parallel_place(lab, link) != place) {
            continue;
        }
        for (uint32_t leaf = 0; leaf < num_leaves(lab); ++leaf) {
            uint32_t subnet = lab_subnet(lab, leaf);

            if (subnet == 0 || !mrail_fabric_is_above(
                                   lab->fabric, lower,
                                   lab->fabric->of[MRAIL_FABRIC_LEAF][leaf])) {
                continue;
            }
            lab_addr(subnet, net);
            if (!lab->is_down[link] &&
                *cell(lab->goes_down, lab, lower, leaf)) {
                fprintf(stream,
                        "route replace %s/24 via %s dev %s table %u protocol "
                        "%d\n",
                        net, lab_addr(lab_switch_addr(link, 0), addr),
                        lab_interface(lab, link, 1, name), TABLE_DOWN + place,
                        PROTOCOL_ROUTES);
            }
            if (lab->routing == MRAIL_ROUTE_RULES_DROP) {
                fprintf(stream,
                        "route replace blackhole %s/24 metric 4294967295 table "
                        "%u protocol %d\n",
                        net, TABLE_DOWN + place, PROTOCOL_ROUTES);
            }
        }
    }
}

static void print_rules_down(const lab_t *lab, uint32_t node, FILE *stream)
{
    const mrail_fabric_node_t *n = &lab->fabric->nodes[node];
    unsigned most = num_parallel(lab, node);
    char name[16];

    if (most < 2) {
        return;
    }
    for (unsigned place = 0; place < most; ++place) {
        print_parallel(lab, node, place, stream);
    }
    for (uint32_t i = 0; i < n->num_down; ++i) {
        fprintf(stream, "rule add priority %d iif %s lookup %u protocol %d\n",
                PRIORITY_DOWN, lab_interface(lab, n->down[i], 1, name),
                TABLE_DOWN + lab_parallel_place(lab, n->down[i]),
                PROTOCOL_ROUTES);
    }
}

/* ---- Rules on the way up ---- */

/* If an uplink is up but the switch above has no path to a leaf, packets to
 * that leaf use the ordinary routes. In drop mode, that switch drops them. */
static void print_rules_around(const lab_t *lab, uint32_t node, FILE *stream)
{
    const mrail_fabric_node_t *n = &lab->fabric->nodes[node];
    char net[16];

    for (uint32_t u = 0; u < n->num_up; ++u) {
        for (uint32_t leaf = 0; leaf < num_leaves(lab); ++leaf) {
            uint32_t subnet = lab_subnet(lab, leaf);

            if (subnet != 0 && !*cell(lab->goes_down, lab, node, leaf) &&
                !*cell(lab->reaches, lab, lab->fabric->links[n->up[u]].upper,
                       leaf)) {
                fprintf(stream,
                        "rule add priority %d fwmark 0x%x to %s/24 lookup main "
                        "protocol %d\n",
                        PRIORITY_AROUND, MRAIL_ACL_LINUX_MARK + u + 1,
                        lab_addr(subnet, net), PROTOCOL_ROUTES);
            }
        }
    }
}

void lab_routes_apply(const lab_t *lab)
{
    static const char *const ip[] = {"ip", "-batch", "-", NULL};
    const mrail_fabric_t *fabric = lab->fabric;

    for (uint32_t i = 0; i < fabric->num_nodes; ++i) {
        batch_t batch;

        if (fabric->nodes[i].tier == MRAIL_FABRIC_HOST) {
            continue;
        }
        batch_open(&batch);
        print_routes(lab, i, batch.stream);
        if (lab->routing != MRAIL_ROUTE_ECMP) {
            fprintf(batch.stream, "rule flush protocol %d\n", PROTOCOL_ROUTES);
            if (fabric->nodes[i].tier != MRAIL_FABRIC_LEAF) {
                print_rules_down(lab, i, batch.stream);
            }
            if (lab->routing == MRAIL_ROUTE_RULES) {
                print_rules_around(lab, i, batch.stream);
            }
        }
        batch_close(&batch);
        if (batch.length > 0) {
            lab_ns_tool(lab_name(lab, i), ip, batch.text);
        }
        free(batch.text);
    }
}

typedef struct rules {
    mrail_acl_t acl;
    mrail_acl_uplink_t uplinks[MRAIL_ACL_MAX_UPLINKS];
    char hops[MRAIL_ACL_MAX_UPLINKS][16], ports[MRAIL_ACL_MAX_UPLINKS][16];
    char (*ingress_names)[16], (*local_names)[24];
    const char **ingress, **local;
} rules_t;

static void rules_ports(const lab_t *lab, const mrail_fabric_node_t *node,
                        rules_t *rules)
{
    for (uint32_t u = 0; u < node->num_up; ++u) {
        rules->uplinks[u] = (mrail_acl_uplink_t){
            lab_addr(lab_switch_addr(node->up[u], 1), rules->hops[u]),
            lab_interface(lab, node->up[u], 0, rules->ports[u])};
    }
    rules->acl.num_ingress = 1;
    if (node->tier == MRAIL_FABRIC_LEAF) {
        rules->ingress[0] = "hosts";
        return;
    }
    for (uint32_t i = 0; i < node->num_down; ++i) {
        rules->ingress[i] =
            lab_interface(lab, node->down[i], 1, rules->ingress_names[i]);
    }
    rules->acl.num_ingress = node->num_down;
}

static void rules_local(const lab_t *lab, uint32_t node, rules_t *rules)
{
    for (uint32_t leaf = 0; leaf < num_leaves(lab); ++leaf) {
        uint32_t subnet = lab_subnet(lab, leaf);
        unsigned at = rules->acl.num_local;
        char addr[16];

        if (subnet != 0 &&
            mrail_fabric_is_above(lab->fabric, node,
                                  lab->fabric->of[MRAIL_FABRIC_LEAF][leaf])) {
            snprintf(rules->local_names[at], sizeof(rules->local_names[at]),
                     "%s/24", lab_addr(subnet, addr));
            rules->local[at] = rules->local_names[at];
            ++rules->acl.num_local;
        }
    }
}

/* Returns the number of uplinks of the leaves below a spine, taken from the
 * first leaf. */
static unsigned leaf_uplinks(const lab_t *lab, const mrail_fabric_node_t *node)
{
    uint32_t leaf;

    if (node->tier == MRAIL_FABRIC_LEAF || node->num_down == 0) {
        return 1;
    }
    leaf = lab->fabric->links[node->down[0]].lower;
    return lab->fabric->nodes[leaf].num_up;
}

/* Writes the rules without the routes over links that are down, which the
 * kernel would refuse. */
static void rules_write(const lab_t *lab, const mrail_fabric_node_t *node,
                        const rules_t *rules, FILE *stream)
{
    batch_t all;

    batch_open(&all);
    mrail_acl_write(&rules->acl, MRAIL_ACL_LINUX, all.stream);
    batch_close(&all);
    for (char *line = strtok(all.text, "\n"); line != NULL;
         line = strtok(NULL, "\n")) {
        int is_lost = 0;

        for (uint32_t u = 0; u < node->num_up; ++u) {
            char port[40];

            snprintf(port, sizeof(port), " dev %s table", rules->ports[u]);
            is_lost |= lab->is_down[node->up[u]] && strstr(line, port) != NULL;
        }
        if (!is_lost) {
            fprintf(stream, "%s\n", line);
        }
    }
    free(all.text);
}

void lab_rules_apply(const lab_t *lab, uint32_t index)
{
    static const char *const shell[] = {"sh", "-s", NULL};
    const mrail_fabric_node_t *node = &lab->fabric->nodes[index];
    rules_t *rules;
    batch_t batch;

    if (lab->routing == MRAIL_ROUTE_ECMP || node->num_up == 0 ||
        node->num_down == 0 || node->tier == MRAIL_FABRIC_HOST) {
        return;
    }
    rules = calloc(1, sizeof(*rules));
    if (rules == NULL ||
        (rules->ingress_names = calloc(node->num_down, 16)) == NULL ||
        (rules->ingress = calloc(node->num_down, sizeof(char *))) == NULL ||
        (rules->local_names = calloc(num_leaves(lab), 24)) == NULL ||
        (rules->local = calloc(num_leaves(lab), sizeof(char *))) == NULL) {
        mrail_tool_fail(LAB_COMMAND, "out of memory");
    }
    rules->acl =
        (mrail_acl_t){.num_uplinks = node->num_up,
                      .uplinks = rules->uplinks,
                      .leaf_uplinks = leaf_uplinks(lab, node),
                      .dscp = MRAIL_ACL_NO_DSCP,
                      .failure = (lab->routing == MRAIL_ROUTE_RULES_DROP)
                                     ? MRAIL_ACL_DROP
                                     : MRAIL_ACL_FALL_THROUGH,
                      .name = "lab",
                      .ingress = rules->ingress,
                      .local = rules->local};
    rules_ports(lab, node, rules);
    rules_local(lab, index, rules);
    batch_open(&batch);
    rules_write(lab, node, rules, batch.stream);
    batch_close(&batch);
    lab_ns_tool(node->name, shell, batch.text);
    free(batch.text);
    free(rules->ingress_names);
    free(rules->ingress);
    free(rules->local_names);
    free(rules->local);
    free(rules);
}
