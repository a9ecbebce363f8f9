/*
 * Writes the telemetry page: rails, lanes and counters periodically, events of
 * lanes and paths at once. No error here can fail a job.
 *
 * Control lock held; mrail_telemetry_export() also needs the data-path lock.
 */
#include "config.h"
#include "rail/engine/telemetry_export.h"

#include "base/launch.h"
#include "rail/conn/lane.h"
#include "rail/state/engine.h"
#include "telemetry/page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Writes the job, and the rank of this process in it, as reported by
 * launchers. */
static void export_job(mrail_page_t *page)
{
    mrail_launch_t launch = mrail_launch_read(getenv);

    if (launch.job != NULL) {
        snprintf(page->job, sizeof(page->job), "%s", launch.job);
    }
    if (launch.rank >= 0) {
        page->rank = (int)launch.rank;
    }
    snprintf(page->program, sizeof(page->program), "%s",
             program_invocation_short_name);
}

void mrail_telemetry_export_open(mrail_engine_t *engine)
{
    int ret;

    if (!MRAIL_TELEMETRY || !engine->config.telemetry) {
        return;
    }
    ret = mrail_page_create(engine->config.telemetry_dir, engine->id,
                            &engine->page);
    if (ret != 0) {
        mrail_warn(
            "telemetry is off: cannot create a file of %zu KiB in %s: %s; "
            "set UCX_MRAIL_TELEMETRY_DIR or free memory there",
            sizeof(mrail_page_t) >> 10, engine->config.telemetry_dir,
            strerror(-ret));
        engine->page = NULL;
        return;
    }
    export_job(mrail_page_own(engine->page));
    mrail_telemetry_export(engine);
}

void mrail_telemetry_export_close(mrail_engine_t *engine)
{
    mrail_page_remove(engine->page);
    engine->page = NULL;
}

static void export_rails(const mrail_engine_t *engine, mrail_page_t *page)
{
    page->num_rails = MRAIL_MIN(engine->num_rails, MRAIL_PAGE_RAILS);
    for (unsigned i = 0; i < page->num_rails; ++i) {
        const mrail_rail_attr_t *attr = &engine->rails[i].attr;
        mrail_page_rail_t *rail = &page->rails[i];

        snprintf(rail->device, sizeof(rail->device), "%s", attr->device);
        rail->port = attr->port;
        rail->nominal = attr->rate_bps / 8;
        rail->bytes = engine->rails[i].carried;
        rail->num_lanes = 0;
    }
}

/* Converts a time of the process's clock to a clock that all processes
 * share. */
static uint64_t export_time(mrail_ns_t at_ns, uint64_t offset_ns)
{
    return (at_ns == 0) ? 0 : at_ns + offset_ns;
}

static void export_lane(const mrail_lane_t *lane, mrail_page_t *page,
                        uint64_t offset_ns)
{
    const mrail_health_t *health = &lane->peer->paths[lane->slot].health;
    mrail_page_lane_t *to;

    if ((lane->rail != NULL) && (lane->rail->index < page->num_rails)) {
        page->rails[lane->rail->index].num_lanes +=
            (lane->state == MRAIL_LANE_UP);
        page->rails[lane->rail->index].bytes += lane->carried;
    }
    if (page->num_lanes == MRAIL_PAGE_LANES) {
        ++page->more_lanes;
        return;
    }
    to = &page->lanes[page->num_lanes++];
    to->peer = lane->peer->id;
    to->bytes = lane->carried;
    to->rate = mrail_tele_window_rate(&lane->sched.meter);
    to->outstanding = lane->sched.inflight + lane->am_inflight;
    to->posted_ns = export_time(lane->posted_ns, offset_ns);
    to->done_ns = export_time(lane->sched.meter.sums.last_ns, offset_ns);
    to->stalled_ns = lane->stalled_ns;
    to->idle_ns = lane->idle_ns;
    to->slot = lane->slot;
    to->sport = lane->sport;
    to->rail = (lane->rail != NULL) ? lane->rail->index : 0;
    snprintf(
        to->state, sizeof(to->state), "%s",
        ((lane->state == MRAIL_LANE_UP) && (health->state != MRAIL_HEALTH_UP))
            ? mrail_health_state_name(health->state)
            : mrail_lane_state_name(lane->state));
}

static void export_lanes(const mrail_engine_t *engine, mrail_page_t *page)
{
    uint64_t offset_ns = mrail_page_now() - mrail_clock_now();
    const mrail_peer_t *peer;

    page->num_lanes = page->more_lanes = 0;
    for (unsigned i = 0; i < MRAIL_BUCKETS; ++i) {
        mrail_list_for_each(peer, &engine->buckets[i], mrail_peer_t, list) {
            for (unsigned slot = 0; slot < MRAIL_MAX_SLOTS; ++slot) {
                if (peer->lanes[slot] != NULL) {
                    export_lane(peer->lanes[slot], page, offset_ns);
                }
            }
        }
    }
}

static void export_counters(const mrail_engine_t *engine, mrail_page_t *page)
{
    mrail_page_counter_t *to = page->counters;

#define MRAIL_COUNTER_EXPORT(_name)                                            \
    snprintf(to->name, sizeof(to->name), "%s", #_name);                        \
    to++->value = engine->counters._name;
    MRAIL_COUNTERS(MRAIL_COUNTER_EXPORT)
#undef MRAIL_COUNTER_EXPORT
    page->num_counters = (uint32_t)(to - page->counters);
}

#define MRAIL_COUNTER_ONE(_name) +1
_Static_assert(MRAIL_COUNTERS(MRAIL_COUNTER_ONE) <= MRAIL_PAGE_COUNTERS,
               "the telemetry page has no space for all counters");

void mrail_telemetry_export(mrail_engine_t *engine)
{
    mrail_page_t *page;

    if (engine->page == NULL) {
        return;
    }
    page = mrail_page_own(engine->page);
    export_rails(engine, page);
    export_lanes(engine, page);
    export_counters(engine, page);
    mrail_page_update(engine->page);
}
