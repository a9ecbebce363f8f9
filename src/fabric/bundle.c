#include "config.h"
#include "fabric/bundle.h"

#include <errno.h>
#include <stdlib.h>

/* ---- Pods: union-find over leaves and spines ---- */

static uint32_t root_of(uint32_t *parent, uint32_t n)
{
    while (parent[n] != n) {
        parent[n] = parent[parent[n]];
        n = parent[n];
    }
    return n;
}

/* Numbers the pods in the order of their first leaf. */
static int find_pods(mrail_bundles_t *bundles, const mrail_fabric_t *fabric,
                     uint32_t *pod_of_node)
{
    uint32_t *parent = malloc(fabric->num_nodes * sizeof(*parent));

    if (parent == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < fabric->num_nodes; ++i) {
        parent[i] = i;
        pod_of_node[i] = MRAIL_FABRIC_NONE;
    }
    for (uint32_t i = 0; i < fabric->num_links; ++i) {
        const mrail_fabric_link_t *link = &fabric->links[i];

        if (fabric->nodes[link->lower].tier == MRAIL_FABRIC_LEAF) {
            parent[root_of(parent, link->lower)] = root_of(parent, link->upper);
        }
    }
    for (uint32_t i = 0; i < fabric->num_of[MRAIL_FABRIC_LEAF]; ++i) {
        uint32_t root = root_of(parent, fabric->of[MRAIL_FABRIC_LEAF][i]);

        if (pod_of_node[root] == MRAIL_FABRIC_NONE) {
            pod_of_node[root] = bundles->num_pods++;
        }
        bundles->pod[i] = pod_of_node[root];
    }
    for (uint32_t i = 0; i < fabric->num_nodes; ++i) {
        pod_of_node[i] = pod_of_node[root_of(parent, i)];
    }
    free(parent);
    return 0;
}

/* ---- Links ---- */

static void add_link(mrail_bundles_t *bundles, uint32_t link, uint32_t bundle,
                     double capacity)
{
    bundles->of_link[MRAIL_ROUTE_UP(link)] = bundle;
    bundles->of_link[MRAIL_ROUTE_DOWN(link)] = bundle + 1;
    bundles->capacity[bundle] += capacity;
    bundles->capacity[bundle + 1] += capacity;
}

static void add_links(mrail_bundles_t *bundles, const mrail_fabric_t *fabric,
                      const uint8_t *is_down, const uint32_t *pod_of_node)
{
    uint32_t leaves = fabric->num_of[MRAIL_FABRIC_LEAF];

    for (uint32_t i = 0; i < fabric->num_links; ++i) {
        const mrail_fabric_link_t *link = &fabric->links[i];
        const mrail_fabric_node_t *lower = &fabric->nodes[link->lower];
        double capacity =
            (is_down != NULL && is_down[i]) ? 0 : (double)link->bytes_per_s;

        if (lower->tier == MRAIL_FABRIC_LEAF) {
            add_link(bundles, i, 2 * lower->place, capacity);
        } else if (lower->tier == MRAIL_FABRIC_SPINE &&
                   pod_of_node[link->lower] != MRAIL_FABRIC_NONE) {
            add_link(bundles, i, 2 * (leaves + pod_of_node[link->lower]),
                     capacity);
        }
    }
}

int mrail_bundles_init(mrail_bundles_t *bundles, const mrail_fabric_t *fabric,
                       const uint8_t *is_down)
{
    uint32_t leaves = fabric->num_of[MRAIL_FABRIC_LEAF];
    uint32_t *pod_of_node = malloc(fabric->num_nodes * sizeof(*pod_of_node));
    int ret = -ENOMEM;

    *bundles = (mrail_bundles_t){.num = 0};
    bundles->pod = malloc((leaves + 1) * sizeof(*bundles->pod));
    bundles->capacity =
        calloc(4 * (size_t)leaves + 1, sizeof(*bundles->capacity));
    bundles->of_link =
        malloc(2 * (size_t)fabric->num_links * sizeof(*bundles->of_link));
    if (pod_of_node != NULL && bundles->pod != NULL &&
        bundles->capacity != NULL && bundles->of_link != NULL) {
        ret = find_pods(bundles, fabric, pod_of_node);
    }
    if (ret == 0) {
        for (uint32_t i = 0; i < 2 * fabric->num_links; ++i) {
            bundles->of_link[i] = MRAIL_FABRIC_NONE;
        }
        bundles->num = 2 * (leaves + bundles->num_pods);
        add_links(bundles, fabric, is_down, pod_of_node);
    } else {
        mrail_bundles_cleanup(bundles);
    }
    free(pod_of_node);
    return ret;
}

void mrail_bundles_cleanup(mrail_bundles_t *bundles)
{
    free(bundles->pod);
    free(bundles->capacity);
    free(bundles->of_link);
    *bundles = (mrail_bundles_t){.num = 0};
}

unsigned mrail_bundles_route(const mrail_bundles_t *bundles,
                             const mrail_fabric_t *fabric, uint32_t from,
                             uint32_t to, uint32_t bundle[4])
{
    uint32_t leaves = fabric->num_of[MRAIL_FABRIC_LEAF];
    uint32_t source = fabric->nodes[fabric->links[from].upper].place;
    uint32_t target = fabric->nodes[fabric->links[to].upper].place;
    unsigned num = 0;

    if (source == target) {
        return 0;
    }
    bundle[num++] = 2 * source;
    if (bundles->pod[source] != bundles->pod[target]) {
        bundle[num++] = 2 * (leaves + bundles->pod[source]);
        bundle[num++] = 2 * (leaves + bundles->pod[target]) + 1;
    }
    bundle[num++] = 2 * target + 1;
    return num;
}
