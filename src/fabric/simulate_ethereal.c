/*
 * Implements the method of Ethereal: batches, path assignment, random order and
 * starts, and path states. Source: [Ethereal] 3, Algorithm 1.
 */
#include "config.h"
#include "fabric/simulate_internal.h"

#include "base/util.h"
#include "fabric/ethereal.h"
#include "orchestrator/ports.h"

#include <errno.h>
#include <stdlib.h>

/* ---- Paths ---- */

static uint32_t gcd(uint32_t a, uint32_t b)
{
    return (b == 0) ? a : gcd(b, a % b);
}

static uint32_t lcm(uint32_t a, uint32_t b)
{
    return a / gcd(a, b) * b;
}

/*
 * Returns the port of path `path` of a NIC. There are lcm(uplinks, spine
 * uplinks) paths: leaf uplinks and spine uplinks advance together. The first
 * spine uplink depends on the leaf, so that the leaves of a pod together use
 * all uplinks of each spine.
 */
static uint16_t path_port(const sim_t *sim, uint32_t nic, uint32_t path)
{
    uint32_t leaf = sim->fabric->nodes[sim->fabric->links[nic].upper].place;
    unsigned uplinks, spine_uplinks, turn;
    uint32_t leaves = 0;
    uint16_t first, last;

    mrail_fabric_segments(sim->fabric, nic, &uplinks, &spine_uplinks);
    for (uint32_t i = 0; i < sim->fabric->num_of[MRAIL_FABRIC_LEAF]; ++i) {
        leaves += (sim->bundles.pod[i] == sim->bundles.pod[leaf]);
    }
    turn = leaf * MRAIL_MAX(spine_uplinks / leaves, 1u);
    mrail_ports_segment_nested(uplinks, spine_uplinks, path % uplinks,
                               (path + turn) % spine_uplinks, &first, &last);
    return first;
}

/* Returns the number of paths over different uplinks from a NIC to a leaf. */
static uint32_t num_paths(const sim_t *sim, uint32_t nic, uint32_t target)
{
    const mrail_fabric_node_t *nodes = sim->fabric->nodes;
    uint32_t source = sim->fabric->links[nic].upper;
    unsigned uplinks, spine_uplinks;

    if (source == target) {
        return 1; /* traffic below one leaf uses no uplink */
    }
    mrail_fabric_segments(sim->fabric, nic, &uplinks, &spine_uplinks);
    if (sim->bundles.pod[nodes[source].place] ==
        sim->bundles.pod[nodes[target].place]) {
        return uplinks;
    }
    return lcm(uplinks, spine_uplinks);
}

static uint32_t target_leaf(const sim_t *sim, uint32_t m)
{
    return sim->fabric->links[sim->messages[m].to].upper;
}

/* ---- Path states ---- */

/* The paper identifies a path by its uplinks, so a path that failed towards one
 * leaf is bad for all leaves. Source: [Ethereal] 3.3. */
struct mrail_sim_paths {
    uint32_t num_links;
    mrail_ethereal_paths_t *of_nic; /* by host link; num is 0 before use */
};

mrail_sim_paths_t *mrail_sim_paths_create(const mrail_fabric_t *fabric)
{
    mrail_sim_paths_t *paths = calloc(1, sizeof(*paths));

    if (paths == NULL) {
        return NULL;
    }
    paths->num_links = fabric->num_links;
    paths->of_nic = calloc(paths->num_links + 1, sizeof(*paths->of_nic));
    if (paths->of_nic == NULL) {
        free(paths);
        return NULL;
    }
    return paths;
}

void mrail_sim_paths_destroy(mrail_sim_paths_t *paths)
{
    if (paths == NULL) {
        return;
    }
    for (uint32_t i = 0; i < paths->num_links; ++i) {
        free(paths->of_nic[i].bad_until_ns);
    }
    free(paths->of_nic);
    free(paths);
}

static mrail_ns_t now_ns(const sim_t *sim)
{
    return sim->params->start_ns + (mrail_ns_t)(sim->carried_s * 1e9);
}

/* Sets *paths_p to the states of the paths from a NIC to a leaf, which are the
 * first ones of the NIC. Returns 0 or -ENOMEM. */
static int find_paths(const sim_t *sim, uint32_t nic, uint32_t target,
                      mrail_ethereal_paths_t *paths_p)
{
    mrail_ethereal_paths_t *all = &sim->paths->of_nic[nic];
    unsigned uplinks, spine_uplinks;

    if (all->num == 0) {
        mrail_ns_t *bad_until_ns;
        uint32_t num;

        mrail_fabric_segments(sim->fabric, nic, &uplinks, &spine_uplinks);
        num = lcm(uplinks, spine_uplinks);
        bad_until_ns = malloc(num * sizeof(*bad_until_ns));
        if (bad_until_ns == NULL) {
            return -ENOMEM;
        }
        mrail_ethereal_paths_init(all, bad_until_ns, num);
    }
    *paths_p = (mrail_ethereal_paths_t){.num = num_paths(sim, nic, target),
                                        .bad_until_ns = all->bad_until_ns};
    return 0;
}

/* Marks the flow's path as bad, then tries random good paths until one of them
 * works. */
static int try_good_paths(sim_t *sim, const sim_flow_t *flow,
                          mrail_ethereal_paths_t *paths, uint32_t *usable)
{
    uint32_t nic = sim->messages[flow->message].from, path = flow->path;
    int ret = -EHOSTUNREACH;

    while (ret == -EHOSTUNREACH) {
        uint32_t num;

        mrail_ethereal_path_fail(paths, path, now_ns(sim),
                                 MRAIL_MAX(sim->params->retry_ns, 1));
        num = mrail_ethereal_paths_usable(paths, now_ns(sim), usable);
        if (num == paths->num) {
            return -EHOSTUNREACH; /* no path is good */
        }
        path = usable[mrail_rng_below(&sim->rng, num)];
        ret = mrail_sim_add_flow(sim, flow->message, path_port(sim, nic, path));
    }
    return ret;
}

int mrail_sim_reroute(sim_t *sim, const sim_flow_t *flow)
{
    uint32_t nic = sim->messages[flow->message].from;
    uint32_t target = target_leaf(sim, flow->message);
    mrail_ethereal_paths_t paths;
    uint32_t *usable;
    int ret;

    if (sim->fabric->links[nic].upper == target) {
        return -EHOSTUNREACH; /* traffic below one leaf has only one path */
    }
    ret = find_paths(sim, nic, target, &paths);
    if (ret != 0) {
        return ret;
    }
    usable = malloc(paths.num * sizeof(*usable));
    if (usable == NULL) {
        return -ENOMEM;
    }
    ret = try_good_paths(sim, flow, &paths, usable);
    free(usable);
    return ret;
}

/* ---- Batches of equal flows towards a leaf ---- */

typedef struct batch {
    uint32_t nic, target;
    uint32_t num;      /* messages */
    uint32_t *message; /* by number in the batch */
    uint32_t *order;   /* numbers of messages, in random order */
} batch_t;

/* Adds a piece of a message on a path. It starts after a small random interval,
 * except below one leaf. */
static int add_piece(sim_t *sim, const batch_t *batch, uint32_t m,
                     uint32_t pieces, uint32_t path)
{
    int is_local = sim->fabric->links[batch->nic].upper == batch->target;
    int ret = mrail_sim_add_single(sim, m, sim->messages[m].bytes / pieces,
                                   path_port(sim, batch->nic, path));
    sim_flow_t *flow;

    if (ret != 0) {
        return ret;
    }
    flow = &sim->flows[sim->num_flows - 1];
    flow->path = path;
    if (!is_local) {
        flow->start_s =
            (double)mrail_ethereal_stagger(&sim->rng, sim->params->stagger_ns) /
            1e9;
        mrail_fluid_group_start(sim->fluid, flow->start_s);
    }
    return 0;
}

/* Adds the messages of a batch in random order over `num` paths. */
static int add_pieces(sim_t *sim, const batch_t *batch, const uint32_t *paths,
                      uint32_t num)
{
    mrail_ethereal_split_t split = mrail_ethereal_split(batch->num, num);
    int ret = 0;

    mrail_ethereal_shuffle(&sim->rng, batch->order, batch->num);
    for (uint64_t i = 0; i < mrail_ethereal_num_pieces(&split) && ret == 0;
         ++i) {
        mrail_ethereal_piece_t piece = mrail_ethereal_piece(&split, i);

        ret = add_piece(sim, batch, batch->message[batch->order[piece.flow]],
                        piece.pieces, paths[piece.uplink]);
    }
    return ret;
}

/* Adds the messages of a batch over the good paths. */
static int add_batch(sim_t *sim, const batch_t *batch)
{
    mrail_ethereal_paths_t paths;
    uint32_t *usable;
    int ret = find_paths(sim, batch->nic, batch->target, &paths);

    if (ret != 0) {
        return ret;
    }
    usable = malloc(paths.num * sizeof(*usable));
    if (usable == NULL) {
        return -ENOMEM;
    }
    ret = add_pieces(sim, batch, usable,
                     mrail_ethereal_paths_usable(&paths, now_ns(sim), usable));
    free(usable);
    return ret;
}

typedef struct batch_key {
    uint32_t from, leaf, m;
    double bytes;
} batch_key_t;

static int compare_keys(const void *left, const void *right)
{
    const batch_key_t *a = left, *b = right;

    if (a->from != b->from) {
        return (a->from < b->from) ? -1 : 1;
    }
    if (a->leaf != b->leaf) {
        return (a->leaf < b->leaf) ? -1 : 1;
    }
    if (a->bytes != b->bytes) {
        return (a->bytes < b->bytes) ? -1 : 1;
    }
    return (a->m < b->m) ? -1 : 1;
}

static int is_same_batch(const batch_key_t *a, const batch_key_t *b)
{
    return a->from == b->from && a->leaf == b->leaf && a->bytes == b->bytes;
}

int mrail_sim_add_ethereal(sim_t *sim)
{
    size_t num = sim->num_messages;
    batch_key_t *keys = malloc((num + 1) * sizeof(*keys));
    batch_t batch = {.message = malloc((num + 1) * sizeof(uint32_t)),
                     .order = malloc((num + 1) * sizeof(uint32_t))};
    int ret = (keys == NULL || batch.message == NULL || batch.order == NULL)
                  ? -ENOMEM
                  : 0;

    for (uint32_t m = 0; m < num && ret == 0; ++m) {
        keys[m] = (batch_key_t){.from = sim->messages[m].from,
                                .leaf = target_leaf(sim, m),
                                .m = m,
                                .bytes = sim->messages[m].bytes};
    }
    if (ret == 0) {
        qsort(keys, num, sizeof(*keys), compare_keys);
    }
    for (uint32_t first = 0, end; first < num && ret == 0; first = end) {
        for (end = first; end < num && is_same_batch(&keys[first], &keys[end]);
             ++end) {
            batch.message[end - first] = keys[end].m;
        }
        batch.nic = keys[first].from;
        batch.target = keys[first].leaf;
        batch.num = end - first;
        ret = add_batch(sim, &batch);
    }
    free(keys);
    free(batch.message);
    free(batch.order);
    return ret;
}
