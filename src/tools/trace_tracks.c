#include "config.h"
#include "tools/trace_tracks.h"

#include "base/grow.h"
#include "base/hash.h"
#include "tools/pages.h"
#include "tools/trace_calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAME 96

/* The order of tracks below a process. */
enum { ORDER_EVENTS = TRACE_CALLS_ORDERS, ORDER_POSTS, ORDER_RAILS };

/* A track for slices that do not overlap. */
typedef struct trace_slot {
    uint64_t id;
    uint64_t end_ns; /* end of the last slice */
} trace_slot_t;

/* Several records of a lane are outstanding at the same time, so their slices
 * overlap. Each slice goes to the first slot that is free. All slots have the
 * same name, so Perfetto shows them as one track. */
typedef struct trace_lane {
    mrail_hash_node_t node;
    uint64_t peer;
    unsigned lane, rail;
    unsigned num_slots;
    trace_slot_t *slots;
} trace_lane_t;

typedef struct trace_rail {
    uint64_t id;      /* 0 if the rail has no track yet */
    uint64_t counter; /* id of the bandwidth track */
    uint64_t bin;     /* number of the current interval of the counter */
    uint64_t bin_bytes;
    uint64_t bytes;   /* bytes of all records without failure */
    uint64_t carried; /* bytes on the page when the trace began */
} trace_rail_t;

struct trace_tracks {
    perfetto_t *trace;
    uint64_t id; /* id of the process */
    uint64_t posts, events;
    uint64_t offset_ns;
    int (*rank_of)(const void *arg, uint64_t peer);
    const void *arg;
    uint64_t next_event;
    uint64_t missed, invalid; /* numbers that have been reported */
    trace_calls_t calls;
    mrail_page_t page; /* the last copy */
    mrail_hash_t lanes;
    trace_lane_t **all_lanes;
    unsigned num_lanes;
    unsigned num_slots; /* total number of slots */
    trace_rail_t rails[MRAIL_RING_LANES];
    trace_totals_t totals;
};

/* ---- tracks ---- */

static void add_process(trace_tracks_t *tracks,
                        const trace_tracks_config_t *config)
{
    const mrail_page_t *page = config->page;
    char process[PAGES_PROCESS], host[2 * NAME] = "", name[4 * NAME];
    unsigned pid;

    pages_process(process, sizeof(process), page);
    if (config->host != NULL) {
        snprintf(host, sizeof(host), ", pid %u on %s", page->head.pid,
                 config->host);
    }
    snprintf(name, sizeof(name), "%s (%s%s%s%s)", process, page->program,
             (page->job[0] != '\0') ? ", job " : "", page->job, host);
    pid = (config->host != NULL) ? config->number + 1 : page->head.pid;
    tracks->id = perfetto_id(tracks->trace);
    perfetto_track(tracks->trace, &(perfetto_track_t){.id = tracks->id,
                                                      .name = name,
                                                      .pid = pid,
                                                      .order = page->rank});
}

/* Adds a track below the process, and returns its id. */
static uint64_t add_track(trace_tracks_t *tracks, const char *name, int order)
{
    uint64_t id = perfetto_id(tracks->trace);

    perfetto_track(tracks->trace, &(perfetto_track_t){.id = id,
                                                      .parent = tracks->id,
                                                      .name = name,
                                                      .order = order});
    return id;
}

static void rail_name(const trace_tracks_t *tracks, unsigned rail, char *name)
{
    const mrail_page_t *page = &tracks->page;

    if (rail < page->num_rails) {
        snprintf(name, NAME, "%s:%u", page->rails[rail].device,
                 page->rails[rail].port);
    } else {
        snprintf(name, NAME, "rail %u", rail);
    }
}

static trace_rail_t *rail_of(trace_tracks_t *tracks, unsigned index)
{
    trace_rail_t *rail = &tracks->rails[index];
    char name[NAME], text[NAME + 16];

    if (rail->id == 0) {
        rail_name(tracks, index, name);
        snprintf(text, sizeof(text), "rail %s", name);
        rail->id = add_track(tracks, text, ORDER_RAILS + 2 * (int)index + 1);
        snprintf(text, sizeof(text), "bandwidth of %s", name);
        rail->counter = perfetto_id(tracks->trace);
        perfetto_track(
            tracks->trace,
            &(perfetto_track_t){.id = rail->counter,
                                .parent = tracks->id,
                                .name = text,
                                .unit = "bytes/s",
                                .order = ORDER_RAILS + 2 * (int)index});
    }
    return rail;
}

static void peer_name(const trace_tracks_t *tracks, uint64_t peer, char *name)
{
    int rank = tracks->rank_of(tracks->arg, peer);

    if (rank >= 0) {
        snprintf(name, NAME, "rank %d", rank);
    } else {
        snprintf(name, NAME, "peer %016llx", (unsigned long long)peer);
    }
}

/* The key of a lane. Two lanes with the same key would be shown as one; with
 * 64 bits, this does not happen by chance. */
static uint64_t lane_key(const mrail_ring_record_t *record)
{
    return mrail_mix64(record->peer) ^
           mrail_mix64((uint64_t)record->lane << 8 | record->rail);
}

static int add_lane(trace_tracks_t *tracks, const mrail_ring_record_t *record,
                    trace_lane_t **lane_p)
{
    trace_lane_t *lane;

    if (tracks->num_lanes == TRACE_MAX_LANES) {
        return -ENOSPC;
    }
    if (!mrail_grow(&tracks->all_lanes, tracks->num_lanes + 1,
                    sizeof(*tracks->all_lanes))) {
        return -ENOMEM;
    }
    lane = calloc(1, sizeof(*lane));
    if ((lane == NULL) ||
        (mrail_hash_add(&tracks->lanes, &lane->node, lane_key(record)) != 0)) {
        free(lane);
        return -ENOMEM;
    }
    lane->peer = record->peer;
    lane->lane = record->lane;
    lane->rail = record->rail;
    tracks->all_lanes[tracks->num_lanes++] = lane;
    *lane_p = lane;
    return 0;
}

/* Finds the lane of a record. Returns 0, -ENOMEM, or -ENOSPC if there are too
 * many. */
static int lane_of(trace_tracks_t *tracks, const mrail_ring_record_t *record,
                   trace_lane_t **lane_p)
{
    mrail_hash_node_t *node = mrail_hash_find(&tracks->lanes, lane_key(record));

    if (node == NULL) {
        return add_lane(tracks, record, lane_p);
    }
    *lane_p = MRAIL_CONTAINER_OF(node, trace_lane_t, node);
    return 0;
}

static int add_slot(trace_tracks_t *tracks, trace_lane_t *lane)
{
    char peer[NAME], name[NAME + 32];
    uint64_t id;

    if ((lane->num_slots == TRACE_MAX_SLOTS) ||
        (tracks->num_slots == TRACE_MAX_ALL_SLOTS)) {
        return -ENOSPC;
    }
    if (!mrail_grow(&lane->slots, lane->num_slots + 1, sizeof(*lane->slots))) {
        return -ENOMEM;
    }
    id = perfetto_id(tracks->trace);
    lane->slots[lane->num_slots++] = (trace_slot_t){.id = id};
    ++tracks->num_slots;
    peer_name(tracks, lane->peer, peer);
    snprintf(name, sizeof(name), "lane %u to %s", lane->lane, peer);
    perfetto_track(tracks->trace, &(perfetto_track_t){
                                      .id = id,
                                      .parent = rail_of(tracks, lane->rail)->id,
                                      .name = name,
                                      .order = (int)lane->lane});
    return 0;
}

/* Finds a slot that is free at `post_ns`. Returns 0, -ENOMEM, or -ENOSPC if
 * there are too many. */
static int slot_of(trace_tracks_t *tracks, trace_lane_t *lane, uint64_t post_ns,
                   trace_slot_t **slot_p)
{
    unsigned i = 0;
    int ret;

    while ((i < lane->num_slots) && (lane->slots[i].end_ns > post_ns)) {
        ++i;
    }
    if (i == lane->num_slots) {
        ret = add_slot(tracks, lane);
        if (ret != 0) {
            return ret;
        }
    }
    *slot_p = &lane->slots[i];
    return 0;
}

/* ---- records ---- */

static void put_rate(trace_tracks_t *tracks, const trace_rail_t *rail,
                     uint64_t bin, uint64_t bytes)
{
    perfetto_event(
        tracks->trace,
        &(perfetto_event_t){.kind = PERFETTO_COUNTER,
                            .time_ns = bin * TRACE_BANDWIDTH_NS,
                            .track = rail->counter,
                            .value = MRAIL_MIN(bytes, UINT32_MAX * 1000ull) *
                                     (MRAIL_NS_PER_SEC / TRACE_BANDWIDTH_NS)});
}

/* Writes the value of the current interval, and 0 for the next one unless it is
 * `next`. */
static void end_bin(trace_tracks_t *tracks, trace_rail_t *rail, uint64_t next)
{
    if (rail->bin_bytes != 0) {
        put_rate(tracks, rail, rail->bin, rail->bin_bytes);
        if (next != rail->bin + 1) {
            put_rate(tracks, rail, rail->bin + 1, 0);
        }
    }
    rail->bin = next;
    rail->bin_bytes = 0;
}

static void count_bytes(trace_tracks_t *tracks, trace_rail_t *rail,
                        const mrail_ring_record_t *record)
{
    uint64_t bin = (record->done_ns + tracks->offset_ns) / TRACE_BANDWIDTH_NS;

    if (bin > rail->bin) {
        end_bin(tracks, rail, bin);
    }
    rail->bin_bytes += record->length;
    rail->bytes += record->length;
    tracks->totals.bytes += record->length;
}

static const char *record_name(const mrail_ring_record_t *record)
{
    static const char *const failed[] = {
        [MRAIL_RING_PUT] = "put failed",
        [MRAIL_RING_GET] = "get failed",
        [MRAIL_RING_READ] = "read failed",
        [MRAIL_RING_AM] = "am failed",
    };
    mrail_ring_kind_t kind = mrail_ring_record_kind(record);

    return (record->kind & MRAIL_RING_FAILED) ? failed[kind]
                                              : mrail_ring_kind_name(kind);
}

/* The post comes first, because the arrow leads from the earlier event to the
 * later one. */
static void put_slice(trace_tracks_t *tracks, trace_slot_t *slot,
                      const mrail_ring_record_t *record)
{
    char rail[NAME], peer[NAME];
    const perfetto_arg_t args[] = {
        {.name = "bytes", .value = record->length},
        {.name = "rail", .text = rail},
        {.name = "peer", .text = peer},
        {.name = "messages", .value = record->count}};
    int is_batch = (mrail_ring_record_kind(record) == MRAIL_RING_AM);
    perfetto_event_t event = {.kind = PERFETTO_INSTANT,
                              .time_ns = record->post_ns + tracks->offset_ns,
                              .track = tracks->posts,
                              .category = "post",
                              .name = record_name(record),
                              .flow = perfetto_id(tracks->trace)};

    perfetto_event(tracks->trace, &event);
    rail_name(tracks, record->rail, rail);
    peer_name(tracks, record->peer, peer);
    event.kind = PERFETTO_BEGIN;
    event.track = slot->id;
    event.category = is_batch ? "messages" : "chunk";
    event.args = args;
    event.num_args = is_batch ? 4 : 3;
    perfetto_event(tracks->trace, &event);
    perfetto_event(
        tracks->trace,
        &(perfetto_event_t){.kind = PERFETTO_END,
                            .time_ns = record->done_ns + tracks->offset_ns,
                            .track = slot->id});
}

int trace_tracks_record(trace_tracks_t *tracks,
                        const mrail_ring_record_t *record)
{
    trace_lane_t *lane;
    trace_slot_t *slot;
    int ret = lane_of(tracks, record, &lane);

    if (ret == 0) {
        ret = slot_of(tracks, lane, record->post_ns, &slot);
    }
    if (ret == -ENOSPC) {
        ++tracks->totals.unshown;
        return 0;
    }
    if (ret != 0) {
        return ret;
    }
    put_slice(tracks, slot, record);
    slot->end_ns = record->done_ns;
    ++tracks->totals.records;
    if (record->kind & MRAIL_RING_FAILED) {
        ++tracks->totals.failed;
    } else {
        count_bytes(tracks, rail_of(tracks, record->rail), record);
    }
    return 0;
}

/* ---- events ---- */

static void put_event(trace_tracks_t *tracks, uint64_t time_ns,
                      const char *category, const char *name,
                      const perfetto_arg_t *args, unsigned num_args)
{
    perfetto_event(tracks->trace, &(perfetto_event_t){.kind = PERFETTO_INSTANT,
                                                      .time_ns = time_ns,
                                                      .track = tracks->events,
                                                      .category = category,
                                                      .name = name,
                                                      .args = args,
                                                      .num_args = num_args});
}

void trace_tracks_note(trace_tracks_t *tracks, uint64_t now_ns,
                       const char *text)
{
    put_event(tracks, now_ns + tracks->offset_ns, "trace", text, NULL, 0);
}

void trace_tracks_missing(trace_tracks_t *tracks,
                          const mrail_ring_reader_t *reader, uint64_t now_ns)
{
    const perfetto_arg_t args[] = {
        {.name = "overwritten", .value = reader->missed - tracks->missed},
        {.name = "invalid", .value = reader->invalid - tracks->invalid}};

    if ((args[0].value != 0) || (args[1].value != 0)) {
        put_event(tracks, now_ns + tracks->offset_ns, "trace", "records lost",
                  args, MRAIL_ARRAY_SIZE(args));
    }
    tracks->missed = tracks->totals.missed = reader->missed;
    tracks->invalid = tracks->totals.invalid = reader->invalid;
}

void trace_tracks_page(trace_tracks_t *tracks, const mrail_page_t *page)
{
    uint64_t first = mrail_page_first_event(page);

    if (first > tracks->next_event) {
        tracks->totals.missed_events += first - tracks->next_event;
        tracks->next_event = first;
    }
    for (; tracks->next_event < page->num_events; ++tracks->next_event) {
        const mrail_page_event_t *event =
            &page->events[tracks->next_event % MRAIL_PAGE_EVENTS];

        put_event(tracks, event->time_ns, "health", event->text, NULL, 0);
        ++tracks->totals.events;
    }
    tracks->page = *page;
}

void trace_tracks_calls(trace_tracks_t *tracks, const mrail_calls_t *calls)
{
    trace_calls_add(&tracks->calls, calls);
}

/* ---- begin and end ---- */

trace_tracks_t *trace_tracks_create(perfetto_t *trace,
                                    const trace_tracks_config_t *config)
{
    trace_tracks_t *tracks = calloc(1, sizeof(*tracks));
    const mrail_page_t *page = config->page;

    if (tracks == NULL) {
        return NULL;
    }
    tracks->trace = trace;
    tracks->offset_ns = config->offset_ns;
    tracks->rank_of = config->rank_of;
    tracks->arg = config->arg;
    tracks->page = *page;
    tracks->next_event =
        config->has_past ? mrail_page_first_event(page) : page->num_events;
    mrail_hash_init(&tracks->lanes);
    add_process(tracks, config);
    tracks->events = add_track(tracks, "events", ORDER_EVENTS);
    tracks->posts = add_track(tracks, "posts", ORDER_POSTS);
    trace_calls_init(&tracks->calls, trace, tracks->id, config->offset_ns,
                     config->has_past);
    for (unsigned i = 0; i < page->num_rails; ++i) {
        tracks->rails[i].carried = config->has_past ? 0 : page->rails[i].bytes;
    }
    return tracks;
}

void trace_tracks_destroy(trace_tracks_t *tracks)
{
    if (tracks == NULL) {
        return;
    }
    for (unsigned i = 0; i < tracks->num_lanes; ++i) {
        free(tracks->all_lanes[i]->slots);
        free(tracks->all_lanes[i]);
    }
    free(tracks->all_lanes);
    mrail_hash_cleanup(&tracks->lanes);
    free(tracks);
}

/* Shows how many bytes of a rail the records cover: small PUTs and the last
 * messages of a lane have none. */
static void put_rail_totals(trace_tracks_t *tracks, unsigned index,
                            uint64_t time_ns)
{
    const trace_rail_t *rail = &tracks->rails[index];
    uint64_t carried = tracks->page.rails[index].bytes;
    char name[NAME];
    const perfetto_arg_t args[] = {
        {.name = "rail", .text = name},
        {.name = "bytes in records", .value = rail->bytes},
        {.name = "bytes carried",
         .value = (carried > rail->carried) ? carried - rail->carried : 0}};

    rail_name(tracks, index, name);
    put_event(tracks, time_ns, "trace", "rail totals", args,
              MRAIL_ARRAY_SIZE(args));
}

static void put_totals(trace_tracks_t *tracks, uint64_t time_ns)
{
    const trace_totals_t *totals = &tracks->totals;
    const perfetto_arg_t args[] = {
        {.name = "records", .value = totals->records},
        {.name = "bytes", .value = totals->bytes},
        {.name = "failed", .value = totals->failed},
        {.name = "overwritten", .value = totals->missed},
        {.name = "invalid", .value = totals->invalid},
        {.name = "not shown", .value = totals->unshown},
        {.name = "calls lost", .value = totals->missed_calls},
        {.name = "events lost", .value = totals->missed_events}};

    put_event(tracks, time_ns, "trace", "totals", args, MRAIL_ARRAY_SIZE(args));
}

void trace_tracks_finish(trace_tracks_t *tracks, const mrail_calls_t *calls,
                         uint64_t now_ns)
{
    uint64_t time_ns = now_ns + tracks->offset_ns;

    for (unsigned i = 0; i < MRAIL_RING_LANES; ++i) {
        end_bin(tracks, &tracks->rails[i], UINT64_MAX);
    }
    if (calls != NULL) {
        trace_calls_finish(&tracks->calls, calls);
    }
    tracks->totals.calls = tracks->calls.shown;
    tracks->totals.missed_calls = tracks->calls.missed;
    for (unsigned i = 0; i < tracks->page.num_rails; ++i) {
        put_rail_totals(tracks, i, time_ns);
    }
    put_totals(tracks, time_ns);
}

uint64_t trace_tracks_id(const trace_tracks_t *tracks)
{
    return tracks->id;
}

const trace_totals_t *trace_tracks_totals(const trace_tracks_t *tracks)
{
    return &tracks->totals;
}
