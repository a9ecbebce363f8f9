/* Opens and closes the engine of the process, and answers queries. */
#include "config.h"
#include "rail/engine/engine.h"

#include "rail/conn/conn.h"
#include "rail/proto/pairing.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>

#define MRAIL_TX_META 192 /* mrail_tx_t, rounded up to cache lines */

_Static_assert(sizeof(mrail_tx_t) <= MRAIL_TX_META,
               "mrail_tx_t must fit into MRAIL_TX_META");

_Static_assert(sizeof(mrail_rx_t) <= MRAIL_RX_HEADROOM,
               "mrail_rx_t must fit into MRAIL_RX_HEADROOM");

_Static_assert(sizeof(mrail_data_hdr_t) == 24,
               "the data header must have its size on the wire");

static pthread_mutex_t engine_lock = PTHREAD_MUTEX_INITIALIZER;

static mrail_engine_t *engine_instance;

typedef struct mrail_open_discovery {
    mrail_rail_attr_t attr[MRAIL_MAX_RAILS];
    unsigned count;
    mrail_rejected_ports_t rejected;
} mrail_open_discovery_t;

/* Registers a chunk of buffers and writes the constant parts of each buffer. */
static int mrail_tx_chunk_init(mrail_engine_t *engine, mrail_pool_t *pool,
                               void *base, size_t length, void **priv_p)
{
    size_t stride = pool->params.elem_size;
    mrail_mem_t *mem;
    int ret;

    memset(base, 0, length);
    ret = mrail_mem_reg_own(engine, base, length, &mem);
    if (ret != 0) {
        return ret;
    }
    for (size_t offset = 0; offset < length; offset += stride) {
        mrail_tx_t *tx = (mrail_tx_t *)((char *)base + offset);

        tx->mem = mem;
        tx->pool = pool;
        tx->hdr = (mrail_data_hdr_t *)((char *)tx + MRAIL_TX_META);
        mrail_list_init(&tx->am.list);
        mrail_list_init(&tx->am.replay);
    }
    *priv_p = mem;
    return 0;
}

static int mrail_tx_small_init(void *arg, void *base, size_t length,
                               void **priv_p)
{
    mrail_engine_t *engine = arg;

    return mrail_tx_chunk_init(engine, &engine->tx_small, base, length, priv_p);
}

static int mrail_tx_big_init(void *arg, void *base, size_t length,
                             void **priv_p)
{
    mrail_engine_t *engine = arg;

    return mrail_tx_chunk_init(engine, &engine->tx_big, base, length, priv_p);
}

static void mrail_tx_chunk_cleanup(void *arg, void *priv)
{
    mrail_mem_dereg(priv);
}

static void mrail_engine_init_pools(mrail_engine_t *engine)
{
    const mrail_pool_params_t small = {
        .elem_size = MRAIL_TX_META + MRAIL_TX_SMALL_AREA,
        .elems_per_chunk = 128,
        .chunk_init = mrail_tx_small_init,
        .chunk_cleanup = mrail_tx_chunk_cleanup,
        .arg = engine,
    };
    mrail_pool_params_t big = small;
    const struct {
        mrail_pool_t *pool;
        size_t size;
        unsigned per_chunk;
    } plain[] = {
        {&engine->ops, sizeof(mrail_op_t), 64},
        {&engine->chunks, sizeof(mrail_chunk_t), 256},
        {&engine->flush_pool, sizeof(mrail_flush_t), 64},
        {&engine->groups, sizeof(mrail_flush_group_t), 32},
    };

    big.elem_size = MRAIL_TX_META + engine->config.seg_size;
    big.elems_per_chunk = 32;
    big.chunk_init = mrail_tx_big_init;
    mrail_pool_init(&engine->tx_small, &small);
    mrail_pool_init(&engine->tx_big, &big);
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(plain); ++i) {
        const mrail_pool_params_t params = {
            .elem_size = plain[i].size,
            .elems_per_chunk = plain[i].per_chunk,
        };

        mrail_pool_init(plain[i].pool, &params);
    }
}

static void mrail_open_discovery_port(void *arg, const mrail_rail_attr_t *attr)
{
    mrail_open_discovery_t *discovery = arg;

    if (attr->selected) {
        discovery->attr[discovery->count++] = *attr;
    }
    mrail_rejected_ports_add(&discovery->rejected, attr);
}

static int mrail_engine_open_rails(mrail_engine_t *engine)
{
    mrail_open_discovery_t discovery = {.count = 0};
    int ret = mrail_rail_discover(&engine->config, mrail_open_discovery_port,
                                  &discovery);

    if (ret < 0) {
        return ret;
    }
    if (discovery.count == 0) {
        mrail_warn("no rail: %s; see 'mrail info'",
                   mrail_rejected_ports_text(&discovery.rejected));
        return -ENODEV;
    }
    for (unsigned i = 0; i < discovery.count; ++i) {
        ret = mrail_rail_open(&engine->rails[i], i, &discovery.attr[i],
                              &engine->config);
        if (ret != 0) {
            return ret;
        }
        ++engine->num_rails;
        engine->flush_mem.mr[i] = engine->rails[i].flush_mr;
    }
    return 0;
}

static MRAIL_UNCHECKED void mrail_engine_free(mrail_engine_t *engine)
{
    mrail_peer_t *peer, *tmp;

    mrail_telemetry_export_close(engine);
    mrail_list_for_each(peer, &engine->peers, mrail_peer_t, list) {
        mrail_for_each_lane(lane, peer) {
            mrail_lane_destroy_qp(lane);
        }
    }
    mrail_pool_cleanup(&engine->tx_small);
    mrail_pool_cleanup(&engine->tx_big);
    mrail_pool_cleanup(&engine->ops);
    mrail_pool_cleanup(&engine->chunks);
    mrail_pool_cleanup(&engine->flush_pool);
    mrail_pool_cleanup(&engine->groups);
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        mrail_rail_destroy_srq(&engine->rails[i]);
        mrail_rail_free_buffers(&engine->rails[i]);
    }
    mrail_list_for_each_safe(peer, tmp, &engine->peers, mrail_peer_t, list) {
        mrail_for_each_lane(lane, peer) {
            free(lane);
        }
        mrail_peer_free(peer);
    }
    mrail_lane_free_dropped(engine);
    mrail_hash_cleanup(&engine->peers_by_id);
    free(engine->ended_lanes);
    free(engine->lanes);
    free(engine->lane_free);
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        mrail_rail_close(&engine->rails[i]);
    }
    mrail_data_lock_cleanup(&engine->data_lock);
    pthread_mutex_destroy(&engine->ctl_lock);
    mrail_config_cleanup(&engine->config);
    free(engine);
}

/* Allocates the first send buffers of each size, without which every operation
 * would return -EAGAIN forever. */
static int mrail_engine_first_buffers(mrail_engine_t *engine)
{
    mrail_pool_t *const pools[] = {&engine->tx_small, &engine->tx_big};
    int ret = 0;

    for (unsigned i = 0; (ret == 0) && (i < MRAIL_ARRAY_SIZE(pools)); ++i) {
        ret = mrail_pool_grow(pools[i]);
        if (ret != 0) {
            ret = mrail_rail_explain(engine->rails[0].attr.device,
                                     (size_t)pools[i]->params.elems_per_chunk *
                                         pools[i]->params.elem_size,
                                     -ret);
            mrail_error("cannot allocate send buffers: %s", strerror(-ret));
        }
    }
    return ret;
}

static MRAIL_UNCHECKED int mrail_engine_init(mrail_engine_t *engine,
                                             const mrail_config_t *config)
{
    uint64_t random[3];
    int ret;

    mrail_rail_allow_fork();
    ret = mrail_config_copy(&engine->config, config);
    if (ret != 0) {
        return ret;
    }
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        return -errno;
    }
    engine->id = random[0];
    engine->cookie = random[1];
    mrail_rng_init(&engine->rng, random[2]);
    engine->epoch = (uint16_t)mrail_rng_next(&engine->rng);
    /* Start at a random rail, so that processes with one peer each do not all
     * use the first rail. */
    engine->next_base = mrail_rng_below(&engine->rng, MRAIL_MAX_RAILS * 3);
    engine->rx_stride =
        MRAIL_DIV_ROUND_UP(MRAIL_RX_HEADROOM + config->seg_size, 64) * 64;
    engine->lanes = calloc(config->max_qps, sizeof(*engine->lanes));
    engine->lane_free = calloc(config->max_qps, sizeof(*engine->lane_free));
    if ((engine->lanes == NULL) || (engine->lane_free == NULL)) {
        return -ENOMEM;
    }
    ret = mrail_engine_open_rails(engine);
    if (ret == 0) {
        ret = mrail_engine_first_buffers(engine);
    }
    if (ret == 0) {
        mrail_telemetry_export_open(engine);
        ret = mrail_control_thread_start(engine);
    }
    return ret;
}

int mrail_engine_create(const mrail_config_t *config, mrail_engine_t **engine_p)
{
    mrail_engine_t *engine;
    int ret;

    ret = mrail_config_check(config);
    if (ret != 0) {
        return ret;
    }
    engine = calloc(1, sizeof(*engine));
    if (engine == NULL) {
        return -ENOMEM;
    }
    engine->references = 1;
    engine->event_fd = engine->epoll_fd = -1;
    mrail_data_lock_init(&engine->data_lock);
    pthread_mutex_init(&engine->ctl_lock, NULL);
    mrail_hash_init(&engine->peers_by_id);
    mrail_list_init(&engine->peers);
    for (unsigned i = 0; i < MRAIL_MAX_IFACES; ++i) {
        engine->next_iface[i] = (uint16_t)i;
    }
    mrail_list_init(&engine->work);
    mrail_heap_init(&engine->timers);
    mrail_list_init(&engine->stalling);
    mrail_list_init(&engine->keepalives);
    mrail_list_init(&engine->blocked);
    mrail_list_init(&engine->connect_queue);
    mrail_list_init(&engine->active);
    mrail_list_init(&engine->acks);
    mrail_list_init(&engine->ended);
    mrail_list_init(&engine->dropped);
    engine->config.seg_size = config->seg_size;
    mrail_engine_init_pools(engine);

    ret = mrail_engine_init(engine, config);
    if (ret != 0) {
        mrail_engine_free(engine);
        return ret;
    }
    *engine_p = engine;
    return 0;
}

int mrail_engine_open(const mrail_config_t *config, mrail_engine_t **engine_p)
{
    int ret = 0;

    pthread_mutex_lock(&engine_lock);
    if (engine_instance != NULL) {
        ++engine_instance->references;
    } else {
        ret = mrail_engine_create(config, &engine_instance);
    }
    if (ret == 0) {
        *engine_p = engine_instance;
    }
    pthread_mutex_unlock(&engine_lock);
    return ret;
}

void mrail_engine_destroy(mrail_engine_t *engine)
{
    mrail_control_thread_stop(engine);
    mrail_engine_write_stats(engine);
    mrail_engine_free(engine);
}

void mrail_engine_close(mrail_engine_t *engine)
{
    pthread_mutex_lock(&engine_lock);
    if (--engine->references == 0) {
        engine_instance = NULL;
        mrail_engine_destroy(engine);
    }
    pthread_mutex_unlock(&engine_lock);
}

unsigned mrail_rails_now(mrail_rail_now_t *rails)
{
    unsigned count = 0;

    pthread_mutex_lock(&engine_lock);
    if (engine_instance != NULL) {
        count = mrail_engine_rails(engine_instance, rails);
    }
    pthread_mutex_unlock(&engine_lock);
    return count;
}
