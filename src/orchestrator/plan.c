#include "config.h"
#include "plan.h"

#include "cuts.h"
#include "flows.h"
#include "routes.h"

#include "base/util.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_GAP 0.02
#define DEFAULT_RELAYED_GAP 0.03
#define DEFAULT_RELAY_ABOVE 1000000u
#define DEFAULT_MIN_PIECE 65536u
#define MIN_GAP 0.001
#define MAX_BYTES (UINT64_C(1) << 62)
/* Of the gap: what the first division leaves, if there are relays, to the second
 * one, and what that leaves to rounding. */
#define PART_SPREAD 0.6
#define PART_LIMIT 0.95
/* More would take longer than an exchange that is not quite as good. */
#define MAX_ROUNDS 4000
#define MAX_RELAY_ROUNDS 1000

/* A division of demands, in whole bytes.  Those with the same route are a group: their
 * bytes lie side by side on a line, which is cut into lanes. */
typedef struct plan_division {
    const mrail_plan_demand_t *demands;
    size_t num_demands, demands_room;
    uint64_t *start;       /* of each demand, on its group's line */
    uint32_t *group_of;    /* of each; NO_GROUP: not planned */
    uint32_t num_groups, groups_room;
    mrail_route_t *routes;
    uint64_t *totals;      /* bytes of each */
    uint32_t *row, *lanes; /* of the groups, as the flows want them */
    double *bytes;         /* likewise */
    uint64_t *end;         /* of each lane, on the line, by group, lane */
    uint64_t digest;       /* of the demands */
    mrail_plan_summary_t summary;
} plan_division_t;

struct mrail_plan {
    mrail_plan_options_t options;
    mrail_routes_t *routes;
    mrail_flows_t *flows;
    double *capacity;      /* of each link */
    uint32_t num_nodes, num_ranks;
    uint32_t *free_node;   /* of each rank; MRAIL_PLAN_NONE: it is bound */
    uint32_t *shared;      /* group by pair of nodes, of free ranks */
    uint64_t stamp;
    plan_division_t now, next;
    double *slot_bytes;
    double *link_bytes, *link_before;
};

#define NO_GROUP UINT32_MAX

/* ---- the object ------------------------------------------------------------ */

static int plan_is_gap(double gap)
{
    return (gap >= MIN_GAP) && (gap <= 1);
}

static int plan_set_options(mrail_plan_t *plan,
                            const mrail_plan_options_t *options)
{
    mrail_plan_options_t o =
        (options != NULL) ? *options : MRAIL_PLAN_DEFAULTS;

    o.gap = (o.gap == 0) ? DEFAULT_GAP : o.gap;
    o.relayed_gap = (o.relayed_gap == 0) ? DEFAULT_RELAYED_GAP : o.relayed_gap;
    o.relay_above =
        (o.relay_above == UINT64_MAX) ? DEFAULT_RELAY_ABOVE : o.relay_above;
    o.min_piece = (o.min_piece == UINT64_MAX) ? DEFAULT_MIN_PIECE : o.min_piece;
    plan->options = o;
    return (plan_is_gap(o.gap) && plan_is_gap(o.relayed_gap)) ? 0 : -EINVAL;
}

static int plan_allocate(mrail_plan_t *plan, const mrail_plan_topo_t *topo)
{
    size_t links = mrail_routes_num_links(plan->routes);
    size_t nodes = plan->num_nodes;
    size_t slots = (size_t)mrail_routes_num_rows(plan->routes) *
                   mrail_routes_num_lanes(plan->routes);
    mrail_flows_links_t flows_links;

    plan->capacity = calloc(3 * links, sizeof(*plan->capacity));
    plan->shared = malloc(nodes * nodes * sizeof(*plan->shared));
    plan->free_node =
        malloc((plan->num_ranks + 1) * sizeof(*plan->free_node));
    plan->slot_bytes = malloc((slots + 1) * sizeof(*plan->slot_bytes));
    if ((plan->capacity == NULL) || (plan->shared == NULL) ||
        (plan->free_node == NULL) ||
        (plan->slot_bytes == NULL)) {
        return -ENOMEM;
    }
    memset(plan->shared, 0xff, nodes * nodes * sizeof(*plan->shared));
    plan->link_bytes = plan->capacity + links;
    plan->link_before = plan->link_bytes + links;
    for (uint32_t rank = 0; rank < plan->num_ranks; ++rank) {
        plan->free_node[rank] =
            (mrail_plan_topo_rail_of(topo, rank) == MRAIL_PLAN_NONE)
                ? mrail_plan_topo_node_of(topo, rank)
                : MRAIL_PLAN_NONE;
    }
    for (size_t i = 0; i < links; ++i) {
        plan->capacity[i] = mrail_routes_links(plan->routes)[i].capacity;
    }
    flows_links = (mrail_flows_links_t){
        .num_links = (uint32_t)links,
        .capacity = plan->capacity,
        .num_lanes = mrail_routes_num_lanes(plan->routes)};
    return mrail_flows_create(&flows_links, &plan->flows);
}

int mrail_plan_create(const mrail_plan_topo_t *topo,
                      const mrail_plan_options_t *options, mrail_plan_t **plan_p)
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
    free(division->routes);
    free(division->totals);
    free(division->row);
    free(division->lanes);
    free(division->bytes);
    free(division->end);
}

void mrail_plan_destroy(mrail_plan_t *plan)
{
    plan_free_division(&plan->now);
    plan_free_division(&plan->next);
    if (plan->flows != NULL) {
        mrail_flows_destroy(plan->flows);
    }
    if (plan->routes != NULL) {
        mrail_routes_destroy(plan->routes);
    }
    free(plan->slot_bytes);
    free(plan->capacity);
    free(plan->shared);
    free(plan->free_node);
    free(plan);
}

/* ---- demands into groups --------------------------------------------------- */

/* Room for `count` of `size` each: an array that keeps what it has, or NULL. */
static void *plan_grow(void *array_p, size_t count, size_t size)
{
    void **array = array_p;
    void *grown = realloc(*array, count * size);

    if (grown != NULL) {
        *array = grown;
    }
    return grown;
}

static int plan_grow_demands(plan_division_t *division, size_t count)
{
    if (count <= division->demands_room) {
        return 0;
    }
    if ((plan_grow(&division->start, count, sizeof(*division->start)) == NULL) ||
        (plan_grow(&division->group_of, count, sizeof(*division->group_of)) ==
         NULL)) {
        return -ENOMEM;
    }
    division->demands_room = count;
    return 0;
}

static int plan_grow_groups(plan_division_t *division, unsigned num_lanes)
{
    size_t room = (size_t)division->groups_room * 2 + 64;

    if ((plan_grow(&division->routes, room, sizeof(*division->routes)) == NULL) ||
        (plan_grow(&division->totals, room, sizeof(*division->totals)) == NULL) ||
        (plan_grow(&division->row, 2 * room, sizeof(*division->row)) == NULL) ||
        (plan_grow(&division->lanes, room, sizeof(*division->lanes)) == NULL) ||
        (plan_grow(&division->bytes, room, sizeof(*division->bytes)) == NULL) ||
        (plan_grow(&division->end, room * num_lanes, sizeof(*division->end)) ==
         NULL)) {
        return -ENOMEM;
    }
    division->groups_room = (uint32_t)room;
    return 0;
}

static int plan_add_group(mrail_plan_t *plan, const mrail_route_t *route,
                          uint32_t *group_p)
{
    plan_division_t *next = &plan->next;

    if ((next->num_groups == next->groups_room) &&
        (plan_grow_groups(next, mrail_routes_num_lanes(plan->routes)) != 0)) {
        return -ENOMEM;
    }
    next->routes[next->num_groups] = *route;
    next->totals[next->num_groups] = 0;
    *group_p = next->num_groups++;
    return 0;
}

/* The group of a demand; NO_GROUP: it is not planned.  Free ranks of two nodes share
 * one, made by the first of their demands. */
static int plan_find_group(mrail_plan_t *plan, const mrail_plan_demand_t *demand,
                           uint32_t *group_p)
{
    uint32_t from = plan->free_node[demand->from];
    uint32_t to = plan->free_node[demand->to];
    uint32_t *shared = NULL;
    mrail_route_t route;
    int ret;

    if ((from != MRAIL_PLAN_NONE) && (to != MRAIL_PLAN_NONE) && (from != to)) {
        shared = &plan->shared[(size_t)from * plan->num_nodes + to];
        if (MRAIL_LIKELY(*shared != NO_GROUP)) {
            *group_p = *shared;
            return 0;
        }
    }
    *group_p = NO_GROUP;
    ret = mrail_routes_find(plan->routes, demand->from, demand->to,
                            demand->bytes <= plan->options.relay_above, &route);
    if (ret > 0) {
        ret = plan_add_group(plan, &route, group_p);
    }
    if ((ret == 0) && (shared != NULL)) {
        *shared = *group_p;
    }
    return ret;
}

static int plan_refuse(int ret, const mrail_plan_demand_t *demand, size_t i,
                       char *why, size_t why_size)
{
    const char *reason = (ret == -EINVAL)      ? "no such rank"
                         : (ret == -EOVERFLOW) ? "more than 2^62 bytes by now"
                         : (ret == -EHOSTUNREACH)
                             ? "no rail that is up at both ends can be reached"
                             : "out of memory";

    if (why_size > 0) {
        snprintf(why, why_size,
                 "demand %zu, rank %" PRIu32 " to rank %" PRIu32 ", %" PRIu64
                 " bytes: %s",
                 i, demand->from, demand->to, demand->bytes, reason);
    }
    return ret;
}

/* The pairs of nodes that have a group are forgotten again. */
static void plan_forget_shared(mrail_plan_t *plan)
{
    size_t nodes = plan->num_nodes;

    memset(plan->shared, 0xff, nodes * nodes * sizeof(*plan->shared));
}

/* A multiplication each, summed up: none waits for the one before. */
static uint64_t plan_digest(const mrail_plan_demand_t *demand, size_t i)
{
    uint64_t key = (((uint64_t)demand->from << 32) | demand->to) + i;

    return (demand->bytes + UINT64_C(0x9e3779b97f4a7c15)) *
           (2 * key * UINT64_C(0xbf58476d1ce4e5b9) + 1);
}

static int plan_add_demand(mrail_plan_t *plan, const mrail_plan_demand_t *demand,
                           size_t i, uint64_t *total)
{
    plan_division_t *next = &plan->next;
    uint32_t group = NO_GROUP;
    int ret;

    if ((demand->from >= plan->num_ranks) || (demand->to >= plan->num_ranks)) {
        return -EINVAL;
    }
    if (demand->bytes > MAX_BYTES - *total) {
        return -EOVERFLOW;
    }
    *total += demand->bytes;
    next->digest += plan_digest(demand, i);
    if ((demand->bytes > 0) && (demand->from != demand->to)) {
        ret = plan_find_group(plan, demand, &group);
        if (ret != 0) {
            return ret;
        }
    }
    next->group_of[i] = group;
    if (group != NO_GROUP) {
        next->start[i] = next->totals[group];
        next->totals[group] += demand->bytes;
    }
    return 0;
}

static int plan_group(mrail_plan_t *plan, char *why, size_t why_size)
{
    plan_division_t *next = &plan->next;
    uint64_t total = 0;

    next->num_groups = 0;
    next->digest = 0;
    for (size_t i = 0; i < next->num_demands; ++i) {
        int ret = plan_add_demand(plan, &next->demands[i], i, &total);

        if (ret != 0) {
            return plan_refuse(ret, &next->demands[i], i, why, why_size);
        }
    }
    for (uint32_t g = 0; g < next->num_groups; ++g) {
        next->row[2 * g] = next->routes[g].row[0];
        next->row[2 * g + 1] = next->routes[g].row[1];
        next->lanes[g] = next->routes[g].lanes;
        next->bytes[g] = (double)next->totals[g];
    }
    return 0;
}

/* ---- the division ---------------------------------------------------------- */

static int plan_load(mrail_plan_t *plan)
{
    const mrail_flows_problem_t problem = {
        .num_rows = mrail_routes_num_rows(plan->routes),
        .slot = mrail_routes_slots(plan->routes),
        .num_demands = plan->next.num_groups,
        .row = plan->next.row,
        .lanes = plan->next.lanes,
        .demand = plan->next.bytes};

    return mrail_flows_load(plan->flows, &problem);
}

static void plan_divide(mrail_plan_t *plan)
{
    const mrail_plan_options_t *options = &plan->options;
    mrail_plan_summary_t *summary = &plan->next.summary;
    int has_relays = mrail_routes_has_relays(plan->routes);
    double spread_gap = options->gap * (has_relays ? PART_SPREAD : PART_LIMIT);

    summary->rounds = mrail_flows_spread(plan->flows, spread_gap, MAX_ROUNDS);
    summary->congestion_bound = mrail_flows_bound(plan->flows);
    summary->limit = MRAIL_MAX(mrail_flows_congestion(plan->flows),
                               summary->congestion_bound *
                                   (1 + options->gap * PART_LIMIT));
    if (has_relays) {
        summary->relay_rounds =
            mrail_flows_shorten(plan->flows, summary->limit,
                                options->relayed_gap, MAX_RELAY_ROUNDS);
        summary->relayed_bound = mrail_flows_relayed_bound(plan->flows);
    }
}

static void plan_cut_all(mrail_plan_t *plan)
{
    plan_division_t *next = &plan->next;
    unsigned lanes = mrail_routes_num_lanes(plan->routes);
    uint32_t stride = mrail_flows_stride(plan->flows);
    const double *bytes = mrail_flows_bytes(plan->flows);

    for (uint32_t g = 0; g < next->num_groups; ++g) {
        mrail_cuts_make(next->totals[g], plan->options.min_piece, lanes,
                        &bytes[(size_t)g * stride],
                        &next->end[(size_t)g * lanes]);
    }
}

/* ---- what came of it ------------------------------------------------------- */

/* From bytes of slots to bytes of links; gives the bytes that relays pass. */
static double plan_add_links(mrail_plan_t *plan, double *link_bytes)
{
    const mrail_flows_slot_t *slot = mrail_routes_slots(plan->routes);
    size_t slots = (size_t)mrail_routes_num_rows(plan->routes) *
                   mrail_routes_num_lanes(plan->routes);
    double relayed = 0;

    memset(link_bytes, 0,
           mrail_routes_num_links(plan->routes) * sizeof(*link_bytes));
    for (size_t s = 0; s < slots; ++s) {
        double bytes = plan->slot_bytes[s];

        if (bytes == 0) {
            continue;
        }
        for (unsigned i = 0; i < MRAIL_FLOWS_SLOT_LINKS; ++i) {
            if (slot[s].link[i] != MRAIL_FLOWS_NO_LINK) {
                link_bytes[slot[s].link[i]] += bytes;
            }
        }
        relayed += slot[s].relays * bytes;
    }
    return relayed;
}

static double plan_congestion(const mrail_plan_t *plan, const double *link_bytes)
{
    double most = 0;

    for (uint32_t e = 0; e < mrail_routes_num_links(plan->routes); ++e) {
        most = MRAIL_MAX(most, link_bytes[e] / plan->capacity[e]);
    }
    return most;
}

static void plan_clear_slots(mrail_plan_t *plan)
{
    memset(plan->slot_bytes, 0,
           (size_t)mrail_routes_num_rows(plan->routes) *
               mrail_routes_num_lanes(plan->routes) * sizeof(*plan->slot_bytes));
}

static void plan_add_slots(mrail_plan_t *plan, const mrail_route_t *route,
                           unsigned lane, double bytes)
{
    size_t lanes = mrail_routes_num_lanes(plan->routes);

    plan->slot_bytes[route->row[0] * lanes + lane] += bytes;
    plan->slot_bytes[route->row[1] * lanes + lane] += bytes;
}

/* Loads, relayed bytes and the hash of whole bytes. */
static void plan_sum_up(mrail_plan_t *plan)
{
    plan_division_t *next = &plan->next;
    mrail_plan_summary_t *summary = &next->summary;
    unsigned lanes = mrail_routes_num_lanes(plan->routes);
    uint64_t hash = mrail_mix64(next->digest);

    plan_clear_slots(plan);
    for (uint32_t g = 0; g < next->num_groups; ++g) {
        const mrail_route_t *route = &next->routes[g];
        const uint64_t *end = &next->end[(size_t)g * lanes];

        summary->bytes += (double)next->totals[g];
        hash = mrail_mix64(hash ^ (((uint64_t)route->row[0] << 32) |
                                   route->row[1]));
        for (unsigned lane = 0; lane < lanes; ++lane) {
            uint64_t bytes = mrail_cuts_bytes(end, lane);

            if (bytes > 0) {
                plan_add_slots(plan, route, lane, (double)bytes);
                hash = mrail_mix64(hash ^ (bytes + lane));
            }
        }
    }
    summary->hash = hash;
    summary->relayed = plan_add_links(plan, plan->link_bytes);
    summary->congestion = plan_congestion(plan, plan->link_bytes);
}

/* The new division in place of the one that holds. */
static void plan_accept(mrail_plan_t *plan, uint64_t stamp)
{
    plan_division_t old = plan->now;

    plan->now = plan->next;
    plan->next = old;
    plan->stamp = stamp;
}

int mrail_plan_make(mrail_plan_t *plan, const mrail_plan_demand_t *demands,
                    size_t num_demands, uint64_t stamp, char *why,
                    size_t why_size)
{
    plan_division_t *next = &plan->next;
    int ret;

    if ((stamp != 0) && (stamp == plan->stamp)) {
        return 0;
    }
    next->demands = demands;
    next->num_demands = num_demands;
    next->summary = (mrail_plan_summary_t){0};
    ret = plan_grow_demands(next, num_demands);
    if (ret == 0) {
        ret = plan_group(plan, why, why_size);
        plan_forget_shared(plan);
    }
    if (ret != 0) {
        return ret;
    }
    if (next->num_groups > 0) {
        ret = plan_load(plan);
        if (ret != 0) {
            return ret;
        }
        plan_divide(plan);
        mrail_flows_merge(plan->flows, (double)plan->options.min_piece,
                          next->summary.limit);
        plan_cut_all(plan);
    }
    plan_sum_up(plan);
    plan_accept(plan, stamp);
    return 0;
}

void mrail_plan_forget(mrail_plan_t *plan)
{
    mrail_flows_forget(plan->flows);
}

/* ---- questions ------------------------------------------------------------- */

unsigned mrail_plan_pieces(const mrail_plan_t *plan, size_t i,
                           mrail_plan_piece_t *pieces)
{
    const plan_division_t *now = &plan->now;
    unsigned lanes = mrail_routes_num_lanes(plan->routes), count = 0;
    const mrail_plan_demand_t *demand = &now->demands[i];
    uint64_t begin = now->start[i], to = begin + demand->bytes;
    const uint64_t *end;

    if (now->group_of[i] == NO_GROUP) {
        return 0;
    }
    end = &now->end[(size_t)now->group_of[i] * lanes];
    for (unsigned lane = 0; (lane < lanes) && (begin < to); ++lane) {
        uint64_t stop = MRAIL_MIN(end[lane], to);

        if (stop > begin) {
            pieces[count].offset = begin - now->start[i];
            pieces[count].bytes = stop - begin;
            mrail_routes_explain(plan->routes, demand->from, demand->to,
                                 &now->routes[now->group_of[i]], lane,
                                 &pieces[count]);
            ++count;
            begin = stop;
        }
    }
    return count;
}

/* Bytes of a demand on a lane, and how many lanes it is on. */
static uint64_t plan_on_lane(const mrail_plan_t *plan, size_t i, unsigned direct,
                             unsigned *num_pieces)
{
    const plan_division_t *now = &plan->now;
    unsigned lanes = mrail_routes_num_lanes(plan->routes);
    const uint64_t *end = &now->end[(size_t)now->group_of[i] * lanes];
    uint64_t begin = now->start[i], to = begin + now->demands[i].bytes;
    uint64_t on_direct = 0;

    *num_pieces = 0;
    for (unsigned lane = 0; (lane < lanes) && (begin < to); ++lane) {
        uint64_t stop = MRAIL_MIN(end[lane], to);

        if (stop > begin) {
            on_direct += (lane == direct) ? stop - begin : 0;
            ++*num_pieces;
            begin = stop;
        }
    }
    return on_direct;
}

void mrail_plan_compare(mrail_plan_t *plan)
{
    plan_division_t *now = &plan->now;
    mrail_plan_summary_t *summary = &now->summary;
    unsigned pieces;

    summary->direct_bytes = 0;
    summary->num_pieces = 0;
    plan_clear_slots(plan);
    for (size_t i = 0; i < now->num_demands; ++i) {
        const mrail_plan_demand_t *demand = &now->demands[i];
        const mrail_route_t *route;
        unsigned lane;

        if (now->group_of[i] == NO_GROUP) {
            continue;
        }
        route = &now->routes[now->group_of[i]];
        lane =
            mrail_routes_direct(plan->routes, demand->from, demand->to, route);
        plan_add_slots(plan, route, lane, (double)demand->bytes);
        summary->direct_bytes += (double)plan_on_lane(plan, i, lane, &pieces);
        summary->num_pieces += pieces;
    }
    (void)plan_add_links(plan, plan->link_before);
    summary->congestion_before = plan_congestion(plan, plan->link_before);
}

void mrail_plan_summary(const mrail_plan_t *plan, mrail_plan_summary_t *summary_p)
{
    *summary_p = plan->now.summary;
}

unsigned mrail_plan_num_links(const mrail_plan_t *plan)
{
    return mrail_routes_num_links(plan->routes);
}

void mrail_plan_link(const mrail_plan_t *plan, unsigned i,
                     mrail_plan_link_t *link_p)
{
    *link_p = mrail_routes_links(plan->routes)[i];
    link_p->bytes = plan->link_bytes[i];
    link_p->bytes_before = plan->link_before[i];
}
