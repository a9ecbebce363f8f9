#include "config.h"
#include "rail/conn/conn.h"

#include "rail/proto/pairing.h"
#include "rail/state/signals.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

mrail_peer_t *mrail_peer_find(mrail_engine_t *engine, uint64_t id)
{
    mrail_hash_node_t *node = mrail_hash_find(&engine->peers_by_id, id);

    return (node != NULL) ? MRAIL_CONTAINER_OF(node, mrail_peer_t, by_id)
                          : NULL;
}

mrail_peer_t *mrail_peer_create(mrail_engine_t *engine, uint64_t id)
{
    mrail_peer_t *peer = calloc(1, sizeof(*peer));

    if (peer == NULL) {
        return NULL;
    }
    if (mrail_hash_add(&engine->peers_by_id, &peer->by_id, id) != 0) {
        free(peer);
        return NULL;
    }
    peer->engine = engine;
    peer->id = id;
    peer->op_next = 1;
    ++engine->num_peers;
    mrail_list_init(&peer->work);
    mrail_list_init(&peer->blocked);
    mrail_list_init(&peer->connect);
    mrail_list_init(&peer->stalling);
    mrail_list_init(&peer->keepalive);
    mrail_list_init(&peer->eps);
    mrail_am_stream_init(&peer->am);
    mrail_list_init(&peer->replay_rma);
    mrail_list_init(&peer->lost_puts);
    mrail_list_init(&peer->arrived);
    mrail_list_init(&peer->ops);
    mrail_list_init(&peer->uncut);
    mrail_list_init(&peer->flushes_pending);
    mrail_list_init(&peer->active);
    mrail_list_init(&peer->ended);
    mrail_list_add_tail(&engine->peers, &peer->list);
    return peer;
}

void mrail_peer_free(mrail_peer_t *peer)
{
    mrail_ctl_drop_handles(peer, NULL);
    mrail_paths_remove(peer);
    mrail_hash_del(&peer->engine->peers_by_id, &peer->by_id);
    mrail_list_del(&peer->list);
    mrail_ctl_connected(peer);
    mrail_list_del(&peer->work);
    mrail_list_del(&peer->blocked);
    mrail_list_del(&peer->connect);
    mrail_list_del(&peer->stalling);
    mrail_list_del(&peer->keepalive);
    mrail_heap_del(&peer->engine->timers, &peer->timer);
    mrail_list_del(&peer->active);
    mrail_list_del(&peer->ended);
    --peer->engine->num_peers;
    peer->engine->table_bytes -= peer->table_bytes;
    free(peer->moves);
    free(peer->uplinks);
    free(peer->boots);
    free(peer->tables);
    free(peer);
}

void mrail_peer_request_lanes(mrail_peer_t *peer, int all)
{
    mrail_engine_t *engine = peer->engine;

    if (all ? __atomic_load_n(&peer->expand_wanted, __ATOMIC_RELAXED)
            : peer->connect_wanted) {
        return;
    }
    peer->connect_wanted = 1;
    if (all) {
        __atomic_store_n(&peer->expand_wanted, 1, __ATOMIC_RELAXED);
    }
    mrail_ctl_lock(engine);
    peer->requested_slots =
        all ? MRAIL_MAX_SLOTS : MRAIL_MAX(peer->requested_slots, 1u);
    mrail_list_del(&peer->work);
    mrail_list_add_tail(&engine->work, &peer->work);
    mrail_ctl_unlock(engine);
    mrail_control_thread_wake(engine);
}

mrail_ns_t mrail_peer_next_keepalive(const mrail_engine_t *engine,
                                     mrail_ns_t now_ns)
{
    return isinf(engine->config.keepalive_interval_s)
               ? MRAIL_NS_NEVER
               : now_ns + mrail_config_ns(engine->config.keepalive_interval_s);
}

void mrail_peer_activate(mrail_peer_t *peer)
{
    if (mrail_list_empty(&peer->active)) {
        mrail_list_add_tail(&peer->engine->active, &peer->active);
    }
}

int mrail_peer_departed(const mrail_engine_t *engine, uint64_t id)
{
    uint64_t count = MRAIL_MIN(engine->num_departed, (uint64_t)MRAIL_DEPARTED);

    for (uint64_t i = 0; i < count; ++i) {
        if (engine->departed[i].id == id) {
            return engine->departed[i].status;
        }
    }
    return 0;
}

void mrail_peer_set_departed(mrail_peer_t *peer, int status)
{
    __atomic_store_n(&peer->failed, status, __ATOMIC_RELEASE);
    peer->state = MRAIL_PEER_GONE;
    peer->dead = 2;
    ++peer->engine->num_dead;
    __atomic_fetch_add(&peer->engine->num_changes, 1, __ATOMIC_SEQ_CST);
}

/* Sets the rails and pairs of the peer, and allocates the arrays for its lanes.
 * A single allocation holds all arrays. Returns 0 or -ENOMEM. */
static int mrail_peer_set_rails(mrail_peer_t *peer, unsigned num_rails,
                                const mrail_wire_rail_t *rails,
                                unsigned num_pairs,
                                const mrail_rail_pair_t *pairs)
{
    unsigned slots = MRAIL_MIN(
        num_pairs * mrail_config_lanes(&peer->engine->config, num_pairs),
        MRAIL_MAX_SLOTS);
    /* The arrays are in order of decreasing alignment. */
    size_t bytes =
        num_rails * sizeof(*peer->rails) + num_pairs * sizeof(mrail_handle_t) +
        slots * (sizeof(*peer->paths) + sizeof(mrail_lane_t *) +
                 sizeof(mrail_sched_lane_t *) + sizeof(*peer->handled_seq) +
                 sizeof(*peer->prev_epochs)) +
        num_pairs * sizeof(*peer->pairs);
    char *at = calloc(1, bytes);

    if (at == NULL) {
        return -ENOMEM;
    }
    peer->tables = at;
    peer->table_bytes = bytes;
    peer->engine->table_bytes += bytes;
    peer->rails = (mrail_wire_rail_t *)at;
    peer->pair_handles = (mrail_handle_t *)(peer->rails + num_rails);
    peer->paths = (mrail_path_t *)(peer->pair_handles + num_pairs);
    peer->up = (mrail_lane_t **)(peer->paths + slots);
    peer->sched = (mrail_sched_lane_t **)(peer->up + slots);
    peer->handled_seq = (uint32_t *)(peer->sched + slots);
    peer->prev_epochs = (mrail_prev_epoch_t *)(peer->handled_seq + slots);
    peer->pairs = (mrail_rail_pair_t *)(peer->prev_epochs + slots);
    memcpy(peer->rails, rails, num_rails * sizeof(*rails));
    memcpy(peer->pairs, pairs, num_pairs * sizeof(*pairs));
    peer->num_rails = num_rails;
    peer->num_pairs = num_pairs;
    peer->num_slots = peer->slot_limit = slots;
    mrail_paths_init(peer);
    return 0;
}

/* Frees the peer's bootstrap rails, because messages now use its rail pairs. */
static MRAIL_CTL void mrail_peer_drop_boots(mrail_peer_t *peer)
{
    mrail_ctl_drop_boot_handles(peer, NULL);
    free(peer->boots);
    peer->boots = NULL;
}

void mrail_ctl_learn(mrail_peer_t *peer, const mrail_ctl_msg_t *msg)
{
    mrail_engine_t *engine = peer->engine;
    uint64_t local[MRAIL_MAX_RAILS], remote[MRAIL_MAX_RAILS];
    mrail_rail_pair_t pairs[MRAIL_MAX_PAIRS];
    unsigned num_pairs;

    if (peer->state == MRAIL_PEER_KNOWN) {
        return;
    }
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        local[i] = engine->rails[i].attr.subnet;
    }
    for (unsigned i = 0; i < msg->hello.num_rails; ++i) {
        remote[i] = msg->hello.rails[i].subnet;
    }
    num_pairs = mrail_rails_pair(local, engine->num_rails, remote,
                                 msg->hello.num_rails, pairs);
    if (mrail_peer_set_rails(peer, msg->hello.num_rails, msg->hello.rails,
                             num_pairs, pairs) != 0) {
        mrail_error("no memory for peer %016llx", (unsigned long long)peer->id);
        mrail_ctl_peer_failed(peer, -ENOMEM);
        return;
    }
    for (unsigned i = 0; i < peer->num_rails; ++i) {
        peer->flush_rkey.rkey[i] = peer->rails[i].flush_rkey;
    }
    peer->flush_rkey.count = peer->num_rails;
    peer->base = engine->next_base++ % peer->num_pairs;
    mrail_peer_drop_boots(peer);
    mrail_debug("peer %016llx: %u rails, %u pairs",
                (unsigned long long)peer->id, peer->num_rails, peer->num_pairs);
    peer->state = MRAIL_PEER_KNOWN;
    peer->keepalive_ns = mrail_peer_next_keepalive(engine, mrail_clock_now());
    mrail_list_add_tail(&engine->keepalives, &peer->keepalive);
    peer->tries = 0;
    if (msg->hello.seg_size != engine->config.seg_size) {
        mrail_error("peer %016llx uses UCX_MRAIL_SEG_SIZE=%u, but this process "
                    "uses %zu; set the same value in all processes",
                    (unsigned long long)peer->id, msg->hello.seg_size,
                    engine->config.seg_size);
        mrail_ctl_peer_failed(peer, -EPROTO);
    }
}
