#include "config.h"
#include "mpi/coll/unplanned.h"

#include "base/util.h"
#include "orchestrator/topo.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Kinds of links, numbered as in the planner. Each kind has an array of links,
 * indexed by `a` and rail. For GPU links, the indices are `a` and the index of
 * `b` in its node. */
#define NUM_KINDS (MRAIL_PLAN_REACH_IN + 1)
#define NONE UINT32_MAX

struct mca_coll_mrail_unplanned {
    const mca_coll_mrail_topology_t *topology;
    int is_on_devices;
    unsigned num_links, num_groups;
    double *capacity, *bytes; /* by link */
    /* the link, or NONE; indexed by kind, then by node, leaf group or rank,
     * then by rail or index */
    uint32_t *links[NUM_KINDS];
    uint32_t *place; /* by rank: index of the rank in its node */
    /* by rank: bytes to and from ranks of its node, and capacities of its links
     * to and from other GPUs */
    double *near_out, *near_in, *gpu_out, *gpu_in;
    uint32_t *group_of;           /* by node */
    double *out_bytes, *in_bytes; /* by node, then by leaf group: bytes to and
                                   * from other nodes or groups */
    int is_cut_off;               /* 1 if a demand has no path without relays */
};

static uint32_t group_of_node(const mca_coll_mrail_topology_t *topology,
                              unsigned node)
{
    unsigned rank = 0;

    if (topology->file == NULL) {
        return 0;
    }
    while (topology->node_of[rank] != node) {
        ++rank;
    }
    return mrail_topo_group_of(topology->file, topology->world[rank]);
}

static size_t rows_of(const mca_coll_mrail_unplanned_t *model, unsigned kind)
{
    switch (kind) {
    case MRAIL_PLAN_RAIL_OUT:
    case MRAIL_PLAN_RAIL_IN:
        return model->topology->num_nodes;
    case MRAIL_PLAN_UPLINK_UP:
    case MRAIL_PLAN_UPLINK_DOWN:
        return model->num_groups;
    case MRAIL_PLAN_GPU_LINK:
        return model->is_on_devices ? model->topology->num_ranks : 0;
    default:
        return model->topology->num_ranks;
    }
}

static size_t columns_of(const mca_coll_mrail_unplanned_t *model, unsigned kind)
{
    return (kind == MRAIL_PLAN_GPU_LINK) ? MRAIL_PLAN_MAX_PAIRWISE
                                         : model->topology->num_rails;
}

/* `b` is a rail, or the rank at the other end of a GPU link. */
static uint32_t *link_at(const mca_coll_mrail_unplanned_t *model,
                         mrail_plan_link_kind_t kind, uint32_t a, uint32_t b)
{
    size_t column = (kind == MRAIL_PLAN_GPU_LINK) ? model->place[b] : b;

    return &model->links[kind][a * columns_of(model, kind) + column];
}

/* Adds up the capacities of a rank's links to other GPUs. */
static void read_gpu_link(mca_coll_mrail_unplanned_t *model,
                          const mrail_plan_link_t *link)
{
    if (link->kind == MRAIL_PLAN_GPU_LINK) {
        model->gpu_out[link->a] += link->capacity;
        model->gpu_in[link->b] += link->capacity;
    } else if (link->kind == MRAIL_PLAN_SWITCH_UP) {
        model->gpu_out[link->a] = link->capacity;
    } else if (link->kind == MRAIL_PLAN_SWITCH_DOWN) {
        model->gpu_in[link->a] = link->capacity;
    }
}

static void read_links(mca_coll_mrail_unplanned_t *model,
                       const mrail_plan_t *plan)
{
    for (unsigned i = 0; i < model->num_links; ++i) {
        mrail_plan_link_t link;

        mrail_plan_link(plan, i, &link);
        model->capacity[i] = link.capacity;
        if (link.a < rows_of(model, link.kind)) {
            *link_at(model, link.kind, link.a, link.b) = i;
            read_gpu_link(model, &link);
        }
    }
}

static void set_places(mca_coll_mrail_unplanned_t *model)
{
    const mca_coll_mrail_topology_t *topology = model->topology;

    for (unsigned node = 0; node < topology->num_nodes; ++node) {
        uint32_t next = 0;

        for (unsigned i = 0; i < topology->num_ranks; ++i) {
            if (topology->node_of[i] == node) {
                model->place[i] = next++;
            }
        }
    }
}

static int allocate_ranks(mca_coll_mrail_unplanned_t *model)
{
    size_t ranks = model->topology->num_ranks;

    model->place = calloc(ranks, sizeof(*model->place));
    model->near_out = calloc(ranks, sizeof(*model->near_out));
    model->near_in = calloc(ranks, sizeof(*model->near_in));
    model->gpu_out = calloc(ranks, sizeof(*model->gpu_out));
    model->gpu_in = calloc(ranks, sizeof(*model->gpu_in));
    if (model->place == NULL || model->near_out == NULL ||
        model->near_in == NULL || model->gpu_out == NULL ||
        model->gpu_in == NULL) {
        return -ENOMEM;
    }
    set_places(model);
    return 0;
}

static int allocate(mca_coll_mrail_unplanned_t *model)
{
    size_t sums = model->topology->num_nodes + model->num_groups;

    model->capacity = calloc(model->num_links, sizeof(*model->capacity));
    model->bytes = calloc(model->num_links, sizeof(*model->bytes));
    model->out_bytes = calloc(sums, sizeof(*model->out_bytes));
    model->in_bytes = calloc(sums, sizeof(*model->in_bytes));
    if (model->capacity == NULL || model->bytes == NULL ||
        model->out_bytes == NULL || model->in_bytes == NULL) {
        return -ENOMEM;
    }
    for (unsigned kind = 0; kind < NUM_KINDS; ++kind) {
        size_t count = rows_of(model, kind) * columns_of(model, kind);

        model->links[kind] = malloc((count + 1) * sizeof(*model->links[kind]));
        if (model->links[kind] == NULL) {
            return -ENOMEM;
        }
        memset(model->links[kind], 0xff, count * sizeof(*model->links[kind]));
    }
    return allocate_ranks(model);
}

int mca_coll_mrail_unplanned_create(const mca_coll_mrail_topology_t *topology,
                                    int is_on_devices, const mrail_plan_t *plan,
                                    mca_coll_mrail_unplanned_t **model_p)
{
    mca_coll_mrail_unplanned_t *model = calloc(1, sizeof(*model));

    if (model == NULL) {
        return -ENOMEM;
    }
    model->topology = topology;
    model->is_on_devices = is_on_devices;
    model->num_links = mrail_plan_num_links(plan);
    model->group_of = calloc(topology->num_nodes, sizeof(*model->group_of));
    if (model->group_of == NULL) {
        goto err_model;
    }
    for (unsigned node = 0; node < topology->num_nodes; ++node) {
        model->group_of[node] = group_of_node(topology, node);
        model->num_groups =
            MRAIL_MAX(model->num_groups, model->group_of[node] + 1);
    }
    if (allocate(model) < 0) {
        goto err_model;
    }
    read_links(model, plan);
    *model_p = model;
    return 0;

err_model:
    mca_coll_mrail_unplanned_destroy(model);
    return -ENOMEM;
}

void mca_coll_mrail_unplanned_destroy(mca_coll_mrail_unplanned_t *model)
{
    if (model != NULL) {
        for (unsigned kind = 0; kind < NUM_KINDS; ++kind) {
            free(model->links[kind]);
        }
        free(model->group_of);
        free(model->place);
        free(model->near_out);
        free(model->near_in);
        free(model->gpu_out);
        free(model->gpu_in);
        free(model->capacity);
        free(model->bytes);
        free(model->out_bytes);
        free(model->in_bytes);
        free(model);
    }
}

/* ---- exchange ---- */

/* Returns the capacity of a link, or infinity if there is none. */
static double capacity_of(const mca_coll_mrail_unplanned_t *model,
                          mrail_plan_link_kind_t kind, uint32_t a,
                          uint32_t rail)
{
    uint32_t link = *link_at(model, kind, a, rail);

    return (link != NONE) ? model->capacity[link] : INFINITY;
}

static void add(mca_coll_mrail_unplanned_t *model, mrail_plan_link_kind_t kind,
                uint32_t a, uint32_t b, double bytes)
{
    uint32_t link = *link_at(model, kind, a, b);

    if (link != NONE) {
        model->bytes[link] += bytes;
    }
}

/* Returns the rate at which a rank can send (is_out) or receive on a rail. */
static double rate_of(const mca_coll_mrail_unplanned_t *model, uint32_t rank,
                      uint32_t rail, int is_out)
{
    const mca_coll_mrail_topology_t *topology = model->topology;
    double port, reach;

    if ((topology->rails_of[rank] >> rail & 1) == 0) {
        return 0;
    }
    port = capacity_of(model, is_out ? MRAIL_PLAN_RAIL_OUT : MRAIL_PLAN_RAIL_IN,
                       topology->node_of[rank], rail);
    reach = capacity_of(
        model, is_out ? MRAIL_PLAN_REACH_OUT : MRAIL_PLAN_REACH_IN, rank, rail);
    return isinf(port) ? 0 : MRAIL_MIN(port, reach);
}

/* Adds bytes to the links at one end of a path. */
static void add_end(mca_coll_mrail_unplanned_t *model, uint32_t rank,
                    uint32_t rail, int is_out, int is_far, double bytes)
{
    uint32_t node = model->topology->node_of[rank];

    add(model, is_out ? MRAIL_PLAN_RAIL_OUT : MRAIL_PLAN_RAIL_IN, node, rail,
        bytes);
    add(model, is_out ? MRAIL_PLAN_REACH_OUT : MRAIL_PLAN_REACH_IN, rank, rail,
        bytes);
    if (is_far) {
        add(model, is_out ? MRAIL_PLAN_UPLINK_UP : MRAIL_PLAN_UPLINK_DOWN,
            model->group_of[node], rail, bytes);
    }
}

/* Splits bytes across the rails of one end, in proportion to these rates. */
static void divide(mca_coll_mrail_unplanned_t *model, uint32_t rank, int is_out,
                   int is_far, const double *rates, double bytes)
{
    unsigned rails = model->topology->num_rails;
    double sum = 0;

    for (unsigned rail = 0; rail < rails; ++rail) {
        sum += rates[rail];
    }
    if (sum <= 0) {
        model->is_cut_off = 1;
        return;
    }
    for (unsigned rail = 0; rail < rails; ++rail) {
        if (rates[rail] > 0) {
            add_end(model, rank, rail, is_out, is_far,
                    bytes * (rates[rail] / sum));
        }
    }
}

/* Returns 0 if the uplinks of one of the two leaf groups are down on this rail.
 * The planner has no link for them. */
static int is_connected(const mca_coll_mrail_topology_t *topology,
                        uint32_t from, uint32_t to, uint32_t rail)
{
    return from == to ||
           (mrail_topo_uplinks(topology->file, from, rail).out != 0 &&
            mrail_topo_uplinks(topology->file, to, rail).in != 0);
}

static void add_demand(mca_coll_mrail_unplanned_t *model,
                       const mrail_plan_demand_t *demand)
{
    const mca_coll_mrail_topology_t *topology = model->topology;
    uint32_t from = model->group_of[topology->node_of[demand->from]];
    uint32_t to = model->group_of[topology->node_of[demand->to]];
    double out[UCT_MRAIL_MAX_RAILS], in[UCT_MRAIL_MAX_RAILS],
        common[UCT_MRAIL_MAX_RAILS], bytes = (double)demand->bytes;
    int is_common = 0, is_far;

    for (unsigned rail = 0; rail < topology->num_rails; ++rail) {
        out[rail] = rate_of(model, demand->from, rail, 1);
        in[rail] = rate_of(model, demand->to, rail, 0);
        common[rail] = is_connected(topology, from, to, rail)
                           ? MRAIL_MIN(out[rail], in[rail])
                           : 0;
        is_common |= common[rail] > 0;
    }
    model->is_cut_off |=
        !is_common && !mca_coll_mrail_topology_has_cross_rail(topology);
    /* Bytes that cross a spine also cross the uplinks, even within a leaf
     * group. */
    is_far = from != to || !is_common;
    divide(model, demand->from, 1, is_far, is_common ? common : out, bytes);
    divide(model, demand->to, 0, is_far, is_common ? common : in, bytes);
}

/* Adds a demand to the sums of nodes and leaf groups. */
static void add_sums(mca_coll_mrail_unplanned_t *model,
                     const mrail_plan_demand_t *demand)
{
    unsigned nodes = model->topology->num_nodes;
    uint32_t from = model->topology->node_of[demand->from];
    uint32_t to = model->topology->node_of[demand->to];

    model->out_bytes[from] += (double)demand->bytes;
    model->in_bytes[to] += (double)demand->bytes;
    if (model->group_of[from] != model->group_of[to]) {
        model->out_bytes[nodes + model->group_of[from]] +=
            (double)demand->bytes;
        model->in_bytes[nodes + model->group_of[to]] += (double)demand->bytes;
    }
}

/* Adds a demand within a node. */
static void add_near(mca_coll_mrail_unplanned_t *model,
                     const mrail_plan_demand_t *demand)
{
    double bytes = (double)demand->bytes;

    if (!model->is_on_devices && model->topology->is_soft) {
        add_demand(model, demand); /* uses the rails; see schedule_cut.c */
        return;
    }
    add(model, MRAIL_PLAN_SWITCH_UP, demand->from, 0, bytes);
    add(model, MRAIL_PLAN_SWITCH_DOWN, demand->to, 0, bytes);
    if (model->is_on_devices) {
        if (model->place[demand->to] < MRAIL_PLAN_MAX_PAIRWISE) {
            add(model, MRAIL_PLAN_GPU_LINK, demand->from, demand->to, bytes);
        }
        model->near_out[demand->from] += bytes;
        model->near_in[demand->to] += bytes;
    }
}

void mca_coll_mrail_unplanned_set(mca_coll_mrail_unplanned_t *model,
                                  const mrail_plan_demand_t *demands,
                                  size_t num_demands)
{
    const mca_coll_mrail_topology_t *topology = model->topology;
    size_t sums = topology->num_nodes + model->num_groups;

    memset(model->bytes, 0, model->num_links * sizeof(*model->bytes));
    memset(model->out_bytes, 0, sums * sizeof(*model->out_bytes));
    memset(model->in_bytes, 0, sums * sizeof(*model->in_bytes));
    memset(model->near_out, 0, topology->num_ranks * sizeof(double));
    memset(model->near_in, 0, topology->num_ranks * sizeof(double));
    model->is_cut_off = 0;
    for (size_t i = 0; i < num_demands; ++i) {
        uint32_t from = demands[i].from, to = demands[i].to;

        if (topology->node_of[from] != topology->node_of[to]) {
            add_demand(model, &demands[i]);
            add_sums(model, &demands[i]);
        } else {
            add_near(model, &demands[i]);
        }
    }
}

void mca_coll_mrail_unplanned_add(mca_coll_mrail_unplanned_t *model,
                                  unsigned node, unsigned rail, double out,
                                  double in)
{
    add(model, MRAIL_PLAN_RAIL_OUT, node, rail, out);
    add(model, MRAIL_PLAN_RAIL_IN, node, rail, in);
    model->out_bytes[node] += out;
    model->in_bytes[node] += in;
}

/* ---- results ---- */

double
mca_coll_mrail_unplanned_congestion(const mca_coll_mrail_unplanned_t *model)
{
    double congestion = model->is_cut_off ? INFINITY : 0;

    for (unsigned i = 0; i < model->num_links; ++i) {
        if (model->bytes[i] > 0) {
            congestion =
                MRAIL_MAX(congestion, model->bytes[i] / model->capacity[i]);
        }
    }
    return congestion;
}

/* Returns the time that the links of a node or leaf group need for these bytes,
 * or 0 if a leaf of the group is unlimited. */
static double cut(const mca_coll_mrail_unplanned_t *model,
                  mrail_plan_link_kind_t kind, uint32_t a, double bytes)
{
    const mrail_plan_topo_t *file = model->topology->file;
    int is_uplink =
        kind == MRAIL_PLAN_UPLINK_UP || kind == MRAIL_PLAN_UPLINK_DOWN;
    double sum = 0;

    if (bytes <= 0) {
        return 0;
    }
    for (unsigned rail = 0; rail < model->topology->num_rails; ++rail) {
        uint32_t link = *link_at(model, kind, a, rail);

        if (is_uplink && mrail_topo_uplinks(file, a, rail).out < 0) {
            return 0; /* the file does not limit this leaf */
        }
        sum += (link != NONE) ? model->capacity[link] : 0;
    }
    return bytes / sum;
}

/* Returns the time that the GPU links of a rank need, if they are known. */
static double near_bound(double bytes, double capacity)
{
    return (capacity > 0) ? bytes / capacity : 0;
}

double mca_coll_mrail_unplanned_bound(const mca_coll_mrail_unplanned_t *model)
{
    unsigned nodes = model->topology->num_nodes;
    double bound = 0;

    for (unsigned i = 0; i < nodes + model->num_groups; ++i) {
        int is_node = i < nodes;
        uint32_t a = is_node ? i : i - nodes;

        bound = MRAIL_MAX(
            bound,
            cut(model, is_node ? MRAIL_PLAN_RAIL_OUT : MRAIL_PLAN_UPLINK_UP, a,
                model->out_bytes[i]));
        bound = MRAIL_MAX(
            bound,
            cut(model, is_node ? MRAIL_PLAN_RAIL_IN : MRAIL_PLAN_UPLINK_DOWN, a,
                model->in_bytes[i]));
    }
    for (unsigned i = 0; i < model->topology->num_ranks; ++i) {
        bound =
            MRAIL_MAX(bound, near_bound(model->near_out[i], model->gpu_out[i]));
        bound =
            MRAIL_MAX(bound, near_bound(model->near_in[i], model->gpu_in[i]));
    }
    return bound;
}

double mca_coll_mrail_unplanned_bytes(const mca_coll_mrail_unplanned_t *model,
                                      unsigned i)
{
    return model->bytes[i];
}
