#include "config.h"
#include "rail/conn/peer.h"

#include "base/rng.h"
#include "rail/conn/ctl_send.h"
#include "rail/conn/ctl_work.h"
#include "rail/conn/paths.h"
#include "rail/params.h"
#include "rail/proto/pairing.h"
#include "rail/state/control_wake.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

mrail_peer_t *mrail_peer_find(mrail_engine_t *engine, uint64_t id)
{
    mrail_list_t *head = &engine->buckets[mrail_mix64(id) % MRAIL_BUCKETS];
    mrail_peer_t *peer;

    mrail_list_for_each(peer, head, mrail_peer_t, list) {
        if (peer->id == id) {
            return peer;
        }
    }
    return NULL;
}

mrail_peer_t *mrail_peer_create(mrail_engine_t *engine, uint64_t id)
{
    mrail_peer_t *peer = calloc(1, sizeof(*peer));

    if (peer == NULL) {
        return NULL;
    }
    peer->engine = engine;
    peer->detached.peer = peer;
    peer->id = id;
    peer->op_next = 1;
    mrail_paths_init(peer);
    ++engine->num_peers;
    mrail_list_init(&peer->work);
    mrail_list_init(&peer->eps);
    mrail_list_init(&peer->unacked);
    mrail_list_init(&peer->replay_am);
    mrail_list_init(&peer->replay_rma);
    mrail_list_init(&peer->arrived);
    mrail_list_init(&peer->hold);
    mrail_list_init(&peer->ops);
    mrail_list_init(&peer->uncut);
    mrail_list_init(&peer->flushes_pending);
    mrail_list_init(&peer->active);
    mrail_list_init(&peer->ended);
    mrail_list_add_tail(&engine->buckets[mrail_mix64(id) % MRAIL_BUCKETS],
                        &peer->list);
    return peer;
}

void mrail_peer_free(mrail_peer_t *peer)
{
    mrail_ctl_drop_handles(peer, NULL);
    mrail_list_del(&peer->list);
    mrail_list_del(&peer->work);
    mrail_list_del(&peer->active);
    mrail_list_del(&peer->ended);
    --peer->engine->num_peers;
    free(peer->moves);
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
    pthread_mutex_unlock(&engine->ctl_lock);
    mrail_control_thread_wake(engine);
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

void mrail_ctl_learn(mrail_peer_t *peer, const mrail_ctl_msg_t *msg)
{
    mrail_engine_t *engine = peer->engine;
    uint64_t local[MRAIL_MAX_RAILS], remote[MRAIL_MAX_RAILS];

    if (peer->state == MRAIL_PEER_KNOWN) {
        return;
    }
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        local[i] = engine->rails[i].attr.subnet;
    }
    peer->num_rails = msg->hello.num_rails;
    for (unsigned i = 0; i < peer->num_rails; ++i) {
        peer->rails[i] = msg->hello.rails[i];
        remote[i] = peer->rails[i].subnet;
        peer->flush_rkey.rkey[i] = peer->rails[i].flush_rkey;
    }
    peer->flush_rkey.count = peer->num_rails;
    peer->num_pairs = mrail_rails_pair(local, engine->num_rails, remote,
                                       peer->num_rails, peer->pairs);
    peer->num_slots = MRAIL_MIN(
        peer->num_pairs * mrail_config_lanes(&engine->config, peer->num_pairs),
        MRAIL_MAX_SLOTS);
    peer->base = engine->next_base++ % peer->num_pairs;
    mrail_debug("peer %016llx: %u rails, %u pairs",
                (unsigned long long)peer->id, peer->num_rails, peer->num_pairs);
    peer->state = MRAIL_PEER_KNOWN;
    peer->tries = 0;
    if (msg->hello.seg_size != engine->config.seg_size) {
        mrail_error("peer %016llx has UCX_MRAIL_SEG_SIZE=%u, this process %zu: "
                    "it must be equal in all processes",
                    (unsigned long long)peer->id, msg->hello.seg_size,
                    engine->config.seg_size);
        mrail_ctl_peer_failed(peer, -EPROTO);
    }
}
