#include "config.h"
#include "fabric/simulate.h"

#include "base/util.h"
#include "fabric/simulate_internal.h"
#include "orchestrator/ports.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define MAX_TRIES 1024 /* attempts to find a port after a failure */
/* source port of UCX's path 0, as measured (docs/references.md) */
#define STOCK_PORT 65472
/* Maximum number of rate changes within the random interval of the starts. */
#define STAGGER_STEPS 16

const char *mrail_sim_method_name(mrail_sim_method_t method)
{
    static const char *const names[] = {
        "stock", "ecmp", "mprdma", "paralet", "dnlb", "ethereal", "spray"};

    return names[method];
}

static mrail_route_mode_t mode_of(const mrail_sim_params_t *params)
{
    switch (params->method) {
    case MRAIL_SIM_ETHEREAL:
        return MRAIL_ROUTE_ETHEREAL;
    case MRAIL_SIM_DNLB:
        return params->drop ? MRAIL_ROUTE_RULES_DROP : MRAIL_ROUTE_RULES;
    default:
        return MRAIL_ROUTE_ECMP;
    }
}

/* ---- Flows of messages ---- */

static uint16_t random_port(sim_t *sim)
{
    return (uint16_t)(MRAIL_PORTS_FIRST +
                      mrail_rng_below(&sim->rng, MRAIL_PORTS_COUNT));
}

/* Returns the port that the transport would choose for lane `lane` of a NIC. */
static uint16_t lane_port(const sim_t *sim, uint32_t nic, unsigned lane)
{
    unsigned uplinks, spine_uplinks;

    mrail_fabric_segments(sim->fabric, nic, &uplinks, &spine_uplinks);
    return mrail_ports_lane_nested(uplinks, spine_uplinks,
                                   sim->fabric->links[nic].nic_index,
                                   sim->params->lanes, lane);
}

static int remember_flow(sim_t *sim, uint32_t message, uint16_t sport)
{
    if (sim->num_flows == sim->flows_allocated) {
        size_t allocated = MRAIL_MAX(1024, 2 * sim->flows_allocated);
        sim_flow_t *flows = realloc(sim->flows, allocated * sizeof(*flows));

        if (flows == NULL) {
            return -ENOMEM;
        }
        sim->flows = flows;
        sim->flows_allocated = allocated;
    }
    sim->flows[sim->num_flows++] =
        (sim_flow_t){.message = message, .sport = sport};
    ++sim->qps[sim->messages[message].from];
    return 0;
}

/* For spraying, adds a flow over the bundles between two NICs. */
static int add_sprayed(sim_t *sim, const mrail_sim_message_t *message)
{
    uint32_t links[MRAIL_FLUID_MAX_HOPS], bundle[4];
    unsigned num = 0, count;

    count = mrail_bundles_route(&sim->bundles, sim->fabric, message->from,
                                message->to, bundle);
    links[num++] = MRAIL_ROUTE_UP(message->from);
    if (sim->has_failed && (message->from == sim->params->failed_link ||
                            message->to == sim->params->failed_link)) {
        return -EHOSTUNREACH;
    }
    for (unsigned i = 0; i < count; ++i) {
        if (sim->bundles.capacity[bundle[i]] <= 0) {
            return -EHOSTUNREACH;
        }
        links[num++] = 2 * sim->fabric->num_links + bundle[i];
    }
    links[num++] = MRAIL_ROUTE_DOWN(message->to);
    return mrail_fluid_flow_add(sim->fluid, links, num);
}

static int add_routed(sim_t *sim, const mrail_sim_message_t *message,
                      uint16_t sport)
{
    mrail_route_t route;
    int ret = mrail_route_find(sim->router, message->from, message->to, sport,
                               &route);

    return (ret != 0)
               ? ret
               : mrail_fluid_flow_add(sim->fluid, route.links, route.num);
}

int mrail_sim_add_flow(sim_t *sim, uint32_t m, uint16_t sport)
{
    const mrail_sim_message_t *message = &sim->messages[m];

    return (sim->params->method == MRAIL_SIM_SPRAY)
               ? add_sprayed(sim, message)
               : add_routed(sim, message, sport);
}

int mrail_sim_add_single(sim_t *sim, uint32_t m, double bytes, uint16_t sport)
{
    int64_t group = mrail_fluid_group_add(sim->fluid, bytes);
    int ret = (group < 0) ? (int)group : remember_flow(sim, m, sport);

    return (ret != 0) ? ret : mrail_sim_add_flow(sim, m, sport);
}

/* Adds a group whose lanes pull from it. */
static int add_pulling(sim_t *sim, uint32_t m)
{
    int64_t group = mrail_fluid_group_add(sim->fluid, sim->messages[m].bytes);
    int ret = (group < 0) ? (int)group : 0;

    for (unsigned lane = 0; lane < sim->params->lanes && ret == 0; ++lane) {
        uint16_t sport = (sim->params->method == MRAIL_SIM_DNLB)
                             ? lane_port(sim, sim->messages[m].from, lane)
                             : random_port(sim);

        ret = remember_flow(sim, m, sport);
        if (ret == 0) {
            ret = mrail_sim_add_flow(sim, m, sport);
        }
    }
    return ret;
}

static int add_message(sim_t *sim, uint32_t m)
{
    double bytes = sim->messages[m].bytes;
    int ret = 0;

    switch (sim->params->method) {
    case MRAIL_SIM_STOCK:
    case MRAIL_SIM_SPRAY:
        return mrail_sim_add_single(sim, m, bytes, STOCK_PORT);
    case MRAIL_SIM_ECMP:
        return mrail_sim_add_single(sim, m, bytes, random_port(sim));
    case MRAIL_SIM_MPRDMA:
        for (unsigned i = 0; i < sim->params->lanes && ret == 0; ++i) {
            ret = mrail_sim_add_single(sim, m, bytes / sim->params->lanes,
                                       random_port(sim));
        }
        return ret;
    default:
        return add_pulling(sim, m);
    }
}

static int add_messages(sim_t *sim)
{
    int ret = 0;

    if (sim->params->method == MRAIL_SIM_ETHEREAL) {
        return mrail_sim_add_ethereal(sim);
    }
    for (uint32_t m = 0; m < sim->num_messages && ret == 0; ++m) {
        ret = add_message(sim, m);
    }
    return ret;
}

/* ---- Links ---- */

/* Sets the capacities of directed links, then the capacities of bundles. A
 * failed link keeps its capacity, because no flow uses it. */
static mrail_fluid_t *create_fluid(const sim_t *sim)
{
    const mrail_fabric_t *fabric = sim->fabric;
    uint32_t num = 2 * fabric->num_links;
    double *capacity = malloc((num + sim->bundles.num) * sizeof(*capacity));
    mrail_fluid_t *fluid = NULL;

    if (capacity != NULL) {
        for (uint32_t i = 0; i < num; ++i) {
            capacity[i] = (double)fabric->links[i / 2].bytes_per_s;
        }
        for (uint32_t i = 0; i < sim->bundles.num; ++i) {
            /* The bundle of a leaf without uplinks is empty and unused. */
            capacity[num + i] = MRAIL_MAX(sim->bundles.capacity[i], 1e-300);
        }
        fluid = mrail_fluid_create(num + sim->bundles.num, capacity);
    }
    free(capacity);
    return fluid;
}

/* Adds the bytes of links. A bundle's bytes are divided among its links by
 * capacity. */
static void collect_bytes(const sim_t *sim, double *link_bytes)
{
    const mrail_fabric_t *fabric = sim->fabric;
    uint32_t num = 2 * fabric->num_links;

    for (uint32_t i = 0; i < num; ++i) {
        uint32_t bundle = sim->bundles.of_link[i];

        link_bytes[i] += mrail_fluid_link_bytes(sim->fluid, i);
        if (bundle != MRAIL_FABRIC_NONE &&
            !(sim->has_failed && i / 2 == sim->params->failed_link)) {
            link_bytes[i] += mrail_fluid_link_bytes(sim->fluid, num + bundle) *
                             (double)fabric->links[i / 2].bytes_per_s /
                             sim->bundles.capacity[bundle];
        }
    }
}

/* ---- Failure ---- */

/* Returns 1 if lanes pull: if some lanes of a message lose their path, the
 * remaining lanes carry the bytes. */
static int is_pulling(mrail_sim_method_t method)
{
    return method == MRAIL_SIM_PARALET || method == MRAIL_SIM_DNLB;
}

/* Adds a flow if it has a path, and counts it in *num_p. */
static int try_flow(sim_t *sim, uint32_t m, uint16_t sport, unsigned *num_p)
{
    int ret = mrail_sim_add_flow(sim, m, sport);

    *num_p += (ret == 0);
    return (ret == -EHOSTUNREACH) ? 0 : ret;
}

/* Moves a flow of a message to another port, as for a new lane. */
static int try_ports(sim_t *sim, uint32_t m)
{
    int ret = -EHOSTUNREACH;

    for (unsigned i = 0; i < MAX_TRIES && ret == -EHOSTUNREACH; ++i) {
        ret = mrail_sim_add_flow(sim, m, random_port(sim));
    }
    return ret;
}

/* Adds the flows of one group after the failure. Returns -EHOSTUNREACH if none
 * has a path. */
static int add_again(sim_t *sim, double bytes, size_t first, size_t end)
{
    int64_t group = mrail_fluid_group_add(sim->fluid, bytes);
    int ret = (group < 0) ? (int)group : 0;
    unsigned num = 0;

    if (ret == 0) {
        mrail_fluid_group_start(
            sim->fluid,
            MRAIL_MAX(sim->flows[first].start_s - sim->carried_s, 0));
    }
    for (size_t f = first; f < end && ret == 0; ++f) {
        ret = try_flow(sim, sim->flows[f].message, sim->flows[f].sport, &num);
    }
    if (ret == 0 && num == 0) {
        ret = (sim->params->method == MRAIL_SIM_ETHEREAL)
                  ? mrail_sim_reroute(sim, &sim->flows[first])
                  : try_ports(sim, sim->flows[first].message);
    }
    return ret;
}

/* Prepares the run after the failure: the remaining bytes, on paths without the
 * failed link. */
static int fail_link(sim_t *sim)
{
    unsigned each = is_pulling(sim->params->method) ? sim->params->lanes : 1;
    mrail_fluid_t *before = sim->fluid;
    int ret = 0;

    sim->carried_s = sim->params->failure_s;
    sim->has_failed = 1;
    mrail_router_link(sim->router, sim->params->failed_link, 0);
    if (sim->params->method == MRAIL_SIM_SPRAY &&
        sim->bundles.of_link[MRAIL_ROUTE_UP(sim->params->failed_link)] !=
            MRAIL_FABRIC_NONE) {
        uint32_t up = MRAIL_ROUTE_UP(sim->params->failed_link);
        double rate = (double)sim->fabric->links[up / 2].bytes_per_s;

        sim->bundles.capacity[sim->bundles.of_link[up]] -= rate;
        sim->bundles.capacity[sim->bundles.of_link[up + 1]] -= rate;
    }
    sim->fluid = create_fluid(sim);
    if (sim->fluid == NULL) {
        sim->fluid = before;
        return -ENOMEM;
    }
    for (uint64_t f = 0; f < sim->num_flows && ret == 0; f += each) {
        double bytes = mrail_fluid_remaining(before, (uint32_t)(f / each));

        if (bytes > 0) {
            ret = add_again(sim, bytes, f, f + each);
        }
    }
    mrail_fluid_destroy(before);
    return ret;
}

/* ---- A run ---- */

static void collect_times(const sim_t *sim, uint32_t num_groups,
                          mrail_sim_result_t *result)
{
    double first_s = INFINITY;

    for (uint32_t g = 0; g < num_groups; ++g) {
        first_s = MRAIL_MIN(first_s, mrail_fluid_end(sim->fluid, g));
    }
    result->time_s = sim->carried_s + mrail_fluid_makespan(sim->fluid);
    result->spread_s = result->time_s - sim->carried_s - first_s;
    result->num_fills += mrail_fluid_num_fills(sim->fluid);
}

/* Returns the quantum. It must not be much shorter than the intervals between
 * starts, because each start would then recompute all rates. */
static double quantum_of(const mrail_sim_params_t *params)
{
    double stagger_s = (params->method == MRAIL_SIM_ETHEREAL)
                           ? (double)params->stagger_ns / 1e9
                           : 0;

    return MRAIL_MAX(params->quantum_s, stagger_s / STAGGER_STEPS);
}

static int run_parts(sim_t *sim, mrail_sim_result_t *result)
{
    const mrail_sim_params_t *params = sim->params;
    int fails = (params->failed_link != MRAIL_FABRIC_NONE);
    int ret = mrail_fluid_run(sim->fluid, fails ? params->failure_s : INFINITY,
                              quantum_of(params));

    if (ret != 0) {
        return ret;
    }
    collect_bytes(sim, result->link_bytes);
    if (fails && mrail_fluid_num_left(sim->fluid) != 0) {
        result->num_fills += mrail_fluid_num_fills(sim->fluid);
        ret = fail_link(sim);
        if (ret == 0) {
            ret = mrail_fluid_run(sim->fluid, INFINITY, quantum_of(params));
        }
        if (ret != 0) {
            return ret;
        }
        collect_bytes(sim, result->link_bytes);
        if (result->after_bytes != NULL) {
            collect_bytes(sim, result->after_bytes);
        }
    }
    collect_times(sim, mrail_fluid_num_groups(sim->fluid), result);
    return 0;
}

static int sim_init(sim_t *sim)
{
    int ret = mrail_bundles_init(&sim->bundles, sim->fabric, NULL);

    if (ret != 0) {
        return ret;
    }
    mrail_rng_init(&sim->rng, sim->params->seed);
    sim->router = mrail_router_create(sim->fabric, mode_of(sim->params),
                                      sim->params->seed);
    sim->qps = calloc(sim->fabric->num_links + 1, sizeof(*sim->qps));
    sim->fluid = create_fluid(sim);
    sim->paths = sim->params->paths;
    if (sim->paths == NULL && sim->params->method == MRAIL_SIM_ETHEREAL) {
        sim->paths = sim->own_paths = mrail_sim_paths_create(sim->fabric);
        if (sim->paths == NULL) {
            return -ENOMEM;
        }
    }
    return (sim->router == NULL || sim->qps == NULL || sim->fluid == NULL)
               ? -ENOMEM
               : 0;
}

static void sim_cleanup(sim_t *sim)
{
    mrail_bundles_cleanup(&sim->bundles);
    mrail_router_destroy(sim->router);
    mrail_fluid_destroy(sim->fluid);
    mrail_sim_paths_destroy(sim->own_paths);
    free(sim->qps);
    free(sim->flows);
}

int mrail_sim_run(const mrail_fabric_t *fabric,
                  const mrail_sim_params_t *params,
                  const mrail_sim_message_t *messages, uint32_t num,
                  mrail_sim_result_t *result)
{
    sim_t sim = {.fabric = fabric,
                 .params = params,
                 .messages = messages,
                 .num_messages = num};
    int ret = sim_init(&sim);

    assert(params->lanes >= 1 && num > 0);
    result->num_fills = 0;
    if (ret == 0) {
        ret = add_messages(&sim);
    }
    if (ret == 0) {
        ret = run_parts(&sim, result);
    }
    if (ret == 0) {
        result->num_flows = sim.num_flows;
        result->most_qps = 0;
        for (uint32_t i = 0; i < fabric->num_links; ++i) {
            result->most_qps = MRAIL_MAX(result->most_qps, sim.qps[i]);
        }
    }
    sim_cleanup(&sim);
    return ret;
}
