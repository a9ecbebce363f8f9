/*
 * Builds the nodes and links of a lab with one batch of ip(8) and tc(8)
 * commands per node. A process per command would take seconds for a fabric of
 * 16 uplinks.
 */
#include "config.h"
#include "tools/lab_command.h"

#include "base/rng.h"
#include "base/util.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

/* Large enough for RoCEv2 packets of MTU 4096 and for jumbo frames. */
#define LINK_MTU 9000
/* Burst in bytes with which the shaper sends a run of packets (GSO) as a whole.
 * With a smaller burst, it splits the run, which is slow. */
#define MIN_BURST (128u << 10)
#define BURST_PER_S 500 /* burst of at least 2 ms at the link rate */
#define HOST_TABLE 100  /* routing table of rail R: HOST_TABLE + R */

typedef struct batch {
    char *text;
    size_t length;
    FILE *stream;
} batch_t;

static FILE *batch_open(batch_t *batch)
{
    batch->stream = open_memstream(&batch->text, &batch->length);
    if (batch->stream == NULL) {
        mrail_tool_fail(LAB_COMMAND, "out of memory");
    }
    return batch->stream;
}

/* Runs `tool` with the option that makes it read its standard input. */
static void batch_run(batch_t *batch, const char *node, const char *tool,
                      const char *option)
{
    const char *const argv[] = {tool, option, "-", NULL};

    if (fclose(batch->stream) != 0) {
        mrail_tool_fail(LAB_COMMAND, "out of memory");
    }
    if (batch->length > 0) {
        lab_ns_tool(node, argv, batch->text);
    }
    free(batch->text);
}

/* ---- Links ---- */

/* The upper node creates both ends of its links. */
static void make_links(const lab_t *lab, uint32_t node)
{
    const mrail_fabric_node_t *n = &lab->fabric->nodes[node];
    int is_leaf = n->tier == MRAIL_FABRIC_LEAF;
    char lower[16], upper[16], path[LAB_PATH_MAX];
    batch_t batch;
    FILE *stream = batch_open(&batch);

    if (is_leaf) {
        fprintf(stream, "link add hosts mtu %d type bridge mcast_snooping 0\n",
                LINK_MTU);
    }
    for (uint32_t i = 0; i < n->num_down; ++i) {
        uint32_t link = n->down[i];

        lab_path(path, "net", lab_name(lab, lab->fabric->links[link].lower));
        lab_interface(lab, link, 1, upper);
        fprintf(stream,
                "link add %s mtu %d type veth peer name %s mtu %d netns %s\n",
                upper, LINK_MTU, lab_interface(lab, link, 0, lower), LINK_MTU,
                path);
        if (is_leaf) {
            fprintf(stream, "link set %s master hosts\n", upper);
        }
    }
    batch_run(&batch, n->name, "ip", "-batch");
}

static void make_mgmt(const lab_t *lab)
{
    const mrail_fabric_t *fabric = lab->fabric;
    char path[LAB_PATH_MAX], addr[16];
    batch_t batch;
    FILE *stream = batch_open(&batch);

    fprintf(stream,
            "link set lo up\n"
            "link add mgmt type bridge mcast_snooping 0\n"
            "addr add %s/15 dev mgmt\n"
            "link set mgmt up\n",
            lab_addr(LAB_MGMT_NET + 1, addr));
    for (uint32_t i = 0; i < fabric->num_of[MRAIL_FABRIC_HOST]; ++i) {
        lab_path(path, "net", lab_name(lab, fabric->of[MRAIL_FABRIC_HOST][i]));
        fprintf(stream,
                "link add m%u type veth peer name mgmt netns %s\n"
                "link set m%u master mgmt up\n",
                i, path, i);
    }
    batch_run(&batch, LAB_CONTROL, "ip", "-batch");
}

/* ---- Addresses ---- */

/* Writes the routes of a host over a link. Each rail has a routing table, so
 * that packets with a rail's address leave through that rail. */
static void host_routes(const lab_t *lab, uint32_t link, FILE *stream)
{
    const mrail_fabric_link_t *l = &lab->fabric->links[link];
    uint32_t r = l->lower_port;
    char addr[16], gateway[16], net[16];

    lab_addr(l->addr, addr);
    lab_addr((l->addr & ~0xffu) | 1, gateway);
    lab_addr(l->addr & ~0xffu, net);
    fprintf(stream,
            "route replace %s/24 dev rail%u src %s table %u\n"
            "route replace default via %s dev rail%u src %s table %u\n",
            net, r, addr, HOST_TABLE + r, gateway, r, addr, HOST_TABLE + r);
    if (r == 0) {
        fprintf(stream, "route replace default via %s dev rail0\n", gateway);
    }
}

static void address_host(const lab_t *lab, const mrail_fabric_node_t *node,
                         FILE *stream)
{
    char addr[16];

    fprintf(stream,
            "addr add %s/15 dev mgmt\n"
            "link set mgmt up\n",
            lab_addr(LAB_MGMT_NET + 2 + node->place, addr));
    for (uint32_t r = 0; r < node->num_up; ++r) {
        lab_addr(lab->fabric->links[node->up[r]].addr, addr);
        fprintf(stream,
                "addr add %s/24 dev rail%u\n"
                "link set rail%u up\n"
                "rule add priority %u from %s lookup %u\n",
                addr, r, r, 1000 + r, addr, HOST_TABLE + r);
        host_routes(lab, node->up[r], stream);
    }
}

static void address_links(const lab_t *lab, const mrail_fabric_node_t *node,
                          int is_upper, FILE *stream)
{
    const uint32_t *links = is_upper ? node->down : node->up;
    uint32_t num = is_upper ? node->num_down : node->num_up;
    char addr[16], name[16];

    for (uint32_t i = 0; i < num; ++i) {
        lab_interface(lab, links[i], is_upper, name);
        if (lab->fabric->links[links[i]].addr == 0) {
            fprintf(stream, "addr add %s/31 dev %s\n",
                    lab_addr(lab_switch_addr(links[i], is_upper), addr), name);
        }
        fprintf(stream, "link set %s up\n", name);
    }
}

static void address_node(const lab_t *lab, uint32_t index)
{
    const mrail_fabric_node_t *node = &lab->fabric->nodes[index];
    char addr[16];
    batch_t batch;
    FILE *stream = batch_open(&batch);

    fputs("link set lo up\n", stream);
    if (node->tier == MRAIL_FABRIC_HOST) {
        address_host(lab, node, stream);
    } else {
        if (node->tier == MRAIL_FABRIC_LEAF && node->num_down > 0) {
            fprintf(stream, "addr add %s/24 dev hosts\n",
                    lab_addr(lab_subnet(lab, node->place) | 1, addr));
        }
        address_links(lab, node, 1, stream);
        address_links(lab, node, 0, stream);
    }
    batch_run(&batch, node->name, "ip", "-batch");
}

void lab_host_routes_apply(const lab_t *lab, uint32_t link)
{
    batch_t batch;

    host_routes(lab, link, batch_open(&batch));
    batch_run(&batch, lab_name(lab, lab->fabric->links[link].lower), "ip",
              "-batch");
}

/* ---- Rates ---- */

static void shape(const lab_t *lab, uint32_t link, int is_upper, FILE *stream)
{
    uint64_t rate = lab->fabric->links[link].bytes_per_s;
    uint64_t burst = MRAIL_MAX(rate / BURST_PER_S, (uint64_t)MIN_BURST);
    char name[16];

    fprintf(stream,
            "qdisc add dev %s root tbf rate %llubps burst %llu limit %llu\n",
            lab_interface(lab, link, is_upper, name), (unsigned long long)rate,
            (unsigned long long)burst,
            (unsigned long long)MRAIL_MAX(lab->queue, burst));
}

static void shape_node(const lab_t *lab, uint32_t index)
{
    const mrail_fabric_node_t *node = &lab->fabric->nodes[index];
    batch_t batch;
    FILE *stream = batch_open(&batch);

    for (uint32_t i = 0; i < node->num_up; ++i) {
        shape(lab, node->up[i], 0, stream);
    }
    for (uint32_t i = 0; i < node->num_down; ++i) {
        shape(lab, node->down[i], 1, stream);
    }
    batch_run(&batch, node->name, "tc", "-batch");
}

/* ---- Routes and rules ---- */

void lab_routes_apply(const lab_t *lab)
{
    for (uint32_t i = 0; i < lab->fabric->num_nodes; ++i) {
        batch_t batch;

        if (lab->fabric->nodes[i].tier != MRAIL_FABRIC_HOST) {
            lab_routes_write(lab, i, batch_open(&batch));
            batch_run(&batch, lab_name(lab, i), "ip", "-batch");
        }
    }
}

void lab_rules_apply(const lab_t *lab, uint32_t node)
{
    batch_t batch;

    lab_rules_write(lab, node, batch_open(&batch));
    batch_run(&batch, lab_name(lab, node), "sh", "-s");
}

/* ---- All ---- */

/* Brings up the bridges after their ports, so that they forward immediately. In
 * the opposite order, the kernel takes up to a second to detect the carrier of
 * a bridge. */
static void start_bridges(const lab_t *lab)
{
    const mrail_fabric_t *fabric = lab->fabric;

    for (uint32_t i = 0; i < fabric->num_of[MRAIL_FABRIC_LEAF]; ++i) {
        batch_t batch;

        fputs("link set hosts up\n", batch_open(&batch));
        batch_run(&batch, lab_name(lab, fabric->of[MRAIL_FABRIC_LEAF][i]), "ip",
                  "-batch");
    }
}

void lab_build(const lab_t *lab)
{
    const mrail_fabric_t *fabric = lab->fabric;

    for (uint32_t i = 0; i < fabric->num_nodes; ++i) {
        lab_ns_create(lab_name(lab, i), fabric->nodes[i].tier,
                      mrail_mix64(lab->seed ^ ((uint64_t)i << 32)));
    }
    make_mgmt(lab);
    for (uint32_t i = 0; i < fabric->num_nodes; ++i) {
        if (fabric->nodes[i].tier != MRAIL_FABRIC_HOST) {
            make_links(lab, i);
        }
    }
    for (uint32_t i = 0; i < fabric->num_nodes; ++i) {
        address_node(lab, i);
        shape_node(lab, i);
    }
    start_bridges(lab);
    lab_routes_apply(lab);
    for (uint32_t i = 0; i < fabric->num_nodes; ++i) {
        lab_rules_apply(lab, i);
    }
    lab_counters_await(LAB_COMMAND, lab);
}
