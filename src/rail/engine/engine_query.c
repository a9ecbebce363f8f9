#include "config.h"
#include "rail/engine/engine.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MRAIL_SPEED_QUERY (100 * MRAIL_NS_PER_MS)

/* Bytes of a send queue entry, a completion queue entry and a receive queue
 * entry on common NICs. Verbs reports only the depths of queues. */
#define MRAIL_SQ_ENTRY 192

#define MRAIL_CQ_ENTRY 64

#define MRAIL_RQ_ENTRY 32

void mrail_engine_query(const mrail_engine_t *engine,
                        mrail_engine_attr_t *attr_p)
{
    memset(attr_p, 0, sizeof(*attr_p));
    attr_p->num_rails = engine->num_rails;
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        /* 1/32 accounts for the RoCEv2 headers of a 4 KiB packet, and a small
         * margin. */
        attr_p->bandwidth +=
            (double)engine->rails[i].attr.rate_bps / 8 * 31 / 32;
    }
    attr_p->latency_s = 1e-6;
    attr_p->max_am_short = MRAIL_AM_SHORT_MAX;
    attr_p->max_am_bcopy = engine->config.seg_size - sizeof(mrail_data_hdr_t);
    attr_p->max_put_short = MRAIL_AM_SHORT_MAX;
    attr_p->max_bcopy = attr_p->max_am_bcopy;
    attr_p->rkey_size = 4 + 4 * (size_t)engine->num_rails;
}

mrail_cuda_access_t mrail_engine_device_access(const mrail_engine_t *engine)
{
    mrail_cuda_device_t devices[MRAIL_CUDA_MAX_DEVICES];
    const mrail_cuda_t *cuda = mrail_cuda_find();
    mrail_cuda_access_t access = MRAIL_CUDA_ACCESS_NONE, one;
    int has_dmabuf = 1;
    const char *reason;
    unsigned num;

    if ((cuda == NULL) || (cuda->cuInit(0) != CUDA_SUCCESS)) {
        return MRAIL_CUDA_ACCESS_NONE;
    }
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        has_dmabuf &= engine->rails[i].attr.has_dmabuf;
    }
    num = mrail_cuda_devices(cuda, devices);
    for (unsigned i = 0; i < num; ++i) {
        one = mrail_cuda_access(&devices[i], has_dmabuf, &reason);
        if (one == MRAIL_CUDA_ACCESS_NONE) {
            mrail_debug("device memory of GPU %d cannot be registered: %s",
                        devices[i].ordinal, reason);
            return MRAIL_CUDA_ACCESS_NONE;
        }
        access = MRAIL_MAX(access, one);
    }
    return access;
}

static void mrail_rail_now(mrail_rail_t *rail, mrail_ns_t now_ns,
                           mrail_rail_now_t *now)
{
    if (now_ns >= rail->speed_ns + MRAIL_SPEED_QUERY) {
        rail->speed_ns = now_ns;
        mrail_rail_query_speed(rail);
    }
    memset(now, 0, sizeof(*now));
    now->index = rail->index;
    now->subnet = rail->attr.subnet;
    memcpy(now->gid, rail->attr.gid, sizeof(now->gid));
    memcpy(now->device, rail->attr.device, sizeof(now->device));
    now->speed = rail->speed_bps / 8;
    now->live_in = mrail_tele_flow_live(&rail->flows[MRAIL_FLOW_IN], now_ns);
    now->live_out = mrail_tele_flow_live(&rail->flows[MRAIL_FLOW_OUT], now_ns);
    now->is_up = !__atomic_load_n(&rail->port_down, __ATOMIC_RELAXED) &&
                 !__atomic_load_n(&rail->fatal, __ATOMIC_RELAXED);
    now->nic_index = rail->attr.nic_index;
}

static int mrail_rail_now_compare(const void *a, const void *b)
{
    const mrail_rail_now_t *left = a, *right = b;

    if (left->subnet != right->subnet) {
        return (left->subnet < right->subnet) ? -1 : 1;
    }
    return memcmp(left->gid, right->gid, sizeof(left->gid));
}

unsigned mrail_engine_rails(mrail_engine_t *engine, mrail_rail_now_t *rails)
{
    const mrail_config_t *config = &engine->config;
    mrail_ns_t now_ns = mrail_clock_now();

    for (unsigned i = 0; i < engine->num_rails; ++i) {
        mrail_rail_now(&engine->rails[i], now_ns, &rails[i]);
        if (config->uplinks != MRAIL_SIZE_AUTO) {
            rails[i].uplinks = mrail_config_uplinks(config);
            rails[i].num_lanes = mrail_config_lanes(config, engine->num_rails);
        }
    }
    qsort(rails, engine->num_rails, sizeof(*rails), mrail_rail_now_compare);
    return engine->num_rails;
}

void mrail_engine_memory(mrail_engine_t *engine, mrail_memory_t *memory_p)
{
    memset(memory_p, 0, sizeof(*memory_p));
    mrail_ctl_take(engine);
    memory_p->num_qps = engine->num_qps;
    memory_p->num_peers = engine->num_peers;
    memory_p->pools =
        mrail_pool_bytes(&engine->tx_small) + mrail_pool_bytes(&engine->tx_big);
    memory_p->tables =
        mrail_pool_bytes(&engine->ops) + mrail_pool_bytes(&engine->chunks) +
        mrail_pool_bytes(&engine->flush_pool) +
        mrail_pool_bytes(&engine->groups) +
        engine->num_peers * sizeof(mrail_peer_t) + engine->table_bytes +
        engine->num_lanes * sizeof(mrail_lane_t) +
        engine->config.max_qps *
            (sizeof(*engine->lanes) + sizeof(*engine->lane_free));
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        const mrail_rail_t *rail = &engine->rails[i];

        memory_p->queues += (size_t)rail->sq_entries * MRAIL_SQ_ENTRY +
                            (size_t)rail->cq->cqe * MRAIL_CQ_ENTRY +
                            rail->srq_depth * MRAIL_RQ_ENTRY;
        memory_p->pools +=
            rail->rx_bytes +
            (MRAIL_UD_RX + MRAIL_UD_TX) * (MRAIL_UD_GRH + MRAIL_CTL_MAX_SIZE);
    }
    mrail_ctl_unlock(engine);
}
