/* Events of a rail that concern the paths of all peers: its port, its address,
 * and the end of an outage. */
#include "config.h"
#include "rail/conn/rail_paths.h"

#include "rail/conn/ctl_send.h"
#include "rail/conn/paths.h"
#include "rail/verbs/rail.h"

void mrail_paths_readdress(mrail_engine_t *engine, mrail_rail_t *rail)
{
    mrail_peer_t *peer;

    if (!mrail_rail_find_gid(rail)) {
        return;
    }
    mrail_list_for_each(peer, &engine->peers, mrail_peer_t, list) {
        mrail_ctl_drop_handles(peer, rail);
    }
}

/* Reports the event to the paths of a peer that use the rail. */
static MRAIL_CTL void mrail_paths_port_peer(mrail_peer_t *peer,
                                            const mrail_rail_t *rail,
                                            mrail_health_event_t event,
                                            mrail_ns_t now_ns)
{
    for (unsigned slot = 0; slot < peer->num_slots; ++slot) {
        if (mrail_path_rail(peer, slot) != rail) {
            continue;
        }
        if (rail->port_down) { /* ignore answers to earlier probes */
            peer->paths[slot].num_probes = 0;
            peer->paths[slot].blocked = 0;
        } else {
            peer->paths[slot].prober = 0;
            mrail_list_del(&peer->paths[slot].affected);
        }
        mrail_path_event(peer, slot, event, now_ns);
    }
}

void mrail_paths_restore(mrail_rail_t *rail, unsigned max, mrail_ns_t now_ns)
{
    mrail_path_t *path;

    rail->num_probers = 0;
    for (; (max != 0) && !mrail_list_empty(&rail->affected); --max) {
        path = mrail_list_head(&rail->affected, mrail_path_t, affected);
        mrail_list_del(&path->affected);
        path->prober = 0;
        mrail_path_event(path->peer, (unsigned)(path - path->peer->paths),
                         MRAIL_HEALTH_PORT_UP, now_ns);
    }
}

void mrail_paths_add_prober(mrail_rail_t *rail, mrail_ns_t now_ns)
{
    unsigned visits = MRAIL_RAIL_BATCH;
    mrail_path_t *path;

    mrail_list_for_each(path, &rail->affected, mrail_path_t, affected) {
        if (path->health.state == MRAIL_HEALTH_RETIRED) {
            mrail_path_event(path->peer, (unsigned)(path - path->peer->paths),
                             MRAIL_HEALTH_PORT_UP, now_ns);
            return;
        }
        if (--visits == 0) {
            return;
        }
    }
}

/* Handles a local port that has gone down or come up. The first peers are
 * notified at once. With many peers, the others follow in batches. */
void mrail_paths_port(mrail_engine_t *engine, mrail_rail_t *rail,
                      mrail_health_event_t event, mrail_ns_t now_ns)
{
    unsigned count = 0;
    mrail_peer_t *peer;

    __atomic_store_n(&rail->port_down, event == MRAIL_HEALTH_PORT_DOWN,
                     __ATOMIC_RELAXED);
    rail->outage_ns = 0;
    if (!rail->port_down) {
        mrail_paths_rail_alive(rail, now_ns);
        rail->num_probers = 0;
    } else if ((engine->num_peers > MRAIL_RAIL_BATCH) && !rail->outage) {
        rail->outage_ns = now_ns + MRAIL_PATH_GRACE;
    }
    mrail_list_for_each(peer, &engine->peers, mrail_peer_t, list) {
        if (++count > MRAIL_RAIL_BATCH) {
            break;
        }
        mrail_paths_port_peer(peer, rail, event, now_ns);
    }
}
