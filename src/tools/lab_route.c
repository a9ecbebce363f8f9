/*
 * Routes and port rules of the lab's switches, as text. fabric/route.h computes
 * the same choices, and test/property/test_lab_paths.c compares both.
 *
 * Each switch has one route to the subnet of each leaf, as a routing protocol
 * would compute it. Port rules are added to these routes. Upwards, the rules
 * come from fabric/acl.h. Downwards, they are routing tables of parallel links,
 * as with the VRFs in [CTCCL] 4.1.
 */
#include "config.h"
#include "tools/lab_command.h"

#include "base/util.h"
#include "fabric/acl.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

#define PROTOCOL_ROUTES 145 /* routes and rules that this file adds */
/* rules for packets that an uplink cannot forward */
#define PRIORITY_AROUND 4600
#define PRIORITY_DOWN 4700 /* rules of parallel links */
/* table of the parallel links at position k: TABLE_DOWN + k */
#define TABLE_DOWN 1000

static uint32_t num_leaves(const lab_t *lab)
{
    return lab->fabric->num_of[MRAIL_FABRIC_LEAF];
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

/* ---- Routes ---- */

static void print_hops(const lab_t *lab, const uint32_t *hops, uint32_t num,
                       FILE *stream)
{
    char addr[16], name[16];

    for (uint32_t i = 0; i < num; ++i) {
        uint32_t link = hops[i] / 2;
        int is_down = hops[i] % 2 != 0;

        fprintf(stream, " nexthop via %s dev %s",
                lab_addr(lab_switch_addr(link, !is_down), addr),
                lab_interface(lab, link, is_down, name));
    }
    fputc('\n', stream);
}

static void print_routes(const lab_t *lab, uint32_t node, FILE *stream)
{
    uint32_t hops[MRAIL_ROUTE_MAX_CHOICES];
    char net[16];

    for (uint32_t leaf = 0; leaf < num_leaves(lab); ++leaf) {
        uint32_t subnet = lab_subnet(lab, leaf), num;

        if (subnet == 0 || node == lab->fabric->of[MRAIL_FABRIC_LEAF][leaf]) {
            continue;
        }
        num = mrail_router_hops(lab->router, node, leaf, hops);
        fprintf(stream, "route replace %s%s/24 protocol %d",
                (num == 0) ? "unreachable " : "", lab_addr(subnet, net),
                PROTOCOL_ROUTES);
        print_hops(lab, hops, num, stream);
    }
}

/* ---- Rules on the way down ---- */

/* Prints the routing table of the parallel links at position `place`. If all
 * parallel links to a leaf are down, packets to the leaf use the ordinary
 * routes. In drop mode, they are dropped: a blackhole route of the highest
 * metric also catches packets between the loss of a link and the update of its
 * route. */
static void print_parallel(const lab_t *lab, uint32_t node, uint32_t place,
                           FILE *stream)
{
    int drops = mrail_router_drops(lab->router);
    uint32_t hops[MRAIL_ROUTE_MAX_CHOICES];
    char net[16];

    for (uint32_t leaf = 0; leaf < num_leaves(lab); ++leaf) {
        uint32_t subnet = lab_subnet(lab, leaf);
        int num =
            mrail_router_parallel_hops(lab->router, node, leaf, place, hops);

        if (subnet == 0 || num < 0) {
            continue;
        }
        lab_addr(subnet, net);
        fprintf(stream, "route replace %s%s/24 table %u protocol %d",
                (num > 0) ? "" : (drops ? "blackhole " : "throw "), net,
                TABLE_DOWN + place, PROTOCOL_ROUTES);
        print_hops(lab, hops, (uint32_t)num, stream);
        if (drops) {
            fprintf(stream,
                    "route replace blackhole %s/24 metric 4294967295 table "
                    "%u protocol %d\n",
                    net, TABLE_DOWN + place, PROTOCOL_ROUTES);
        }
    }
}

static void print_rules_down(const lab_t *lab, uint32_t node, FILE *stream)
{
    const mrail_fabric_node_t *n = &lab->fabric->nodes[node];
    uint32_t places = mrail_router_parallel(lab->router, node);
    char name[16];

    for (uint32_t place = 0; place < places; ++place) {
        print_parallel(lab, node, place, stream);
    }
    for (uint32_t i = 0; places > 0 && i < n->num_down; ++i) {
        fprintf(stream, "rule add priority %d iif %s lookup %u protocol %d\n",
                PRIORITY_DOWN, lab_interface(lab, n->down[i], 1, name),
                TABLE_DOWN + mrail_fabric_place(lab->fabric, n->down[i]),
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

            if (subnet != 0 &&
                !mrail_router_is_local(lab->router, node, leaf) &&
                !mrail_router_reaches(
                    lab->router, lab->fabric->links[n->up[u]].upper, leaf)) {
                fprintf(stream,
                        "rule add priority %d fwmark 0x%x to %s/24 lookup main "
                        "protocol %d\n",
                        PRIORITY_AROUND, MRAIL_ACL_LINUX_MARK + u + 1,
                        lab_addr(subnet, net), PROTOCOL_ROUTES);
            }
        }
    }
}

void lab_routes_write(const lab_t *lab, uint32_t node, FILE *stream)
{
    print_routes(lab, node, stream);
    if (lab->routing == MRAIL_ROUTE_ECMP) {
        return;
    }
    fprintf(stream, "rule flush protocol %d\n", PROTOCOL_ROUTES);
    print_rules_down(lab, node, stream);
    if (lab->routing == MRAIL_ROUTE_RULES) {
        print_rules_around(lab, node, stream);
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

        if (subnet != 0 && mrail_router_is_local(lab->router, node, leaf)) {
            snprintf(rules->local_names[at], sizeof(rules->local_names[at]),
                     "%s/24", lab_addr(subnet, addr));
            rules->local[at] = rules->local_names[at];
            ++rules->acl.num_local;
        }
    }
}

/* Writes the rules, except for the routes over links that are down, which the
 * kernel would reject. */
static void write_live(const lab_t *lab, const mrail_fabric_node_t *node,
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
            is_lost |= !mrail_router_is_up(lab->router, node->up[u]) &&
                       strstr(line, port) != NULL;
        }
        if (!is_lost) {
            fprintf(stream, "%s\n", line);
        }
    }
    free(all.text);
}

void lab_rules_write(const lab_t *lab, uint32_t index, FILE *stream)
{
    const mrail_fabric_node_t *node = &lab->fabric->nodes[index];
    rules_t *rules;

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
    rules->acl = (mrail_acl_t){
        .num_uplinks = node->num_up,
        .uplinks = rules->uplinks,
        .leaf_uplinks = mrail_fabric_leaf_uplinks(lab->fabric, index),
        .dscp = MRAIL_ACL_NO_DSCP,
        .failure = (lab->routing == MRAIL_ROUTE_RULES_DROP)
                       ? MRAIL_ACL_DROP
                       : MRAIL_ACL_FALL_THROUGH,
        .name = "lab",
        .ingress = rules->ingress,
        .local = rules->local};
    rules_ports(lab, node, rules);
    rules_local(lab, index, rules);
    write_live(lab, node, rules, stream);
    free(rules->ingress_names);
    free(rules->ingress);
    free(rules->local_names);
    free(rules->local);
    free(rules);
}
