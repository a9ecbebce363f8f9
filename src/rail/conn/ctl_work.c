/*
 * Schedules the work that the control thread has for a peer, checks its time
 * limits, and handles the failure of the peer.
 */
#include "config.h"
#include "rail/conn/conn.h"

#include "rail/state/signals.h"

#include <errno.h>
#include <arpa/inet.h>

/* Maximum number of peers that connect at the same time. With more peers,
 * answers would overflow the receive queues of the control channel, and each
 * lost answer costs a retransmission. */
#define MRAIL_CTL_CONNECTING 256

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
        /* A peer in another state has failed, or has itself initiated the
         * connection. */
        if ((next->state == MRAIL_PEER_NEW) && !mrail_peer_has_failed(next)) {
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
        mrail_error("cannot connect to peer %016llx on any of %u rails: %s",
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

/* ---- Errors of lanes and peers ---- */

void mrail_peer_error(mrail_peer_t *peer, const char *cause)
{
    if (!mrail_peer_has_failed(peer)) {
        mrail_warn("peer %016llx: %s", (unsigned long long)peer->id, cause);
    }
    mrail_ctl_peer_failed(peer, -ECONNRESET);
}

void mrail_failover_request(mrail_lane_t *lane, const char *cause)
{
    mrail_peer_t *peer = lane->peer;
    mrail_engine_t *engine = peer->engine;
    uint64_t bit = 1ull << lane->slot;
    mrail_log_level_t level = MRAIL_LOG_WARN;
    char address[INET6_ADDRSTRLEN];

    if (mrail_peer_has_failed(peer)) {
        return; /* all lanes to the peer are ending */
    }
    if (!MRAIL_FAILOVER) {
        mrail_peer_error(peer, cause);
        return;
    }
    if (__atomic_fetch_or(&peer->fail_mask, bit, __ATOMIC_RELEASE) & bit) {
        return;
    }
    if (__atomic_exchange_n(&lane->rail->failing, 1, __ATOMIC_RELAXED)) {
        level = MRAIL_LOG_DEBUG; /* thousands of lanes may fail together */
    }
    mrail_gid_text(peer->rails[lane->remote_rail].gid, address,
                   sizeof(address));
    mrail_log(level,
              "%s:%u: lane %u to peer %016llx at %s failed (%s); other "
              "lanes take over its work",
              lane->rail->attr.device, lane->rail->attr.port, lane->slot,
              (unsigned long long)peer->id, address, cause);
    mrail_peer_check(peer);
    mrail_wakeup_all(engine, MRAIL_ARMED_OWN);
    mrail_control_thread_wake(engine);
}

void mrail_lane_error(mrail_lane_t *lane, const char *cause)
{
    /* Further completions of a lane that was already given up are ignored. */
    if (!mrail_lane_is(lane, MRAIL_LANE_CLOSES)) {
        mrail_failover_request(lane, cause);
    }
}
