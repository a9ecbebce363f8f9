#include "config.h"

#include "softroce/sim/sim.h"

#include "softroce/core/pkt.h"
#include "softroce/sim/faults.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#define MAX_EVENTS 1024
#define QPN_RANGE 4096

typedef struct sim_pkt {
    struct sim_pkt *next; /* list of held packets */
    mrail_ns_t at_ns;
    uint64_t seq; /* keeps FIFO order at equal times */
    uint32_t src_ip;
    uint16_t sport;
    uint8_t tos;
    uint8_t to;
    uint32_t length;
    uint8_t data[];
} sim_pkt_t;

typedef struct sim_node {
    sroce_sim_t *sim;
    unsigned id;
    sroce_dev_t *dev;
    uint32_t ip;
    int up;
    unsigned cq_events;
    sroce_qp_t **active; /* run list, FIFO */
    uint32_t num_active;
    uint32_t max_active;
    sim_pkt_t *held; /* packets that arrived during a pause, FIFO */
    sim_pkt_t **held_end;
} sim_node_t;

struct sroce_sim {
    mrail_rng_t rng;
    mrail_ns_t now_ns;
    uint64_t seq;
    uint64_t delivered;
    uint64_t trace;
    sroce_sim_faults_t *faults; /* NULL without a script */
    unsigned num_nodes;
    sim_node_t nodes[SROCE_SIM_MAX_NODES];
    sroce_sim_link_t links[SROCE_SIM_MAX_NODES][SROCE_SIM_MAX_NODES];
    mrail_ns_t link_free_ns[SROCE_SIM_MAX_NODES][SROCE_SIM_MAX_NODES];
    mrail_ns_t link_last_ns[SROCE_SIM_MAX_NODES][SROCE_SIM_MAX_NODES];
    sroce_sim_filter_func_t filter;
    void *filter_arg;
    sim_pkt_t **heap;
    uint32_t num_pkts;
    uint32_t max_pkts;
    sroce_sim_event_t events[MAX_EVENTS];
    uint32_t event_head;
    uint32_t event_tail;
    sroce_txrun_t run;
};

/* ---- Packets in flight: a heap by time ---- */

static int pkt_before(const sim_pkt_t *a, const sim_pkt_t *b)
{
    return (a->at_ns != b->at_ns) ? (a->at_ns < b->at_ns) : (a->seq < b->seq);
}

static void heap_push(sroce_sim_t *sim, sim_pkt_t *pkt)
{
    uint32_t i = sim->num_pkts++;

    if (i == sim->max_pkts) {
        sim->max_pkts = 2 * sim->max_pkts + 64;
        sim->heap = realloc(sim->heap, sim->max_pkts * sizeof(*sim->heap));
        if (sim->heap == NULL) {
            abort(); /* a simulation that runs out of memory cannot give a
                      * result */
        }
    }
    while ((i > 0) && pkt_before(pkt, sim->heap[(i - 1) / 2])) {
        sim->heap[i] = sim->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    sim->heap[i] = pkt;
}

static sim_pkt_t *heap_pop(sroce_sim_t *sim)
{
    sim_pkt_t *top = sim->heap[0], *last = sim->heap[--sim->num_pkts];
    uint32_t i = 0;

    for (;;) {
        uint32_t c = 2 * i + 1;

        if (c >= sim->num_pkts) {
            break;
        }
        if ((c + 1 < sim->num_pkts) &&
            pkt_before(sim->heap[c + 1], sim->heap[c])) {
            ++c;
        }
        if (!pkt_before(sim->heap[c], last)) {
            break;
        }
        sim->heap[i] = sim->heap[c];
        i = c;
    }
    sim->heap[i] = last;
    return top;
}

static sim_pkt_t *pkt_new(sroce_sim_t *sim, unsigned to, uint32_t src_ip,
                          uint16_t sport, const void *data, uint32_t length)
{
    sim_pkt_t *pkt = malloc(sizeof(*pkt) + length);

    if (pkt == NULL) {
        abort();
    }
    pkt->at_ns = sim->now_ns;
    pkt->seq = sim->seq++;
    pkt->src_ip = src_ip;
    pkt->sport = sport;
    pkt->tos = 0;
    pkt->to = (uint8_t)to;
    pkt->length = length;
    memcpy(pkt->data, data, length);
    return pkt;
}

void sroce_sim_inject(sroce_sim_t *sim, unsigned to, uint32_t src_ip,
                      uint16_t sport, const void *data, uint32_t length)
{
    heap_push(sim, pkt_new(sim, to, src_ip, sport, data, length));
}

/* ---- Links ---- */

/* late_ns: extra delay due to reordering by a script. */
static void link_schedule(sroce_sim_t *sim, unsigned from, unsigned to,
                          sim_pkt_t *pkt, const sroce_sim_effect_t *effect,
                          mrail_ns_t late_ns)
{
    const sroce_sim_link_t *link = &sim->links[from][to];
    mrail_ns_t at = MRAIL_MAX(effect->leave_ns, sim->link_free_ns[from][to]);

    if (link->rate_Bps != 0) {
        at += (pkt->length + 28) * MRAIL_NS_PER_SEC / link->rate_Bps;
        sim->link_free_ns[from][to] = at;
    }
    at += link->delay_ns + effect->delay_ns;
    if (link->jitter_ns != 0) {
        at += mrail_rng_next(&sim->rng) % link->jitter_ns;
    }
    at = MRAIL_MAX(at, sim->link_last_ns[from][to]);
    if (mrail_rng_hit(&sim->rng, link->reorder_ppm)) {
        at += mrail_rng_next(&sim->rng) % (link->reorder_ns + 1);
    } else if (late_ns != 0) {
        at += late_ns;
    } else {
        sim->link_last_ns[from][to] = at;
    }
    pkt->at_ns = at;
    heap_push(sim, pkt);
}

/* Flips one to four bits, none before byte `first`. */
static void pkt_flip(sim_pkt_t *pkt, uint32_t first, mrail_rng_t *rng)
{
    uint32_t flips = 1 + mrail_rng_below(rng, 4);

    while (flips-- > 0) {
        uint32_t bit =
            8 * first + mrail_rng_below(rng, 8 * (pkt->length - first));

        pkt->data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
}

static void link_damage(sroce_sim_t *sim, const sroce_sim_link_t *link,
                        sim_pkt_t *pkt)
{
    if (mrail_rng_hit(&sim->rng, link->corrupt_ppm)) {
        pkt_flip(pkt, 0, &sim->rng);
    }
    if (mrail_rng_hit(&sim->rng, link->truncate_ppm)) {
        pkt->length = mrail_rng_below(&sim->rng, pkt->length);
    }
}

static void link_send(sroce_sim_t *sim, const sim_node_t *node, unsigned to,
                      uint8_t *data, uint32_t length)
{
    const sroce_sim_link_t *link = &sim->links[node->id][to];
    sroce_sim_effect_t effect = {.copies = 1, .leave_ns = sim->now_ns};
    int copies = 1;

    if ((sim->filter != NULL) &&
        sim->filter(sim->filter_arg, node->id, to, data, length)) {
        return;
    }
    if (!node->up || link->down || mrail_rng_hit(&sim->rng, link->loss_ppm)) {
        return;
    }
    if (sim->faults != NULL) {
        sroce_sim_faults_packet(sim->faults, node->id, to, data, length,
                                sim->now_ns, &effect);
    }
    copies += mrail_rng_hit(&sim->rng, link->dup_ppm);
    while (copies-- > 0) {
        for (unsigned i = 0; i < effect.copies; ++i) {
            sim_pkt_t *pkt =
                pkt_new(sim, to, node->ip, sim->run.sport, data, length);

            pkt->tos = sim->run.tos;
            if (effect.corrupt[i]) {
                pkt_flip(pkt, SROCE_BTH_BYTES,
                         sroce_sim_faults_rng(sim->faults));
            }
            link_damage(sim, link, pkt);
            link_schedule(sim, node->id, to, pkt, &effect, effect.late_ns[i]);
        }
    }
}

static int node_by_ip(const sroce_sim_t *sim, uint32_t ip)
{
    for (unsigned i = 0; i < sim->num_nodes; ++i) {
        if (sim->nodes[i].ip == ip) {
            return (int)i;
        }
    }
    return -1;
}

/* Splits a run into packets, as the kernel does. */
static void node_send_run(sroce_sim_t *sim, sim_node_t *node)
{
    static uint8_t flat[SROCE_RUN_BYTES];
    const sroce_txrun_t *run = &sim->run;
    int to = node_by_ip(sim, run->dst_ip);
    uint32_t at = 0, length = 0;

    for (uint32_t i = 0; i < run->iov_count; ++i) {
        memcpy(flat + length, run->iov[i].iov_base, run->iov[i].iov_len);
        length += (uint32_t)run->iov[i].iov_len;
    }
    if ((length != run->length) ||
        (MRAIL_DIV_ROUND_UP(length, run->seg_bytes) != run->num_pkts)) {
        abort(); /* UDP_SEGMENT would split it differently */
    }
    for (; (to >= 0) && (at < length); at += run->seg_bytes) {
        link_send(sim, node, (unsigned)to, flat + at,
                  MRAIL_MIN(run->seg_bytes, length - at));
    }
}

/* ---- Nodes ---- */

static void node_qp_active(void *arg, sroce_qp_t *qp, void *qp_user)
{
    sim_node_t *node = arg;

    if (node->num_active == node->max_active) {
        node->max_active = 2 * node->max_active + 16;
        node->active =
            realloc(node->active, node->max_active * sizeof(*node->active));
        if (node->active == NULL) {
            abort();
        }
    }
    node->active[node->num_active++] = qp;
}

static void node_cq_event(void *arg, void *cq_user)
{
    ++((sim_node_t *)arg)->cq_events;
}

static void node_async_event(void *arg, enum ibv_event_type type, void *user)
{
    sim_node_t *node = arg;
    sroce_sim_t *sim = node->sim;

    if (sim->event_head - sim->event_tail < MAX_EVENTS) {
        sim->events[sim->event_head++ % MAX_EVENTS] =
            (sroce_sim_event_t){node->id, type, user};
    }
}

static int node_is_paused(const sroce_sim_t *sim, unsigned id)
{
    return (sim->faults != NULL) && sroce_sim_faults_is_paused(sim->faults, id);
}

/* Sends from the active QPs round-robin until all of them are idle. */
static void node_transmit(sroce_sim_t *sim, sim_node_t *node)
{
    uint32_t i = 0;

    while ((node->num_active > 0) && !node_is_paused(sim, node->id)) {
        sroce_qp_t *qp;
        sroce_txinfo_t info;

        i %= node->num_active;
        qp = node->active[i];
        if (!sroce_qp_peek(qp, sim->now_ns, &info)) {
            node->active[i] = node->active[--node->num_active];
            continue;
        }
        if (sroce_qp_pull(qp, sim->now_ns, SROCE_RUN_BYTES,
                          1 + mrail_rng_below(&sim->rng, SROCE_RUN_PKTS),
                          &sim->run) != 0) {
            if (info.next_bytes > sim->run.length) {
                abort(); /* the packet is shorter than next_bytes announced */
            }
            node_send_run(sim, node);
        }
        ++i;
    }
}

static void node_run_list_remove(sim_node_t *node, const sroce_qp_t *qp)
{
    for (uint32_t i = 0; i < node->num_active; ++i) {
        if (node->active[i] == qp) {
            node->active[i--] = node->active[--node->num_active];
        }
    }
}

void sroce_sim_qp_destroy(sroce_sim_t *sim, unsigned node, sroce_qp_t *qp)
{
    node_run_list_remove(&sim->nodes[node], qp);
    sroce_qp_destroy(qp);
}

int sroce_sim_node_add(sroce_sim_t *sim, sroce_dev_params_t params)
{
    unsigned id = sim->num_nodes;
    sim_node_t *node = &sim->nodes[id];

    if (id == SROCE_SIM_MAX_NODES) {
        return -1;
    }
    memset(node, 0, sizeof(*node));
    node->sim = sim;
    node->id = id;
    node->up = 1;
    node->held_end = &node->held;
    node->ip = (params.ip != 0) ? params.ip : htonl(0x0a000001 + id);
    params.ip = node->ip;
    if (params.qpn_base == 0) {
        params.qpn_base = (id + 1) * QPN_RANGE;
        params.qpn_count = QPN_RANGE;
    }
    params.ops.cq_event = node_cq_event;
    params.ops.async_event = node_async_event;
    params.ops.qp_active = node_qp_active;
    params.ops.arg = node;
    if (sroce_dev_create(&params, &node->dev) != 0) {
        return -1;
    }
    return (int)sim->num_nodes++;
}

/* ---- Time ---- */

static void sim_trace(sroce_sim_t *sim, const sim_pkt_t *pkt)
{
    uint64_t head = 0;

    if (pkt->length >= SROCE_BTH_BYTES) {
        head = sroce_get64(pkt->data) ^ sroce_get32(pkt->data + 8);
    }
    sim->trace = mrail_mix64(sim->trace ^ sim->now_ns);
    sim->trace = mrail_mix64(sim->trace ^ head);
    sim->trace =
        mrail_mix64(sim->trace ^ pkt->length ^ ((uint64_t)pkt->to << 32));
}

/* Returns 1 if the node receives the packet now. A paused node holds the
 * packet. */
static int node_accepts(sroce_sim_t *sim, sim_node_t *node, sim_pkt_t *pkt)
{
    if (node_is_paused(sim, node->id)) {
        pkt->next = NULL;
        *node->held_end = pkt;
        node->held_end = &pkt->next;
        return 0;
    }
    if (!node->up || ((sim->faults != NULL) &&
                      sroce_sim_faults_drops_rx(sim->faults, node->id))) {
        free(pkt);
        return 0;
    }
    return 1;
}

static void sim_deliver(sroce_sim_t *sim)
{
    while ((sim->num_pkts > 0) && (sim->heap[0]->at_ns <= sim->now_ns)) {
        sim_pkt_t *pkt = heap_pop(sim);
        sim_node_t *node = &sim->nodes[pkt->to];
        sroce_rxpkt_t rx = {.length = pkt->length,
                            .src_ip = pkt->src_ip,
                            .dst_ip = node->ip,
                            .sport = pkt->sport,
                            .tos = pkt->tos};
        uint8_t *exact;

        if (!node_accepts(sim, node, pkt)) {
            continue;
        }
        /* A copy of exactly this length lets ASan find reads past the end. */
        exact = malloc(pkt->length + (pkt->length == 0));
        if (exact == NULL) {
            abort();
        }
        memcpy(exact, pkt->data, pkt->length);
        rx.data = exact;
        ++sim->delivered;
        sim_trace(sim, pkt);
        sroce_dev_rx(node->dev, &rx, sim->now_ns);
        free(exact);
        free(pkt);
    }
}

static mrail_ns_t sim_next(const sroce_sim_t *sim)
{
    mrail_ns_t next =
        (sim->num_pkts > 0) ? sim->heap[0]->at_ns : MRAIL_NS_NEVER;

    for (unsigned i = 0; i < sim->num_nodes; ++i) {
        mrail_ns_t deadline = sroce_dev_deadline(sim->nodes[i].dev);

        next = MRAIL_MIN(next, deadline);
    }
    if (sim->faults != NULL) {
        mrail_ns_t step = sroce_sim_faults_next(sim->faults);

        next = MRAIL_MIN(next, step);
    }
    return next;
}

static int sim_next_until(sroce_sim_t *sim, mrail_ns_t until_ns)
{
    mrail_ns_t next;

    for (unsigned i = 0; i < sim->num_nodes; ++i) {
        node_transmit(sim, &sim->nodes[i]);
    }
    next = sim_next(sim);
    if ((next == MRAIL_NS_NEVER) || (next > until_ns)) {
        return 0;
    }
    sim->now_ns = MRAIL_MAX(sim->now_ns, next);
    if (sim->faults != NULL) {
        sroce_sim_faults_run(sim->faults, sim->now_ns);
    }
    sim_deliver(sim);
    for (unsigned i = 0; i < sim->num_nodes; ++i) {
        sroce_dev_timers(sim->nodes[i].dev, sim->now_ns);
    }
    return 1;
}

int sroce_sim_step(sroce_sim_t *sim)
{
    return sim_next_until(sim, MRAIL_NS_NEVER - 1);
}

int sroce_sim_step_until(sroce_sim_t *sim, mrail_ns_t until_ns)
{
    int stepped = sim_next_until(sim, until_ns);

    if (!stepped) {
        sim->now_ns = until_ns;
    }
    return stepped;
}

int sroce_sim_run(sroce_sim_t *sim, mrail_ns_t until_ns)
{
    while (sim_next_until(sim, until_ns)) {
    }
    if (sim_next(sim) == MRAIL_NS_NEVER) {
        return 0;
    }
    sim->now_ns = until_ns;
    return 1;
}

/* ---- Scripts ---- */

static void node_port(void *arg, unsigned id, int up)
{
    sroce_sim_t *sim = arg;

    sroce_sim_port_set(sim, id, up);
    if (id < sim->num_nodes) {
        node_async_event(&sim->nodes[id],
                         up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, NULL);
    }
}

static void node_resume(void *arg, unsigned id)
{
    sroce_sim_t *sim = arg;
    sim_node_t *node = &sim->nodes[id];
    sim_pkt_t *pkt, *next;

    for (pkt = node->held; pkt != NULL; pkt = next) {
        next = pkt->next;
        heap_push(sim, pkt); /* scheduled in the past, so it precedes all other
                              * events */
    }
    node->held = NULL;
    node->held_end = &node->held;
}

static void node_fail_qps(void *arg, unsigned id, uint32_t nth)
{
    sroce_sim_t *sim = arg;

    if (id < sim->num_nodes) {
        sroce_dev_fail_qps(sim->nodes[id].dev, nth);
    }
}

static void node_write_delay(void *arg, unsigned id, mrail_ns_t delay_ns)
{
    sroce_sim_t *sim = arg;

    if (id < sim->num_nodes) {
        sroce_dev_set_write_delay(sim->nodes[id].dev, delay_ns);
    }
}

int sroce_sim_script(sroce_sim_t *sim, const sroce_fault_script_t *script,
                     unsigned num_nodes, unsigned num_rails)
{
    const sroce_sim_fault_ops_t ops = {node_port, node_resume, node_fail_qps,
                                       node_write_delay, sim};

    if ((sim->faults != NULL) ||
        (num_nodes * num_rails > SROCE_SIM_MAX_NODES)) {
        return -1;
    }
    sim->faults = sroce_sim_faults_create(script, num_nodes, num_rails, &ops,
                                          sim->now_ns);
    if (sim->faults == NULL) {
        return -1;
    }
    sroce_sim_faults_run(sim->faults, sim->now_ns);
    return 0;
}

uint64_t sroce_sim_trace(const sroce_sim_t *sim)
{
    return sim->trace;
}

/* ---- Creation, queries ---- */

sroce_sim_t *sroce_sim_create(uint64_t seed)
{
    sroce_sim_t *sim = calloc(1, sizeof(*sim));

    if (sim != NULL) {
        mrail_rng_init(&sim->rng, seed);
        sim->now_ns = MRAIL_NS_PER_SEC;
    }
    return sim;
}

void sroce_sim_destroy(sroce_sim_t *sim)
{
    for (unsigned i = 0; i < sim->num_nodes; ++i) {
        node_resume(sim, i);
    }
    while (sim->num_pkts > 0) {
        free(heap_pop(sim));
    }
    sroce_sim_faults_destroy(sim->faults);
    for (unsigned i = 0; i < sim->num_nodes; ++i) {
        sroce_dev_destroy(sim->nodes[i].dev);
        free(sim->nodes[i].active);
    }
    free(sim->heap);
    free(sim);
}

sroce_dev_t *sroce_sim_dev(const sroce_sim_t *sim, unsigned node)
{
    return sim->nodes[node].dev;
}

uint32_t sroce_sim_ip(const sroce_sim_t *sim, unsigned node)
{
    return sim->nodes[node].ip;
}

void sroce_sim_port_set(sroce_sim_t *sim, unsigned node, int up)
{
    sim->nodes[node].up = up;
}

sroce_sim_link_t *sroce_sim_link(sroce_sim_t *sim, unsigned from, unsigned to)
{
    return &sim->links[from][to];
}

void sroce_sim_link_all(sroce_sim_t *sim, const sroce_sim_link_t *link)
{
    for (unsigned i = 0; i < SROCE_SIM_MAX_NODES; ++i) {
        for (unsigned j = 0; j < SROCE_SIM_MAX_NODES; ++j) {
            sim->links[i][j] = *link;
        }
    }
}

void sroce_sim_filter(sroce_sim_t *sim, sroce_sim_filter_func_t func, void *arg)
{
    sim->filter = func;
    sim->filter_arg = arg;
}

mrail_ns_t sroce_sim_now(const sroce_sim_t *sim)
{
    return sim->now_ns;
}

mrail_rng_t *sroce_sim_rng(sroce_sim_t *sim)
{
    return &sim->rng;
}

int sroce_sim_event_get(sroce_sim_t *sim, sroce_sim_event_t *event_p)
{
    if (sim->event_head == sim->event_tail) {
        return 0;
    }
    *event_p = sim->events[sim->event_tail++ % MAX_EVENTS];
    return 1;
}

unsigned sroce_sim_cq_events(const sroce_sim_t *sim, unsigned node)
{
    return sim->nodes[node].cq_events;
}

uint64_t sroce_sim_delivered(const sroce_sim_t *sim)
{
    return sim->delivered;
}
