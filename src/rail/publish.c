/*
 * What this process shows in its telemetry ring: rails, lanes, counters, now and
 * then; lanes and paths that change, at once.  Nothing here can make a job fail.
 *
 * Control lock held; mrail_publish() inside the guard, too.
 */
#include "config.h"
#include "rail/engine.h"
#include "telemetry/ring.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first of these that is set; NULL if none is. */
static const char *publish_env(const char *const *names)
{
    const char *value = NULL;

    for (; (value == NULL) && (*names != NULL); ++names) {
        value = getenv(*names);
    }
    return value;
}

/* Which job, and who in it, as launchers tell. */
static void publish_job(mrail_ring_t *ring)
{
    static const char *const jobs[] = {"PMIX_NAMESPACE", "SLURM_JOB_ID",
                                       "PMI_JOBID", NULL};
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                        "PMI_RANK", "SLURM_PROCID", NULL};
    const char *job = publish_env(jobs);
    const char *rank = publish_env(ranks);

    if (job != NULL) {
        snprintf(ring->job, sizeof(ring->job), "%s", job);
    }
    if (rank != NULL) {
        ring->rank = atoi(rank);
    }
    snprintf(ring->program, sizeof(ring->program), "%s",
             program_invocation_short_name);
}

void mrail_publish_open(mrail_engine_t *engine)
{
    int ret;

    if (!MRAIL_TELEMETRY || !engine->config.telemetry) {
        return;
    }
    ret = mrail_ring_create(MRAIL_RING_DIR, engine->id, &engine->ring);
    if (ret != 0) {
        mrail_warn("no telemetry of this process: a ring of %zu KB in %s: %s; "
                   "all else works",
                   sizeof(mrail_ring_t) >> 10, MRAIL_RING_DIR, strerror(-ret));
        engine->ring = NULL;
        return;
    }
    publish_job(mrail_ring_own(engine->ring));
    mrail_publish(engine);
}

void mrail_publish_close(mrail_engine_t *engine)
{
    mrail_ring_remove(engine->ring);
    engine->ring = NULL;
}

static void publish_rails(const mrail_engine_t *engine, mrail_ring_t *ring)
{
    ring->num_rails = MRAIL_MIN(engine->num_rails, MRAIL_RING_RAILS);
    for (unsigned i = 0; i < ring->num_rails; ++i) {
        const mrail_rail_attr_t *attr = &engine->rails[i].attr;
        mrail_ring_rail_t *rail = &ring->rails[i];

        snprintf(rail->device, sizeof(rail->device), "%s", attr->device);
        rail->port = attr->port;
        rail->nominal = attr->rate_bps / 8;
        rail->bytes = engine->rails[i].carried;
        rail->num_lanes = 0;
    }
}

/* Of the process's clock, as one that others have, too. */
static uint64_t publish_time(mrail_ns_t at_ns, uint64_t offset_ns)
{
    return (at_ns == 0) ? 0 : at_ns + offset_ns;
}

static void publish_lane(const mrail_lane_t *lane, mrail_ring_t *ring,
                         uint64_t offset_ns)
{
    const mrail_health_t *health = &lane->peer->paths[lane->slot].health;
    mrail_ring_lane_t *to;

    if ((lane->rail != NULL) && (lane->rail->index < ring->num_rails)) {
        ring->rails[lane->rail->index].num_lanes +=
            (lane->state == MRAIL_LANE_UP);
        ring->rails[lane->rail->index].bytes += lane->carried;
    }
    if (ring->num_lanes == MRAIL_RING_LANES) {
        ++ring->more_lanes;
        return;
    }
    to = &ring->lanes[ring->num_lanes++];
    to->peer = lane->peer->id;
    to->bytes = lane->carried;
    to->rate = mrail_tele_window_rate(&lane->sched.meter);
    to->outstanding = lane->sched.inflight + lane->am_inflight;
    to->posted_ns = publish_time(lane->posted_ns, offset_ns);
    to->done_ns = publish_time(lane->sched.meter.sums.last_ns, offset_ns);
    to->stalled_ns = lane->stalled_ns;
    to->idle_ns = lane->idle_ns;
    to->slot = lane->slot;
    to->sport = lane->sport;
    to->rail = (lane->rail != NULL) ? lane->rail->index : 0;
    snprintf(to->state, sizeof(to->state), "%s",
             ((lane->state == MRAIL_LANE_UP) &&
              (health->state != MRAIL_HEALTH_UP))
                 ? mrail_health_state_name(health->state)
                 : mrail_lane_state_name(lane->state));
}

static void publish_lanes(const mrail_engine_t *engine, mrail_ring_t *ring)
{
    uint64_t offset_ns = mrail_ring_now() - mrail_clock_now();
    const mrail_peer_t *peer;

    ring->num_lanes = ring->more_lanes = 0;
    for (unsigned i = 0; i < MRAIL_BUCKETS; ++i) {
        mrail_list_for_each(peer, &engine->buckets[i], mrail_peer_t, list) {
            for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
                if (peer->lanes[slot] != NULL) {
                    publish_lane(peer->lanes[slot], ring, offset_ns);
                }
            }
        }
    }
}

static void publish_counters(const mrail_engine_t *engine, mrail_ring_t *ring)
{
    mrail_ring_counter_t *to = ring->counters;

#define MRAIL_COUNTER_PUBLISH(_name)                                          \
    snprintf(to->name, sizeof(to->name), "%s", #_name);                       \
    to++->value = engine->counters._name;
    MRAIL_COUNTERS(MRAIL_COUNTER_PUBLISH)
#undef MRAIL_COUNTER_PUBLISH
    ring->num_counters = (uint32_t)(to - ring->counters);
}

#define MRAIL_COUNTER_ONE(_name) +1
_Static_assert(MRAIL_COUNTERS(MRAIL_COUNTER_ONE) <= MRAIL_RING_COUNTERS,
               "the ring has no room for all counters");

void mrail_publish(mrail_engine_t *engine)
{
    mrail_ring_t *ring;

    if (engine->ring == NULL) {
        return;
    }
    ring = mrail_ring_own(engine->ring);
    publish_rails(engine, ring);
    publish_lanes(engine, ring);
    publish_counters(engine, ring);
    mrail_ring_update(engine->ring);
}
