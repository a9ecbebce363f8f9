#include "config.h"
#include "rail/conn/conn.h"

#include "rail/state/signals.h"

#include <arpa/inet.h>

void mrail_ctl_lane_join(mrail_lane_t *lane)
{
    mrail_engine_t *engine = lane->peer->engine;
    char address[INET6_ADDRSTRLEN];

    if (__atomic_exchange_n(&lane->rail->failing, 0, __ATOMIC_RELAXED)) {
        mrail_gid_text(lane->peer->rails[lane->remote_rail].gid, address,
                       sizeof(address));
        mrail_warn("%s:%u: a lane to peer %016llx at %s is up again",
                   lane->rail->attr.device, lane->rail->attr.port,
                   (unsigned long long)lane->peer->id, address);
    }
    lane->peer->paths[lane->slot].stalls = 0;
    lane->peer->paths[lane->slot].patience_ns = 0;
    lane->peer->unreachable_ns = 0;
    lane->peer->reconnects = 0;
    lane->peer->reconnect_cause = NULL;
    mrail_ctl_connected(lane->peer);
    mrail_path_event(lane->peer, lane->slot, MRAIL_HEALTH_RESTORED,
                     mrail_clock_now());
    __atomic_fetch_or(&lane->peer->up_mask, 1ull << lane->slot,
                      __ATOMIC_RELEASE);
    __atomic_fetch_add(&engine->num_changes, 1, __ATOMIC_SEQ_CST);
    mrail_wakeup_all(engine, MRAIL_ARMED_OWN);
}

void mrail_ctl_lane_up(mrail_lane_t *lane, const char *cause)
{
    mrail_peer_t *peer = lane->peer;
    mrail_path_t *path = &peer->paths[lane->slot];

    int is_anew = (path->health.state == MRAIL_HEALTH_RETIRED) ||
                  (path->health.state == MRAIL_HEALTH_PROBING);

    mrail_lane_event(
        lane, is_anew ? MRAIL_LANE_EV_CONNECT_ANEW : MRAIL_LANE_EV_CONNECT,
        cause);
    if (!peer->based) {
        mrail_paths_rebase(peer,
                           mrail_paths_base(peer, lane->slot, lane->rail->index,
                                            lane->remote_rail));
        peer->based = 1; /* both ends agree on the base pair */
    }
    path->sport = lane->sport;
    if (is_anew) {
        mrail_control_thread_wake(peer->engine);
    } else {
        mrail_ctl_lane_join(lane);
    }
}
