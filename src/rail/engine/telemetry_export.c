/*
 * Writes the telemetry page periodically, with rails, lanes and counters.
 * Errors in this file never fail a job.
 *
 * Numbers are copied under both locks, because they belong to the progress
 * thread. The copy is written to the file without the data-path lock.
 */
#include "config.h"
#include "rail/engine/engine.h"

#include "base/launch.h"
#include "rail/conn/conn.h"
#include "rail/state/record.h"
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

/* Writes the constant parts: the rails, the uplinks, and the names of the
 * counters. */
static void export_names(const mrail_engine_t *engine, mrail_page_t *page)
{
    mrail_page_counter_t *to = page->counters;

    page->uplinks = (engine->config.uplinks == MRAIL_SIZE_AUTO)
                        ? 0
                        : mrail_config_uplinks(&engine->config);
    page->num_rails = MRAIL_MIN(engine->num_rails, MRAIL_PAGE_RAILS);
    for (unsigned i = 0; i < page->num_rails; ++i) {
        const mrail_rail_attr_t *attr = &engine->rails[i].attr;
        mrail_page_rail_t *rail = &page->rails[i];

        snprintf(rail->device, sizeof(rail->device), "%s", attr->device);
        rail->port = attr->port;
    }
#define MRAIL_COUNTER_NAME(_name)                                              \
    snprintf(to->name, sizeof(to->name), "%s", #_name);                        \
    ++to;
    MRAIL_COUNTERS(MRAIL_COUNTER_NAME)
#undef MRAIL_COUNTER_NAME
    page->num_counters = (uint32_t)(to - page->counters);
}

void mrail_telemetry_export_open(mrail_engine_t *engine)
{
    uint32_t num_records = mrail_ring_round(engine->config.telemetry_records);
    int ret;

    if (!MRAIL_TELEMETRY || !engine->config.telemetry) {
        return;
    }
    ret = mrail_page_create(engine->config.telemetry_dir, engine->id,
                            num_records, &engine->page);
    if (ret != 0) {
        mrail_warn(
            "telemetry is off: cannot create a file of %zu KiB in %s: %s; "
            "free memory there, or set UCX_MRAIL_TELEMETRY_DIR",
            mrail_page_memory(num_records) >> 10, engine->config.telemetry_dir,
            strerror(-ret));
        engine->page = NULL;
        return;
    }
    /* mrail_telemetry_export_copy() switches it on. */
    engine->idle_ring = mrail_page_ring(engine->page);
    export_job(mrail_page_own(engine->page));
    export_names(engine, mrail_page_own(engine->page));
    mrail_telemetry_export_copy(engine);
    mrail_telemetry_export_write(engine);
}

/* Readers that have the file open can still read the last values. */
void mrail_telemetry_export_close(mrail_engine_t *engine)
{
    mrail_telemetry_export_copy(engine);
    mrail_telemetry_export_write(engine);
    memset(&engine->ring, 0, sizeof(engine->ring));
    memset(&engine->idle_ring, 0, sizeof(engine->idle_ring));
    mrail_page_remove(engine->page);
    engine->page = NULL;
}

static mrail_page_work_t export_work(const mrail_tele_busy_t *busy)
{
    mrail_tele_work_t work = mrail_tele_busy_read(busy);

    return (mrail_page_work_t){.bytes = work.bytes,
                               .busy_ns = work.busy_ns,
                               .chunks = work.chunks,
                               .chunk_ns = work.chunk_ns};
}

static void export_rails(const mrail_engine_t *engine, mrail_page_t *page)
{
    mrail_ns_t now_ns = mrail_clock_now();

    for (unsigned i = 0; i < page->num_rails; ++i) {
        const mrail_rail_t *rail = &engine->rails[i];
        mrail_page_rail_t *to = &page->rails[i];

        to->nominal = rail->attr.rate_bps / 8;
        to->bytes = rail->carried;
        to->stalled_ns = rail->stalled_ns;
        to->idle_ns = rail->idle_ns;
        to->live_out =
            mrail_tele_flow_live(&rail->flows[MRAIL_FLOW_OUT], now_ns);
        to->live_in = mrail_tele_flow_live(&rail->flows[MRAIL_FLOW_IN], now_ns);
        to->work_out = export_work(&rail->busy[MRAIL_FLOW_OUT]);
        to->work_in = export_work(&rail->busy[MRAIL_FLOW_IN]);
        to->is_down = rail->port_down || rail->fatal || rail->outage;
        to->num_lanes = 0;
    }
}

/* Adds a lane to the sums of its rail. */
static void export_sums(const mrail_lane_t *lane, mrail_page_rail_t *to)
{
    to->num_lanes += mrail_lane_is(lane, MRAIL_LANE_CONNECTED);
    to->bytes += lane->am_carried + lane->rma_carried;
    to->stalled_ns += lane->stalled_ns;
    to->idle_ns += lane->idle_ns;
}

/* Returns the next free entry, or NULL. */
static mrail_page_lane_t *export_entry(mrail_page_t *page)
{
    if (page->num_lanes == MRAIL_PAGE_LANES) {
        ++page->more_lanes;
        return NULL;
    }
    return &page->lanes[page->num_lanes++];
}

static void export_lane(const mrail_lane_t *lane, mrail_page_t *page)
{
    const mrail_path_t *path = &lane->peer->paths[lane->slot];
    const mrail_health_t *health = &path->health;
    mrail_page_lane_t *to;

    if ((lane->rail != NULL) && (lane->rail->index < page->num_rails)) {
        export_sums(lane, &page->rails[lane->rail->index]);
    }
    to = export_entry(page);
    if (to == NULL) {
        return;
    }
    to->peer = lane->peer->id;
    to->bytes = lane->am_carried + lane->rma_carried;
    to->rate = mrail_tele_window_rate(&lane->sched.meter);
    to->outstanding = lane->sched.inflight + lane->am.inflight;
    to->stalled_ns = lane->stalled_ns;
    to->idle_ns = lane->idle_ns;
    to->slot = lane->slot;
    to->sport = lane->sport;
    to->rail = (uint16_t)((lane->rail != NULL) ? lane->rail->index : 0);
    to->moves = path->moves;
    snprintf(to->state, sizeof(to->state), "%s",
             (mrail_lane_is(lane, MRAIL_LANE_CONNECTED) &&
              (health->state != MRAIL_HEALTH_UP))
                 ? mrail_health_state_name(health->state)
                 : mrail_lane_state_name(lane->state));
}

/* Adds the paths whose lane has failed and is closed. */
static void export_lost_paths(const mrail_peer_t *peer, mrail_page_t *page)
{
    for (unsigned slot = 0; slot < peer->slot_limit; ++slot) {
        const mrail_path_t *path = &peer->paths[slot];
        mrail_page_lane_t *to;

        if ((peer->lanes[slot] != NULL) || (path->sport == 0) ||
            (path->health.state == MRAIL_HEALTH_UP)) {
            continue;
        }
        to = export_entry(page);
        if (to == NULL) {
            continue;
        }
        *to = (mrail_page_lane_t){
            .peer = peer->id,
            .slot = (uint16_t)slot,
            .sport = path->sport,
            .rail = (uint16_t)mrail_path_rail(peer, slot)->index,
            .moves = path->moves,
        };
        snprintf(to->state, sizeof(to->state), "%s",
                 mrail_health_state_name(path->health.state));
    }
}

static void export_lanes(const mrail_engine_t *engine, mrail_page_t *page)
{
    const mrail_peer_t *peer;

    page->num_lanes = page->more_lanes = 0;
    mrail_list_for_each(peer, &engine->peers, mrail_peer_t, list) {
        mrail_for_each_lane(lane, peer) {
            export_lane(lane, page);
        }
        if ((peer->state == MRAIL_PEER_KNOWN) && !mrail_peer_has_failed(peer)) {
            export_lost_paths(peer, page);
        }
    }
}

static void export_counters(const mrail_engine_t *engine, mrail_page_t *page)
{
    mrail_page_counter_t *to = page->counters;

#define MRAIL_COUNTER_EXPORT(_name) to++->value = engine->counters._name;
    MRAIL_COUNTERS(MRAIL_COUNTER_EXPORT)
#undef MRAIL_COUNTER_EXPORT
}

#define MRAIL_COUNTER_ONE(_name) +1
_Static_assert(MRAIL_COUNTERS(MRAIL_COUNTER_ONE) <= MRAIL_PAGE_COUNTERS,
               "the telemetry page must be able to hold all counters");

/* Switches recording on if the parameter or a reader requests it, and otherwise
 * off. */
static void export_switch(mrail_engine_t *engine)
{
    int wanted = engine->config.telemetry_recording ||
                 mrail_page_is_followed(engine->page);

    if (wanted != mrail_record_is_on(engine)) {
        mrail_record_switch(engine, wanted);
    }
}

void mrail_telemetry_export_copy(mrail_engine_t *engine)
{
    mrail_page_t *page;

    if (engine->page == NULL) {
        return;
    }
    export_switch(engine);
    page = mrail_page_own(engine->page);
    export_rails(engine, page);
    export_lanes(engine, page);
    export_counters(engine, page);
}

void mrail_telemetry_export_write(mrail_engine_t *engine)
{
    if (engine->page != NULL) {
        mrail_page_own(engine->page)->clock_offset_ns =
            mrail_page_now() - mrail_clock_now();
        mrail_page_update(engine->page);
    }
}
