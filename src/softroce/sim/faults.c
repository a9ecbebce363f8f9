#include "config.h"
#include "softroce/sim/faults.h"

#include "base/util.h"
#include "softroce/core/pkt.h"

#include <stdlib.h>

#define WIRE_BYTES 28 /* IPv4 and UDP headers, which link rates include */

typedef struct fault_node {
    uint64_t now[SROCE_FAULT_NUM_RAIL_STATES]; /* by setting */
    uint64_t packets;                          /* sent since the start */
    uint64_t bytes;
    mrail_ns_t egress_free_ns;
    mrail_ns_t ingress_free_ns;
} fault_node_t;

struct sroce_sim_faults {
    sroce_sim_fault_ops_t ops;
    sroce_fault_timeline_t *tl;
    mrail_rng_t rng;
    mrail_ns_t start_ns;
    unsigned num_devs;
    fault_node_t nodes[];
};

/* ---- Ops of the timeline ---- */

static uint64_t faults_get(void *arg, unsigned dev,
                           sroce_fault_setting_t setting, int healthy)
{
    return 0; /* a healthy simulated rail has no faults and no rate limit */
}

static void faults_apply(void *arg, unsigned dev, sroce_fault_setting_t setting,
                         uint64_t value)
{
    sroce_sim_faults_t *faults = arg;

    if (setting == SROCE_FAULT_ERROR_QP) {
        faults->ops.fail_qps(faults->ops.arg, dev, (uint32_t)value);
        return;
    }
    faults->nodes[dev].now[setting] = value;
    if (setting == SROCE_FAULT_DOWN) {
        faults->ops.port(faults->ops.arg, dev, value == 0);
    } else if ((setting == SROCE_FAULT_PAUSE) && (value == 0)) {
        faults->ops.resume(faults->ops.arg, dev);
    } else if (setting == SROCE_FAULT_WRITE_DELAY) {
        faults->ops.write_delay(faults->ops.arg, dev, value * MRAIL_NS_PER_US);
    }
}

/* ---- Packets ---- */

/* Returns the sum over both rails, because each end of the path adds its own
 * faults. */
static uint32_t both_ppm(const fault_node_t *from, const fault_node_t *to,
                         sroce_fault_setting_t setting)
{
    return sroce_fault_ppm(from->now[setting]) +
           sroce_fault_ppm(to->now[setting]);
}

static mrail_ns_t pass_rate(mrail_ns_t *free_ns, uint64_t rate_bytes_per_s,
                            uint32_t length, mrail_ns_t at_ns)
{
    if (rate_bytes_per_s == 0) {
        return at_ns;
    }
    at_ns = MRAIL_MAX(at_ns, *free_ns) +
            (length + WIRE_BYTES) * MRAIL_NS_PER_SEC / rate_bytes_per_s;
    *free_ns = at_ns;
    return at_ns;
}

/* Returns 1 if the sender's rail loses the packet. */
static int drops_tx(sroce_sim_faults_t *faults, const fault_node_t *from,
                    const uint8_t *data)
{
    return from->now[SROCE_FAULT_DOWN] || from->now[SROCE_FAULT_BLACKHOLE_TX] ||
           (from->now[SROCE_FAULT_DROP_ACKS] &&
            (sroce_ops[data[0]].flags & SROCE_OPF_RESPONSE)) ||
           mrail_rng_hit(&faults->rng, (uint32_t)from->now[SROCE_FAULT_DROP]);
}

static void copies_of(sroce_sim_faults_t *faults, const fault_node_t *from,
                      const fault_node_t *to, sroce_sim_effect_t *effect)
{
    uint32_t span_us =
        MRAIL_MAX(sroce_fault_span_us(from->now[SROCE_FAULT_REORDER]),
                  sroce_fault_span_us(to->now[SROCE_FAULT_REORDER]));
    mrail_rng_t *rng = &faults->rng;

    effect->copies +=
        mrail_rng_hit(rng, both_ppm(from, to, SROCE_FAULT_DUPLICATE));
    for (unsigned i = 0; i < effect->copies; ++i) {
        effect->corrupt[i] =
            mrail_rng_hit(rng, both_ppm(from, to, SROCE_FAULT_CORRUPT));
        if (mrail_rng_hit(rng, both_ppm(from, to, SROCE_FAULT_REORDER))) {
            effect->late_ns[i] =
                (1 + mrail_rng_below(rng, MRAIL_MAX(span_us, 1u))) *
                MRAIL_NS_PER_US;
        }
    }
}

void sroce_sim_faults_packet(sroce_sim_faults_t *faults, unsigned from_id,
                             unsigned to_id, const uint8_t *data,
                             uint32_t length, mrail_ns_t now_ns,
                             sroce_sim_effect_t *effect_p)
{
    sroce_sim_effect_t effect = {.copies = 0, .leave_ns = now_ns};
    fault_node_t *from, *to;

    if ((from_id >= faults->num_devs) || (to_id >= faults->num_devs)) {
        effect.copies = 1;
        *effect_p = effect;
        return;
    }
    from = &faults->nodes[from_id];
    to = &faults->nodes[to_id];
    if (!drops_tx(faults, from, data)) {
        ++from->packets;
        from->bytes += length;
        if (!to->now[SROCE_FAULT_DOWN] &&
            !mrail_rng_hit(&faults->rng, (uint32_t)to->now[SROCE_FAULT_DROP])) {
            effect.copies = 1;
            copies_of(faults, from, to, &effect);
        }
        effect.leave_ns =
            pass_rate(&from->egress_free_ns, from->now[SROCE_FAULT_EGRESS],
                      length, now_ns);
        effect.leave_ns =
            pass_rate(&to->ingress_free_ns, to->now[SROCE_FAULT_INGRESS],
                      length, effect.leave_ns);
        effect.delay_ns =
            (from->now[SROCE_FAULT_DELAY] + to->now[SROCE_FAULT_DELAY]) *
            MRAIL_NS_PER_US;
        sroce_fault_timeline_sent(faults->tl, from_id, from->packets,
                                  from->bytes, now_ns - faults->start_ns);
    }
    *effect_p = effect;
}

/* ---- Queries, creation ---- */

int sroce_sim_faults_is_paused(const sroce_sim_faults_t *faults, unsigned node)
{
    return (node < faults->num_devs) &&
           faults->nodes[node].now[SROCE_FAULT_PAUSE];
}

int sroce_sim_faults_drops_rx(const sroce_sim_faults_t *faults, unsigned node)
{
    return (node < faults->num_devs) &&
           faults->nodes[node].now[SROCE_FAULT_BLACKHOLE_RX];
}

mrail_rng_t *sroce_sim_faults_rng(sroce_sim_faults_t *faults)
{
    return &faults->rng;
}

mrail_ns_t sroce_sim_faults_next(const sroce_sim_faults_t *faults)
{
    mrail_ns_t next_ns = sroce_fault_timeline_next(faults->tl);

    return (next_ns == MRAIL_NS_NEVER) ? next_ns : faults->start_ns + next_ns;
}

void sroce_sim_faults_run(sroce_sim_faults_t *faults, mrail_ns_t now_ns)
{
    sroce_fault_timeline_run(faults->tl, now_ns - faults->start_ns);
}

sroce_sim_faults_t *sroce_sim_faults_create(const sroce_fault_script_t *script,
                                            unsigned num_nodes,
                                            unsigned num_rails,
                                            const sroce_sim_fault_ops_t *ops,
                                            mrail_ns_t now_ns)
{
    unsigned num_devs = num_nodes * num_rails;
    sroce_sim_faults_t *faults =
        calloc(1, sizeof(*faults) + num_devs * sizeof(faults->nodes[0]));
    sroce_fault_ops_t tl_ops = {faults_get, faults_apply, NULL, faults};

    if (faults == NULL) {
        return NULL;
    }
    faults->ops = *ops;
    faults->num_devs = num_devs;
    faults->start_ns = now_ns;
    mrail_rng_init(&faults->rng, mrail_mix64(script->seed + 1));
    faults->tl =
        sroce_fault_timeline_create(script, num_nodes, num_rails, 0, &tl_ops);
    if (faults->tl == NULL) {
        free(faults);
        return NULL;
    }
    return faults;
}

void sroce_sim_faults_destroy(sroce_sim_faults_t *faults)
{
    if (faults != NULL) {
        sroce_fault_timeline_destroy(faults->tl);
        free(faults);
    }
}
