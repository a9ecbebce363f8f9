/*
 * Fuzzes the input of `mrail lab` and `mrail simulate`: random bytes as a
 * fabric.
 *
 * Invariants: an error gives the location and the reason, and nothing is
 * returned. In an accepted fabric, all indices are in range, each link leads
 * one tier up, addresses are unique, and both ends of a link agree about it.
 */
#include "config.h"
#include "fuzz.h"
#include "fabric/fabric.h"

#include <errno.h>

static void check_link(const mrail_fabric_t *fabric, uint32_t i)
{
    const mrail_fabric_link_t *link = &fabric->links[i];
    const mrail_fabric_node_t *lower, *upper;

    FUZZ_CHECK(link->lower < fabric->num_nodes &&
                   link->upper < fabric->num_nodes,
               "link %u: nodes %u, %u", i, link->lower, link->upper);
    lower = &fabric->nodes[link->lower];
    upper = &fabric->nodes[link->upper];
    FUZZ_CHECK(upper->tier == lower->tier + 1, "link %u: tiers %d, %d", i,
               lower->tier, upper->tier);
    FUZZ_CHECK(link->lower_port < lower->num_up &&
                   lower->up[link->lower_port] == i,
               "link %u: lower port %u", i, link->lower_port);
    FUZZ_CHECK(link->upper_port < upper->num_down &&
                   upper->down[link->upper_port] == i,
               "link %u: upper port %u", i, link->upper_port);
    FUZZ_CHECK(link->bytes_per_s >= 1000, "link %u: rate", i);
    FUZZ_CHECK((link->addr != 0) == (lower->tier == MRAIL_FABRIC_HOST),
               "link %u: address %#x", i, link->addr);
    if (link->addr != 0) {
        FUZZ_CHECK(mrail_fabric_addr_find(fabric, link->addr) == i,
                   "link %u: address %#x is not unique", i, link->addr);
    }
}

static void check_node(const mrail_fabric_t *fabric, uint32_t i)
{
    const mrail_fabric_node_t *node = &fabric->nodes[i];

    FUZZ_CHECK(node->tier < MRAIL_FABRIC_NUM_TIERS, "node %u: tier", i);
    FUZZ_CHECK(node->place < fabric->num_of[node->tier] &&
                   fabric->of[node->tier][node->place] == i,
               "node %u: place %u", i, node->place);
    FUZZ_CHECK(mrail_fabric_node_find(fabric, node->name) == i,
               "name '%s' is not unique", node->name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mrail_fabric_t *fabric = NULL;
    char reason[512] = "";
    int ret;

    if (size > 2000) {
        return 0; /* a few lines suffice for any kind of fabric */
    }
    ret = mrail_fabric_parse("x", (const char *)data, size, &fabric, reason,
                             sizeof(reason));
    if (ret != 0) {
        FUZZ_CHECK(ret == -EINVAL, "%d", ret);
        FUZZ_CHECK(fabric == NULL, "a fabric is returned despite an error");
        FUZZ_CHECK((strncmp(reason, "x:", 2) == 0) && (reason[2] >= '1') &&
                       (reason[2] <= '9') && (strchr(reason, ' ') != NULL),
                   "says '%s'", reason);
        return 0;
    }
    for (uint32_t i = 0; i < MRAIL_MIN(fabric->num_links, 500); ++i) {
        check_link(fabric, i);
    }
    for (uint32_t i = 0; i < MRAIL_MIN(fabric->num_nodes, 500); ++i) {
        check_node(fabric, i);
    }
    mrail_fabric_destroy(fabric);
    return 0;
}
