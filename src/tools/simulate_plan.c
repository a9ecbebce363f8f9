/*
 * Implements the method plan of mrail simulate, which sends messages over the
 * rails that libmrail-plan assigns. A rank is a GPU with its NIC, and the GPUs
 * of a host share a switch.
 */
#include "config.h"
#include "tools/simulate_command.h"

#include "base/grow.h"
#include "base/util.h"
#include "orchestrator/plan.h"

#include <errno.h>
#include <math.h>
#include <math.h>
#include <stdlib.h>

/* Bytes per second of a GPU's link within its host, as with current NVLink. */
#define GPU_LINK 450e9

typedef struct planner {
    const mrail_fabric_t *fabric;
    const mrail_sim_message_t *messages;
    uint32_t num;
    mrail_sim_message_t *planned;
    uint32_t num_planned, allocated;
    unsigned hosts, rails;
    uint32_t *first;   /* by host: the rank of its rail 0 */
    uint32_t *rank_of; /* by link to a host: its rank */
    mrail_plan_topo_t *topo;
    mrail_plan_t *plan;
    mrail_plan_demand_t *demands;
    char *reason;
    size_t reason_size;
} planner_t;

static const mrail_fabric_node_t *host_at(const planner_t *p, uint32_t place)
{
    return &p->fabric->nodes[p->fabric->of[MRAIL_FABRIC_HOST][place]];
}

static int planner_init(planner_t *p)
{
    uint32_t rank = 0;

    p->hosts = p->fabric->num_of[MRAIL_FABRIC_HOST];
    p->first = calloc(p->hosts + 1, sizeof(*p->first));
    p->rank_of = calloc(p->fabric->num_links + 1, sizeof(*p->rank_of));
    p->demands = calloc(p->num + 1, sizeof(*p->demands));
    if (p->first == NULL || p->rank_of == NULL || p->demands == NULL) {
        return -ENOMEM;
    }
    for (uint32_t h = 0; h < p->hosts; ++h) {
        p->first[h] = rank;
        p->rails = MRAIL_MAX(p->rails, host_at(p, h)->num_up);
        for (uint32_t r = 0; r < host_at(p, h)->num_up; ++r) {
            p->rank_of[host_at(p, h)->up[r]] = rank++;
        }
    }
    for (uint32_t m = 0; m < p->num; ++m) {
        const mrail_sim_message_t *message = &p->messages[m];

        p->demands[m] =
            (mrail_plan_demand_t){.from = p->rank_of[message->from],
                                  .to = p->rank_of[message->to],
                                  .bytes = (uint64_t)ceil(message->bytes)};
    }
    return 0;
}

static void planner_cleanup(planner_t *p)
{
    mrail_plan_destroy(p->plan);
    mrail_plan_topo_destroy(p->topo);
    free(p->demands);
    free(p->rank_of);
    free(p->first);
}

/* Adds a host and its ranks. Its NICs are rails, and its GPUs share a
 * switch. */
static int add_host(planner_t *p, uint32_t h)
{
    const mrail_fabric_node_t *host = host_at(p, h);
    int ret = 0;

    for (uint32_t r = 0; r < host->num_up && ret == 0; ++r) {
        double rate = (double)p->fabric->links[host->up[r]].bytes_per_s;

        ret = mrail_plan_topo_set_rail(p->topo, h, r, rate, rate);
        if (ret == 0) {
            ret = mrail_plan_topo_add_rank(p->topo, h);
        }
        if (ret == 0) {
            ret = mrail_plan_topo_set_reach(p->topo, p->first[h] + r, r,
                                            MRAIL_PLAN_UNLIMITED,
                                            MRAIL_PLAN_UNLIMITED);
        }
        if (ret == 0 && host->num_up > 1) {
            ret = mrail_plan_topo_set_switch(p->topo, p->first[h] + r, GPU_LINK,
                                             GPU_LINK);
        }
    }
    return ret;
}

static uint32_t leaf_of(const planner_t *p, uint32_t host, uint32_t rail)
{
    return p->fabric->links[host_at(p, host)->up[rail]].upper;
}

/* Sets the uplink capacity of a rail: the total of its leaf's uplinks, divided
 * among the rails that the host has on this leaf. */
static int set_uplink(planner_t *p, uint32_t host, uint32_t rail)
{
    const mrail_fabric_node_t *leaf = &p->fabric->nodes[leaf_of(p, host, rail)];
    uint32_t group = p->fabric->nodes[leaf_of(p, host, 0)].place;
    double rate = 0;
    unsigned share = 0;

    for (uint32_t i = 0; i < leaf->num_up; ++i) {
        rate += (double)p->fabric->links[leaf->up[i]].bytes_per_s;
    }
    for (uint32_t r = 0; r < host_at(p, host)->num_up; ++r) {
        share += (leaf_of(p, host, r) == leaf_of(p, host, rail));
    }
    return (leaf->num_up == 0)
               ? 0
               : mrail_plan_topo_set_uplink(p->topo, group, rail, rate / share,
                                            rate / share);
}

static int set_leaves(planner_t *p, uint32_t h)
{
    uint32_t leaf = leaf_of(p, h, 0);
    int ret = mrail_plan_topo_set_leaf_group(p->topo, h,
                                             p->fabric->nodes[leaf].place);

    for (uint32_t r = 0; r < host_at(p, h)->num_up && ret == 0; ++r) {
        ret = set_uplink(p, h, r);
    }
    return ret;
}

static int make_topo(planner_t *p)
{
    int ret = mrail_plan_topo_create(p->hosts, p->rails, &p->topo);

    for (uint32_t h = 0; h < p->hosts && ret == 0; ++h) {
        ret = add_host(p, h);
    }
    for (uint32_t h = 0; h < p->hosts && ret == 0; ++h) {
        ret = set_leaves(p, h);
    }
    if (ret == -EINVAL) {
        snprintf(p->reason, p->reason_size,
                 "%u hosts with %u rails are too many for a plan", p->hosts,
                 p->rails);
    }
    return ret;
}

/* Adds a message for each piece of a demand. */
static int add_pieces(planner_t *p, uint32_t m)
{
    mrail_plan_piece_t pieces[MRAIL_PLAN_MAX_PIECES];
    unsigned num = mrail_plan_pieces(p->plan, m, pieces);
    const mrail_sim_message_t *message = &p->messages[m];
    const mrail_fabric_node_t *source, *target;

    source = &p->fabric->nodes[p->fabric->links[message->from].lower];
    target = &p->fabric->nodes[p->fabric->links[message->to].lower];
    if (p->num_planned + num > p->allocated) {
        uint32_t allocated = 2 * (p->allocated + num);

        if (!mrail_grow(&p->planned, allocated, sizeof(*p->planned))) {
            return -ENOMEM;
        }
        p->allocated = allocated;
    }
    for (unsigned i = 0; i < num; ++i) {
        p->planned[p->num_planned++] =
            (mrail_sim_message_t){.from = source->up[pieces[i].rail_out],
                                  .to = target->up[pieces[i].rail_in],
                                  .bytes = (double)pieces[i].bytes};
    }
    return 0;
}

static int make_plan(planner_t *p)
{
    int ret = mrail_plan_create(p->topo, NULL, &p->plan);

    return (ret != 0) ? ret
                      : mrail_plan_make(p->plan, p->demands, p->num, 0,
                                        p->reason, p->reason_size);
}

int simulate_plan(const mrail_fabric_t *fabric,
                  const mrail_sim_message_t *messages, uint32_t num,
                  mrail_sim_message_t **planned_p, uint32_t *num_p,
                  char *reason, size_t reason_size)
{
    planner_t p = {.fabric = fabric,
                   .messages = messages,
                   .num = num,
                   .reason = reason,
                   .reason_size = reason_size};
    int ret = planner_init(&p);

    ret = (ret == 0) ? make_topo(&p) : ret;
    ret = (ret == 0) ? make_plan(&p) : ret;
    for (uint32_t m = 0; m < num && ret == 0; ++m) {
        ret = add_pieces(&p, m);
    }
    planner_cleanup(&p);
    if (ret == 0) {
        *planned_p = p.planned;
        *num_p = p.num_planned;
    } else {
        free(p.planned);
    }
    return ret;
}
