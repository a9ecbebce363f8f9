/*
 * The paths to a peer, one for each lane number. Feeds events to
 * proto/health.c, and carries out the resulting actions. Control lock held.
 */
#include "config.h"
#include "rail/conn/conn.h"

#include "orchestrator/ports.h"
#include "rail/proto/health.h"
#include "rail/state/signals.h"
#include "telemetry/page.h"

#include <errno.h>
#include <string.h>

static const mrail_health_params_t path_params = {
    .grace_ns = MRAIL_PATH_GRACE,
    .probe_ns = 20 * MRAIL_NS_PER_MS,
    .probes = MRAIL_PATH_PROBES,
    .backoff_ns = 100 * MRAIL_NS_PER_MS,
    .backoff_max_ns = 10 * MRAIL_NS_PER_SEC,
    .quiescent_ns = 10 * MRAIL_NS_PER_SEC,
};

/* Time for which an answer proves that the peer is reachable. */
#define MRAIL_PATH_FRESH (1 * MRAIL_NS_PER_SEC)

/* Approximate number of attempts on a path before an unreachable peer fails. */
#define MRAIL_PATH_UNREACHABLE_TRIES 16

/* Returns the parameters of a path. A path with a deep queue answers late, so
 * its probes have a longer timeout. */
static mrail_health_params_t mrail_path_params_of(const mrail_path_t *path)
{
    mrail_health_params_t params = path_params;

    params.probe_ns = MRAIL_MAX(params.probe_ns, path->patience_ns);
    return params;
}

static void mrail_path_hold(mrail_peer_t *peer, unsigned slot)
{
    uint64_t bit = 1ull << slot;

    if (__atomic_load_n(&peer->up_mask, __ATOMIC_RELAXED) & bit) {
        __atomic_fetch_or(&peer->held_mask, bit, __ATOMIC_RELAXED);
    }
    __atomic_fetch_and(&peer->up_mask, ~bit, __ATOMIC_RELEASE);
    mrail_peer_check(peer);
}

static void mrail_path_resume(mrail_peer_t *peer, unsigned slot)
{
    mrail_engine_t *engine = peer->engine;

    if (mrail_peer_lane_is(peer, slot, MRAIL_LANE_IN_USE)) {
        peer->unreachable_ns = 0;
        __atomic_fetch_or(&peer->up_mask, 1ull << slot, __ATOMIC_RELEASE);
        __atomic_fetch_and(&peer->held_mask, ~(1ull << slot), __ATOMIC_RELAXED);
        __atomic_fetch_add(&engine->num_changes, 1, __ATOMIC_SEQ_CST);
        mrail_wakeup_all(engine, MRAIL_ARMED_OWN);
    }
}

static MRAIL_CTL void mrail_path_probe(mrail_peer_t *peer, unsigned slot,
                                       mrail_ns_t now_ns)
{
    mrail_path_t *path = &peer->paths[slot];
    uint32_t seq = ++peer->engine->ctl_seq;

    mrail_path_next_port(peer, slot, now_ns);
    path->probe_ns = now_ns;
    path->blocked =
        (mrail_ctl_send_path(peer, MRAIL_CTL_PROBE, seq, slot) == -EAGAIN);
    if (path->blocked) {
        (void)mrail_ctl_await_buffer(peer);
    } else {
        if (path->num_probes == MRAIL_PATH_PROBES) {
            memmove(path->probes, path->probes + 1,
                    sizeof(path->probes) - sizeof(path->probes[0]));
            --path->num_probes;
        }
        path->probes[path->num_probes++] = seq;
    }
}

static MRAIL_CTL void mrail_path_act(mrail_peer_t *peer, unsigned slot,
                                     mrail_health_action_t action,
                                     const char *cause, mrail_ns_t now_ns)
{
    mrail_path_t *path = &peer->paths[slot];

    switch (action) {
    case MRAIL_HEALTH_NOTHING:
        break;
    case MRAIL_HEALTH_HOLD:
        mrail_path_hold(peer, slot);
        break;
    case MRAIL_HEALTH_RESUME:
        mrail_path_resume(peer, slot);
        break;
    case MRAIL_HEALTH_PROBE:
        if (path->health.state == MRAIL_HEALTH_SUSPECT) {
            mrail_path_hold(peer, slot);
        }
        mrail_path_probe(peer, slot, now_ns);
        break;
    case MRAIL_HEALTH_RETIRE:
        if (peer->lanes[slot] != NULL) {
            mrail_failover_request(peer->lanes[slot], cause);
        }
        break;
    case MRAIL_HEALTH_RESTORE:
        path->restore = 1;
        break;
    }
}

/* Returns 1 if another path to the peer is known to work. */
static int mrail_path_others_answer(const mrail_peer_t *peer, unsigned slot,
                                    mrail_ns_t now_ns)
{
    if ((peer->answer_ns != 0) &&
        (now_ns < peer->answer_ns + MRAIL_PATH_FRESH)) {
        return 1;
    }
    for (unsigned i = 0; i < peer->slot_limit; ++i) {
        if ((i != slot) && mrail_peer_lane_is(peer, i, MRAIL_LANE_IN_USE) &&
            (peer->paths[i].health.state == MRAIL_HEALTH_UP)) {
            return 1;
        }
    }
    return 0;
}

/* Probes the other paths, at most once per probe timeout. The silence of one
 * path alone does not distinguish a fault of the path from a silent peer. If
 * there is no other path, sends a probe from a port of another uplink. */
static MRAIL_CTL void mrail_path_probe_others(mrail_peer_t *peer, unsigned slot,
                                              mrail_ns_t now_ns)
{
    int others = 0;

    if ((peer->compare_ns != 0) &&
        (now_ns < peer->compare_ns + path_params.probe_ns)) {
        return;
    }
    peer->compare_ns = now_ns;
    for (unsigned i = 0; i < peer->slot_limit; ++i) {
        if ((i != slot) && (peer->paths[i].health.state == MRAIL_HEALTH_UP) &&
            (mrail_peer_lane_is(peer, i, MRAIL_LANE_IN_USE) ||
             (i < peer->num_pairs))) {
            mrail_path_probe(peer, i, now_ns);
            others = 1;
        }
    }
    if (!others) {
        if (peer->compare_request == 0) {
            peer->compare_request = ++peer->engine->ctl_seq;
        }
        (void)mrail_ctl_send_plain(peer, MRAIL_CTL_PROBE, peer->compare_request,
                                   slot % peer->num_pairs +
                                       ++peer->compare_turn %
                                           MRAIL_PORTS_MAX_UPLINKS *
                                           peer->num_pairs);
    }
}

static int mrail_path_is_in_doubt(const mrail_path_t *path)
{
    return (path->health.state == MRAIL_HEALTH_SUSPECT) ||
           (path->health.state == MRAIL_HEALTH_DOWN);
}

/* Updates the evidence against a path after a lost probe: the number of lost
 * probes during which another path worked. Returns 1 if there is enough
 * evidence. Silence on all paths is no evidence against one path, because the
 * peer may be busy or the network congested. A path that is not suspect, for
 * example because its port is down, needs no count: another working path is
 * enough. */
static int mrail_path_is_worse(mrail_peer_t *peer, unsigned slot,
                               mrail_ns_t now_ns)
{
    mrail_path_t *path = &peer->paths[slot];

    if (path->health.state != MRAIL_HEALTH_SUSPECT) {
        return mrail_path_others_answer(peer, slot, now_ns);
    }
    /* moved_ns must be later than the probe, because it is the time of a tick
     * that found earlier completions. */
    path->compared += (peer->answer_ns >= path->probe_ns) ||
                      (peer->moved_ns > path->probe_ns);
    return path->compared >= path_params.probes;
}

/* Allows other silent paths as much time as this path needed to answer again,
 * because the peer or a common part of the network may have caused the
 * silence. */
static void mrail_path_share_silence(mrail_peer_t *peer, mrail_ns_t silence_ns)
{
    mrail_ns_t patience_ns = MRAIL_MIN(silence_ns, MRAIL_PATH_PATIENCE_MAX);

    for (unsigned slot = 0; slot < peer->slot_limit; ++slot) {
        mrail_path_t *path = &peer->paths[slot];

        if (path->health.state == MRAIL_HEALTH_SUSPECT) {
            path->patience_ns = MRAIL_MAX(path->patience_ns, patience_ns);
        }
    }
}

/* Counts a path that lost its probes while other paths to the peer answered,
 * which may indicate an outage of its rail. For each pair of rails, only the
 * first path of a peer counts. It counts only if no message or completion has
 * arrived over the rail since the path became suspect. */
static void mrail_path_count_retired(mrail_peer_t *peer, unsigned slot)
{
    mrail_rail_t *rail = mrail_path_rail(peer, slot);

    if (rail->alive_ns >= peer->paths[slot].suspect_ns) {
        rail->num_retired = 0;
        rail->sample_ns = 0;
    } else if (slot < peer->num_pairs) {
        ++rail->num_retired;
    }
}

/* Makes a path that is not up wait for its rail, if the rail is down. During an
 * outage, only a few paths probe. */
static void mrail_path_wait_for_rail(mrail_peer_t *peer, unsigned slot)
{
    mrail_rail_t *rail = mrail_path_rail(peer, slot);
    mrail_path_t *path = &peer->paths[slot];

    if (path->health.state == MRAIL_HEALTH_UP) {
        rail->num_probers -=
            MRAIL_MIN(rail->num_probers, (unsigned)path->prober);
        path->prober = 0;
        mrail_list_del(&path->affected);
        return;
    }
    if (!rail->outage && !rail->port_down) {
        return;
    }
    if (mrail_list_empty(&path->affected)) {
        mrail_list_add_tail(&rail->affected, &path->affected);
    }
    if (!rail->outage || (path->health.state != MRAIL_HEALTH_RETIRED) ||
        path->prober) {
        return;
    }
    if ((rail->num_probers < MRAIL_RAIL_PROBERS) && !rail->fatal) {
        path->prober = 1;
        ++rail->num_probers;
    } else {
        mrail_health_park(&path->health);
    }
}

void mrail_path_event(mrail_peer_t *peer, unsigned slot,
                      mrail_health_event_t event, mrail_ns_t now_ns)
{
    mrail_path_t *path = &peer->paths[slot];
    mrail_health_params_t params = mrail_path_params_of(path);
    mrail_health_state_t before = path->health.state;
    const char *cause = mrail_health_event_name(event);
    mrail_health_action_t action;

    if (mrail_peer_has_failed(peer)) {
        return; /* its paths must neither probe nor wait for a rail */
    }
    action = mrail_health_event(&path->health, &params, event, now_ns);
    if ((event == MRAIL_HEALTH_TIMEOUT) ||
        (event == MRAIL_HEALTH_PROBES_EXHAUSTED)) {
        cause = path->cause; /* report the reason for the deadline */
    } else if (((path->health.state != before) &&
                (before != MRAIL_HEALTH_DOWN)) ||
               (event == MRAIL_HEALTH_PORT_DOWN)) {
        path->cause = cause;
    }
    if (path->health.state != before) {
        path->restore = path->blocked = 0;
        if (path->health.state == MRAIL_HEALTH_RETIRED) {
            peer->turn = slot + 1;
        }
        mrail_debug("peer %016llx path %u: %s -> %s (%s)",
                    (unsigned long long)peer->id, slot,
                    mrail_health_state_name(before),
                    mrail_health_state_name(path->health.state),
                    mrail_health_event_name(event));
        mrail_page_event(
            peer->engine->page, "path %u to peer %016llx: %s -> %s (%s)", slot,
            (unsigned long long)peer->id, mrail_health_state_name(before),
            mrail_health_state_name(path->health.state),
            mrail_health_event_name(event));
    }
    if ((path->health.state == MRAIL_HEALTH_SUSPECT) &&
        (before != path->health.state)) {
        path->suspect_ns = now_ns;
        path->compared = 0;
    }
    if ((before == MRAIL_HEALTH_SUSPECT) &&
        (path->health.state == MRAIL_HEALTH_UP)) {
        mrail_path_share_silence(peer, now_ns - path->suspect_ns);
    }
    if ((event == MRAIL_HEALTH_PROBES_EXHAUSTED) &&
        (before == MRAIL_HEALTH_SUSPECT)) {
        mrail_path_count_retired(peer, slot);
    }
    mrail_path_wait_for_rail(peer, slot);
    mrail_path_act(peer, slot, action, cause, now_ns);
    if (mrail_path_is_in_doubt(path) &&
        ((before != path->health.state) || (event == MRAIL_HEALTH_TIMEOUT))) {
        mrail_path_probe_others(peer, slot, now_ns);
    }
    if (path->health.due_ns != MRAIL_NS_NEVER) {
        mrail_ctl_work(peer);
    }
}

int mrail_path_is_open(const mrail_peer_t *peer, unsigned slot)
{
    const mrail_path_t *path = &peer->paths[slot];
    const mrail_rail_t *rail = mrail_path_rail(peer, slot);

    return !rail->fatal && !rail->outage &&
           ((path->health.state == MRAIL_HEALTH_UP) || path->restore);
}

/* Shortens the back-off of a path if no lane to the peer is usable, because the
 * full back-off could last until the peer fails. */
static void mrail_path_expedite(mrail_peer_t *peer, mrail_path_t *path,
                                mrail_ns_t now_ns)
{
    mrail_ns_t backoff_ns =
        mrail_ctl_peer_timeout(peer) / MRAIL_PATH_UNREACHABLE_TRIES;

    if (peer->unreachable_ns != 0) {
        mrail_health_expedite(
            &path->health,
            now_ns + MRAIL_MAX(backoff_ns, path_params.backoff_ns));
    }
}

/* Sends a probe that waited for a send buffer, and starts its timer. Returns 1
 * if the path must still wait. A path whose port is down needs no probe. */
static MRAIL_CTL int mrail_path_is_blocked(mrail_peer_t *peer, unsigned slot,
                                           mrail_ns_t now_ns)
{
    mrail_path_t *path = &peer->paths[slot];

    if (!path->blocked) {
        return 0;
    }
    mrail_path_probe(peer, slot, now_ns);
    if (!path->blocked) {
        mrail_health_params_t params = mrail_path_params_of(path);

        mrail_health_probe_sent(&path->health, &params, now_ns);
    }
    return path->blocked && (path->health.state != MRAIL_HEALTH_DOWN);
}

mrail_ns_t mrail_path_run(mrail_peer_t *peer, unsigned slot, mrail_ns_t now_ns)
{
    mrail_path_t *path = &peer->paths[slot];

    mrail_path_expedite(peer, path, now_ns);
    if (!mrail_path_is_blocked(peer, slot, now_ns) &&
        (now_ns >= path->health.due_ns)) {
        mrail_path_event(
            peer, slot,
            mrail_health_deadline(&path->health, &path_params,
                                  mrail_path_is_worse(peer, slot, now_ns)),
            now_ns);
    }
    if (path->blocked) {
        (void)mrail_ctl_await_buffer(peer);
    }
    return mrail_ns_min(
        mrail_own_port_run(peer, slot, now_ns),
        (path->blocked && (path->health.state != MRAIL_HEALTH_DOWN))
            ? MRAIL_NS_NEVER
            : path->health.due_ns);
}

static int mrail_path_has_probe(const mrail_path_t *path, uint32_t seq)
{
    for (unsigned i = 0; i < path->num_probes; ++i) {
        if (path->probes[i] == seq) {
            return 1;
        }
    }
    return 0;
}

void mrail_paths_rail_alive(mrail_rail_t *rail, mrail_ns_t now_ns)
{
    rail->alive_ns = now_ns;
    rail->num_retired = 0;
    rail->sample_ns = 0;
    if (rail->outage && !rail->fatal) {
        mrail_info("%s:%u: the rail carries traffic again", rail->attr.device,
                   rail->attr.port);
        rail->outage = 0;
        rail->num_unnotified = 0;
    }
}

int mrail_path_answer(mrail_peer_t *peer, uint32_t seq, mrail_ns_t now_ns)
{
    for (unsigned slot = 0; slot < peer->slot_limit; ++slot) {
        mrail_path_t *path = &peer->paths[slot];

        if (mrail_own_port_answer(peer, slot, seq, now_ns)) {
            peer->answer_ns = now_ns;
            return 1;
        }
        if (mrail_path_has_probe(path, seq)) {
            peer->answer_ns = now_ns;
            path->num_probes = 0;
            mrail_paths_rail_alive(mrail_path_rail(peer, slot), now_ns);
            mrail_path_event(peer, slot, MRAIL_HEALTH_PROBE_REPLY, now_ns);
            return 1;
        }
    }
    return 0;
}

void mrail_paths_init(mrail_peer_t *peer)
{
    for (unsigned slot = 0; slot < peer->slot_limit; ++slot) {
        mrail_health_init(&peer->paths[slot].health, mrail_clock_now());
        mrail_port_return_init(&peer->paths[slot].port_return);
        mrail_list_init(&peer->paths[slot].affected);
        peer->paths[slot].peer = peer;
    }
}

unsigned mrail_paths_base(const mrail_peer_t *peer, unsigned slot,
                          unsigned local, unsigned remote)
{
    for (unsigned i = 0; i < peer->num_pairs; ++i) {
        if ((peer->pairs[i].local == local) &&
            (peer->pairs[i].remote == remote)) {
            return (i + peer->num_pairs - slot % peer->num_pairs) %
                   peer->num_pairs;
        }
    }
    return peer->base; /* this end would not choose the pair, but accepts it */
}

void mrail_paths_rebase(mrail_peer_t *peer, unsigned base)
{
    unsigned count = peer->num_pairs;
    unsigned shift = (base + count - peer->base) % count;
    mrail_path_t old[MRAIL_MAX_SLOTS];
    int waits[MRAIL_MAX_SLOTS];

    for (unsigned slot = 0; slot < peer->slot_limit; ++slot) {
        waits[slot] = !mrail_list_empty(&peer->paths[slot].affected);
        mrail_list_del(&peer->paths[slot].affected);
    }
    memcpy(old, peer->paths, peer->slot_limit * sizeof(*old));
    for (unsigned slot = 0; slot < peer->slot_limit; ++slot) {
        unsigned first = slot - slot % count;
        unsigned from = (first + count <= peer->slot_limit)
                            ? first + (slot + shift) % count
                            : slot;

        peer->paths[slot] = old[from];
        mrail_list_init(&peer->paths[slot].affected);
        if (waits[from]) {
            mrail_list_add_tail(
                &peer->engine->rails[peer->pairs[(base + slot) % count].local]
                     .affected,
                &peer->paths[slot].affected);
        }
    }
    peer->base = base;
    /* Renumber it, so that it still selects the same rails. */
    peer->reply_way = (peer->reply_way + count - shift) % count;
}

void mrail_paths_remove(mrail_peer_t *peer)
{
    for (unsigned slot = 0; slot < peer->slot_limit; ++slot) {
        mrail_rail_t *rail = mrail_path_rail(peer, slot);
        mrail_path_t *path = &peer->paths[slot];

        mrail_list_del(&path->affected);
        if (path->prober && (rail->num_probers != 0)) {
            path->prober = 0;
            --rail->num_probers;
            /* The control thread chooses another prober. */
            mrail_control_thread_wake(peer->engine);
        }
    }
}
