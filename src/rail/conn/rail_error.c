/*
 * Errors and events of whole rails. If many peers use a rail that no longer
 * carries traffic, the engine declares an *outage*, instead of detecting the
 * fault for each peer separately. docs/failover.md describes when an outage
 * begins and ends. Lanes and paths are notified in batches, which bounds the
 * time of an iteration.
 */
#include "config.h"
#include "rail/conn/conn.h"

/* Maximum number of peers or lanes that are notified of a rail event per
 * iteration of the control thread. */
#define MRAIL_RAIL_BATCH 64

/* Number of retired paths after which a sample of paths is probed; number of
 * retired paths, including the sample, that proves an outage; size of the
 * sample. */
#define MRAIL_RAIL_SUSPECT 4
#define MRAIL_RAIL_OUTAGE 12
#define MRAIL_RAIL_SAMPLE 16
#define MRAIL_RAIL_VISITS 256 /* lanes that one search for a sample visits */
/* Time for the sample to answer: three probes, 20 ms apart, and a margin. */
#define MRAIL_RAIL_SAMPLE_TIME (80 * MRAIL_NS_PER_MS)
/* Time between two batches. */
#define MRAIL_RAIL_PAUSE (1 * MRAIL_NS_PER_MS)

/* ---- Events of a rail that concern the paths of all peers ---- */

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

/* Reports the end of an outage to up to `max` paths that wait for the rail. */
static MRAIL_CTL void mrail_paths_restore(mrail_rail_t *rail, unsigned max,
                                          mrail_ns_t now_ns)
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

/* Makes one of the paths that wait for the rail probe it, because no prober is
 * left. */
static MRAIL_CTL void mrail_paths_add_prober(mrail_rail_t *rail,
                                             mrail_ns_t now_ns)
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

/* Handles a local port that has gone down or come up. Notifies the first
 * MRAIL_RAIL_BATCH peers immediately. Further peers follow in batches. */
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

/* ---- Outages ---- */

/* Returns 1 if another rail, without an outage, also leads to the peer. */
static int mrail_rail_has_other(const mrail_peer_t *peer)
{
    for (unsigned i = 0; i < peer->num_pairs; ++i) {
        const mrail_rail_t *rail = &peer->engine->rails[peer->pairs[i].local];

        if (!rail->outage && !rail->fatal && !rail->port_down) {
            return 1;
        }
    }
    return 0;
}

/* Returns the lane that was visited least recently. */
static mrail_lane_t *mrail_rail_next_lane(mrail_rail_t *rail)
{
    mrail_lane_t *lane = mrail_list_head(&rail->lanes, mrail_lane_t, rail_list);

    mrail_list_del(&lane->rail_list);
    mrail_list_add_tail(&rail->lanes, &lane->rail_list);
    return lane;
}

static MRAIL_CTL void mrail_rail_notify_lane(mrail_lane_t *lane,
                                             mrail_ns_t now_ns)
{
    mrail_peer_t *peer = lane->peer;

    if (lane->rail->fatal) {
        mrail_failover_request(lane, "its device was lost");
    } else if (mrail_lane_is(lane, MRAIL_LANE_CONNECTED) &&
               mrail_rail_has_other(peer)) {
        peer->paths[lane->slot].num_probes = 0; /* ignore answers to earlier
                                                 * probes */
        peer->paths[lane->slot].blocked = 0;
        mrail_path_event(peer, lane->slot, MRAIL_HEALTH_RAIL_DOWN, now_ns);
    }
}

static MRAIL_CTL void mrail_rail_notify_some(mrail_rail_t *rail,
                                             mrail_ns_t now_ns)
{
    for (unsigned i = 0; (i < MRAIL_RAIL_BATCH) && (rail->num_unnotified != 0);
         ++i) {
        if (mrail_list_empty(&rail->lanes)) {
            rail->num_unnotified = 0;
            return;
        }
        --rail->num_unnotified;
        mrail_rail_notify_lane(mrail_rail_next_lane(rail), now_ns);
    }
}

static void mrail_rail_begin_outage(mrail_rail_t *rail, const char *cause)
{
    rail->outage = 1;
    rail->outage_ns = 0;
    rail->num_retired = 0;
    rail->sample_ns = 0;
    rail->num_unnotified = rail->num_lanes;
    mrail_log(__atomic_exchange_n(&rail->failing, 1, __ATOMIC_RELAXED)
                  ? MRAIL_LOG_DEBUG
                  : MRAIL_LOG_WARN,
              "%s:%u: the rail no longer carries traffic (%s); the other rails "
              "take over its work",
              rail->attr.device, rail->attr.port, cause);
}

/* Probes some paths to determine whether the rail carries traffic. If all
 * visited lanes are closing, the search continues in the next iteration. */
static MRAIL_CTL void mrail_rail_sample(mrail_rail_t *rail, mrail_ns_t now_ns)
{
    unsigned count = 0;

    for (unsigned i = 0;
         (i < MRAIL_RAIL_VISITS) && (count < MRAIL_RAIL_SAMPLE) &&
         (rail->num_visited < rail->num_lanes);
         ++i) {
        const mrail_lane_t *lane = mrail_rail_next_lane(rail);

        ++rail->num_visited;
        if (mrail_lane_is(lane, MRAIL_LANE_CONNECTED)) {
            mrail_path_event(lane->peer, lane->slot, MRAIL_HEALTH_STALLED,
                             now_ns);
            ++count;
        }
    }
    if ((count != 0) || (rail->num_visited >= rail->num_lanes)) {
        rail->sample_ns = now_ns;
        rail->num_visited = 0;
    }
}

static MRAIL_CTL void mrail_rail_check(mrail_engine_t *engine,
                                       mrail_rail_t *rail, mrail_ns_t now_ns)
{
    if (rail->outage || (engine->num_peers <= MRAIL_RAIL_BATCH)) {
        return;
    }
    if ((rail->outage_ns != 0) && (now_ns >= rail->outage_ns)) {
        mrail_rail_begin_outage(rail, "its port is down");
    } else if (rail->num_retired < MRAIL_RAIL_SUSPECT) {
        return;
    } else if (rail->sample_ns == 0) {
        mrail_rail_sample(rail, now_ns);
    } else if ((rail->num_retired >= MRAIL_RAIL_OUTAGE) &&
               (now_ns >= rail->sample_ns + MRAIL_RAIL_SAMPLE_TIME)) {
        mrail_rail_begin_outage(rail, "no probe was answered");
    }
}

static mrail_ns_t mrail_rail_next_check(const mrail_engine_t *engine,
                                        const mrail_rail_t *rail,
                                        mrail_ns_t now_ns)
{
    if (rail->outage || (engine->num_peers <= MRAIL_RAIL_BATCH)) {
        return MRAIL_NS_NEVER;
    }
    if (rail->outage_ns != 0) {
        return rail->outage_ns;
    }
    if (rail->num_retired < MRAIL_RAIL_SUSPECT) {
        return MRAIL_NS_NEVER;
    }
    if (rail->sample_ns == 0) {
        return now_ns + MRAIL_RAIL_PAUSE;
    }
    /* After the time of the sample, no timer is needed, because the next
     * retired path triggers a check. */
    return (now_ns < rail->sample_ns + MRAIL_RAIL_SAMPLE_TIME)
               ? rail->sample_ns + MRAIL_RAIL_SAMPLE_TIME
               : MRAIL_NS_NEVER;
}

/* Performs the due work of one rail. Returns the time of the next call. */
static MRAIL_CTL mrail_ns_t mrail_rail_run(mrail_engine_t *engine,
                                           mrail_rail_t *rail,
                                           mrail_ns_t now_ns)
{
    mrail_rail_check(engine, rail, now_ns);
    if (rail->num_unnotified != 0) {
        mrail_rail_notify_some(rail, now_ns);
    } else if (!rail->outage && !rail->port_down && !rail->fatal) {
        mrail_paths_restore(rail, MRAIL_RAIL_BATCH, now_ns);
    } else if (rail->outage && !rail->fatal && (rail->num_probers == 0)) {
        mrail_paths_add_prober(rail, now_ns);
        if (!rail->port_down && mrail_list_empty(&rail->affected)) {
            mrail_paths_rail_alive(rail, now_ns); /* no path is left to end the
                                                   * outage */
        }
    }
    if ((rail->num_unnotified != 0) ||
        (!rail->outage && !rail->port_down && !rail->fatal &&
         !mrail_list_empty(&rail->affected))) {
        return now_ns + MRAIL_RAIL_PAUSE;
    }
    return mrail_rail_next_check(engine, rail, now_ns);
}

mrail_ns_t mrail_rails_run(mrail_engine_t *engine, mrail_ns_t now_ns)
{
    mrail_ns_t next_ns = MRAIL_NS_NEVER;

    for (unsigned i = 0; i < engine->num_rails; ++i) {
        next_ns = mrail_ns_min(
            next_ns, mrail_rail_run(engine, &engine->rails[i], now_ns));
    }
    return next_ns;
}

void mrail_failover_rail(mrail_engine_t *engine, mrail_rail_t *rail,
                         const char *cause)
{
    mrail_ns_t now_ns = mrail_clock_now();

    if (rail->fatal) {
        return;
    }
    mrail_paths_port(engine, rail, MRAIL_HEALTH_PORT_DOWN, now_ns);
    __atomic_store_n(&rail->fatal, 1, __ATOMIC_RELAXED);
    mrail_rail_begin_outage(rail, cause);
    mrail_rail_notify_some(rail, now_ns);
}

void mrail_failover_check_rails(mrail_engine_t *engine)
{
    for (unsigned i = 0; i < engine->num_rails; ++i) {
        mrail_rail_t *rail = &engine->rails[i];

        if (__atomic_load_n(&rail->cq_failed, __ATOMIC_RELAXED)) {
            mrail_failover_rail(engine, rail,
                                "a completion queue cannot be polled");
        }
    }
}
