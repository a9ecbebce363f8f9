/* Allocates a plan and checks its options. */
#include "config.h"
#include "plan_internal.h"

#include "topo.h"

#include "base/util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_GAP 0.02
#define DEFAULT_RELAYED_GAP 0.03
#define DEFAULT_RELAY_ABOVE 1000000u
#define DEFAULT_MIN_PIECE 65536u
#define MIN_GAP 0.001
/* Size of the first version of the options. */
#define MIN_OPTIONS_SIZE                                                       \
    (offsetof(mrail_plan_options_t, min_piece) + sizeof(uint64_t))

static int plan_is_gap(double gap)
{
    return (gap >= MIN_GAP) && (gap <= 1);
}

/* Reads a caller's version of the options. Fields that an older version lacks
 * keep their defaults. Returns 0, or -EINVAL if a newer version sets a field
 * that is unknown here. */
static int plan_read_options(const mrail_plan_options_t *options,
                             mrail_plan_options_t *o)
{
    const char *bytes = (const char *)options;

    *o = MRAIL_PLAN_DEFAULTS;
    if (options == NULL) {
        return 0;
    }
    if (options->struct_size < MIN_OPTIONS_SIZE) {
        return -EINVAL;
    }
    for (size_t i = sizeof(*o); i < options->struct_size; ++i) {
        if (bytes[i] != 0) {
            return -EINVAL;
        }
    }
    memcpy(o, options, MRAIL_MIN(sizeof(*o), options->struct_size));
    return 0;
}

static int plan_set_options(mrail_plan_t *plan,
                            const mrail_plan_options_t *options)
{
    mrail_plan_options_t o;

    if (plan_read_options(options, &o) != 0) {
        return -EINVAL;
    }
    o.gap = (o.gap == 0) ? DEFAULT_GAP : o.gap;
    o.relayed_gap = (o.relayed_gap == 0) ? DEFAULT_RELAYED_GAP : o.relayed_gap;
    o.relay_threshold = (o.relay_threshold == UINT64_MAX) ? DEFAULT_RELAY_ABOVE
                                                          : o.relay_threshold;
    o.min_piece = (o.min_piece == UINT64_MAX) ? DEFAULT_MIN_PIECE : o.min_piece;
    plan->options = o;
    return (plan_is_gap(o.gap) && plan_is_gap(o.relayed_gap)) ? 0 : -EINVAL;
}

/* Computes the cut of each rank: the total capacity, out and in, of the ports of
 * its rails and of its GPU links. All of its traffic passes one of them. */
static void plan_set_cuts(mrail_plan_t *plan, const mrail_plan_topo_t *topo)
{
    for (uint32_t i = 0; i < plan->num_ranks; ++i) {
        const mrail_topo_rank_t *rank = &topo->ranks[i];
        const mrail_topo_node_t *node = &topo->nodes[rank->node];
        double *cut = &plan->rank_cut[2 * (size_t)i];

        cut[0] = cut[1] = 0;
        for (uint32_t r = rank->rails; r != 0; r &= r - 1) {
            const mrail_topo_port_t *port =
                &topo->ports[(size_t)rank->node * topo->num_rails +
                             (uint32_t)__builtin_ctz(r)];

            cut[0] += port->out;
            cut[1] += port->in;
        }
        cut[0] += rank->up;
        cut[1] += rank->down;
        for (uint32_t place = 0; (node->pairwise != NULL) &&
                                 (rank->place < MRAIL_PLAN_MAX_PAIRWISE) &&
                                 (place < MRAIL_PLAN_MAX_PAIRWISE);
             ++place) {
            cut[0] +=
                node->pairwise[rank->place * MRAIL_PLAN_MAX_PAIRWISE + place];
            cut[1] +=
                node->pairwise[place * MRAIL_PLAN_MAX_PAIRWISE + rank->place];
        }
    }
}

/* Allocates the arrays for branches, if there are any. */
static int plan_allocate_branches(mrail_plan_t *plan)
{
    size_t branches = mrail_routes_num_branches(plan->routes);
    size_t slots = (size_t)mrail_routes_num_rows(plan->routes) *
                   mrail_routes_num_lanes(plan->routes);

    if (branches == 0) {
        return 0;
    }
    plan->slot_total = malloc(slots * sizeof(*plan->slot_total));
    plan->branch_part =
        calloc(MRAIL_FLOWS_MAX_BRANCHES, sizeof(*plan->branch_part));
    plan->now.branch_end = calloc(branches, sizeof(*plan->now.branch_end));
    plan->next.branch_end = calloc(branches, sizeof(*plan->next.branch_end));
    return ((plan->slot_total != NULL) && (plan->branch_part != NULL) &&
            (plan->now.branch_end != NULL) && (plan->next.branch_end != NULL))
               ? 0
               : -ENOMEM;
}

static void plan_set_classes(mrail_plan_t *plan, const mrail_plan_topo_t *topo)
{
    size_t classes = plan->num_classes;

    memset(plan->shared, 0xff, classes * classes * sizeof(*plan->shared));
    plan->is_all_single_rail = 1;
    for (uint32_t rank = 0; rank < plan->num_ranks; ++rank) {
        uint32_t rails = mrail_plan_topo_rails_of(topo, rank);
        uint32_t class = mrail_routes_class(plan->routes, rank);

        plan->class_of[rank] = class;
        if (class != MRAIL_PLAN_NONE) {
            plan->class_node[class] = mrail_plan_topo_node_of(topo, rank);
        }
        plan->is_all_single_rail &= (rails != 0) &&
                                    ((rails & (rails - 1)) == 0) &&
                                    (class == MRAIL_PLAN_NONE);
    }
}

static int plan_allocate(mrail_plan_t *plan, const mrail_plan_topo_t *topo)
{
    size_t links = mrail_routes_num_links(plan->routes);
    size_t classes = mrail_routes_num_classes(plan->routes);
    size_t slots = (size_t)mrail_routes_num_rows(plan->routes) *
                   mrail_routes_num_lanes(plan->routes);
    mrail_flows_links_t flows_links;

    plan->num_classes = (uint32_t)classes;
    plan->capacity = calloc(6 * links, sizeof(*plan->capacity));
    plan->set_sums = malloc(2 * (size_t)mrail_routes_num_sets(plan->routes) *
                            sizeof(*plan->set_sums));
    plan->shared = malloc((classes * classes + 1) * sizeof(*plan->shared));
    plan->class_of =
        malloc((plan->num_ranks + classes + 1) * sizeof(*plan->class_of));
    plan->slot_bytes = malloc((slots + 1) * sizeof(*plan->slot_bytes));
    plan->whole =
        malloc(mrail_routes_num_lanes(plan->routes) * sizeof(*plan->whole));
    plan->rank_cut =
        malloc((4 * (size_t)plan->num_ranks + 1) * sizeof(*plan->rank_cut));
    if ((plan->capacity == NULL) || (plan->set_sums == NULL) ||
        (plan->rank_cut == NULL) || (plan->shared == NULL) ||
        (plan->class_of == NULL) || (plan->slot_bytes == NULL) ||
        (plan->whole == NULL) || (plan_allocate_branches(plan) != 0)) {
        return -ENOMEM;
    }
    plan->class_node = plan->class_of + plan->num_ranks;
    plan->link_bytes = plan->capacity + links;
    plan->link_next = plan->link_bytes + links;
    plan->link_before = plan->link_next + links;
    plan->link_base = plan->link_before + links;
    plan->background = plan->link_base + links;
    plan->rank_bytes = plan->rank_cut + 2 * (size_t)plan->num_ranks;
    plan_set_cuts(plan, topo);
    plan_set_classes(plan, topo);
    for (size_t i = 0; i < links; ++i) {
        plan->capacity[i] = mrail_routes_links(plan->routes)[i].capacity;
    }
    flows_links =
        (mrail_flows_links_t){.num_links = (uint32_t)links,
                              .capacity = plan->capacity,
                              .num_lanes = mrail_routes_num_lanes(plan->routes),
                              .set = mrail_routes_sets(plan->routes),
                              .parent = mrail_routes_parents(plan->routes),
                              .num_sets = mrail_routes_num_sets(plan->routes)};
    return mrail_flows_create(&flows_links, &plan->flows);
}

int mrail_plan_create(const mrail_plan_topo_t *topo,
                      const mrail_plan_options_t *options,
                      mrail_plan_t **plan_p)
{
    mrail_plan_t *plan = calloc(1, sizeof(*plan));
    int ret;

    if (plan == NULL) {
        return -ENOMEM;
    }
    ret = plan_set_options(plan, options);
    if (ret == 0) {
        ret = mrail_routes_create(topo, &plan->routes);
    }
    if (ret == 0) {
        plan->num_nodes = mrail_plan_topo_num_nodes(topo);
        plan->num_ranks = mrail_plan_topo_num_ranks(topo);
        ret = plan_allocate(plan, topo);
    }
    if (ret != 0) {
        mrail_plan_destroy(plan);
        return ret;
    }
    *plan_p = plan;
    return 0;
}

static void plan_free_division(plan_division_t *division)
{
    free(division->start);
    free(division->group_of);
    free(division->totals);
    free(division->row);
    free(division->lanes);
    free(division->bytes);
    free(division->end);
    free(division->position);
    free(division->branch_end);
}

void mrail_plan_destroy(mrail_plan_t *plan)
{
    if (plan == NULL) {
        return;
    }
    plan_free_division(&plan->now);
    plan_free_division(&plan->next);
    if (plan->flows != NULL) {
        mrail_flows_destroy(plan->flows);
    }
    if (plan->routes != NULL) {
        mrail_routes_destroy(plan->routes);
    }
    free(plan->slot_bytes);
    free(plan->set_sums);
    free(plan->rank_cut);
    free(plan->direct);
    free(plan->weight);
    free(plan->whole);
    free(plan->capacity);
    free(plan->shared);
    free(plan->class_of);
    free(plan->slot_total);
    free(plan->branch_part);
    free(plan);
}
