/*
 * Work that the control thread has for a peer: its schedule, its time limits,
 * and the failure of the peer.
 */
#include "config.h"
#include "rail/conn/ctl_work.h"

#include "rail/params.h"
#include "rail/state/control_wake.h"
#include "rail/state/signals.h"

#include <errno.h>

/* Minimum peer timeout until a first lane has come up. */
#define MRAIL_CTL_FIRST (30 * MRAIL_NS_PER_SEC)

mrail_ns_t mrail_ctl_rto(unsigned tries)
{
    return MRAIL_MIN(MRAIL_CTL_RTO_MIN << MRAIL_MIN(tries, 8u),
                     MRAIL_CTL_RTO_MAX);
}

/* Allows more time for a peer that was never connected, because it may still be
 * starting. */
mrail_ns_t mrail_ctl_peer_timeout(const mrail_peer_t *peer)
{
    mrail_ns_t dead_ns = mrail_config_ns(peer->engine->config.peer_timeout_s);

    return peer->based ? dead_ns : MRAIL_MAX(dead_ns, MRAIL_CTL_FIRST);
}

void mrail_ctl_work(mrail_peer_t *peer)
{
    if (mrail_list_empty(&peer->work)) {
        mrail_list_add_tail(&peer->engine->work, &peer->work);
    }
}

mrail_ns_t mrail_ctl_await_buffer(mrail_peer_t *peer)
{
    if (mrail_list_empty(&peer->blocked)) {
        mrail_list_add_tail(&peer->engine->blocked, &peer->blocked);
    }
    return MRAIL_NS_NEVER;
}

int mrail_ctl_may_connect(mrail_peer_t *peer)
{
    mrail_engine_t *engine = peer->engine;

    if (peer->connecting) {
        return 1;
    }
    if (engine->num_connecting >= MRAIL_CTL_CONNECTING) {
        if (mrail_list_empty(&peer->connect)) {
            mrail_list_add_tail(&engine->connect_queue, &peer->connect);
        }
        return 0;
    }
    mrail_list_del(&peer->connect);
    peer->connecting = 1;
    ++engine->num_connecting;
    return 1;
}

void mrail_ctl_connected(mrail_peer_t *peer)
{
    mrail_engine_t *engine = peer->engine;
    mrail_peer_t *next;

    if (!peer->connecting) {
        return;
    }
    peer->connecting = 0;
    --engine->num_connecting;
    while (!mrail_list_empty(&engine->connect_queue)) {
        next = mrail_list_head(&engine->connect_queue, mrail_peer_t, connect);
        mrail_list_del(&next->connect);
        /* Peers in other states have failed, or have been connected by the peer
         * itself. */
        if ((next->state == MRAIL_PEER_NEW) &&
            (__atomic_load_n(&next->failed, __ATOMIC_RELAXED) == 0)) {
            mrail_ctl_work(next);
            return;
        }
    }
}

void mrail_ctl_peer_failed(mrail_peer_t *peer, int status)
{
    mrail_engine_t *engine = peer->engine;
    int none = 0;

    if (__atomic_compare_exchange_n(&peer->failed, &none, status, 0,
                                    __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
        mrail_peer_check(peer);
        mrail_wakeup_all(engine, MRAIL_ARMED_OWN);
        mrail_control_thread_wake(engine);
    }
}

void mrail_ctl_give_up(mrail_peer_t *peer)
{
    if (peer->reconnect_cause != NULL) { /* the peer has answered, so it
                                          * exists */
        mrail_error("peer %016llx cannot be connected on any of %u rails: %s",
                    (unsigned long long)peer->id, peer->num_pairs,
                    peer->reconnect_cause);
        mrail_ctl_peer_failed(peer, -ECONNREFUSED);
    } else {
        mrail_error("peer %016llx cannot be reached on any of %u rails",
                    (unsigned long long)peer->id, peer->num_pairs);
        mrail_ctl_peer_failed(peer, -ETIMEDOUT);
    }
}

void mrail_ctl_probe(mrail_peer_t *peer)
{
    if (peer->probe_tries == 0) {
        peer->probe_tries = 1;
        peer->probe_request = ++peer->engine->ctl_seq;
        peer->probe_ns = 0;
        mrail_ctl_work(peer);
    }
}
