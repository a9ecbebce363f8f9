/*
 * Rails, lanes and paths of a process, from its telemetry page and its trace
 * ring.
 */
#include "config.h"
#include "tools/diagnose.h"

#include "base/grow.h"
#include "orchestrator/ports.h"
#include "telemetry/follow.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

/* The rate of a rail is measured over the chunks of this period, which must
 * have ended recently. */
#define RATE_NS (3 * MRAIL_NS_PER_SEC)
#define RECENT_NS (30 * MRAIL_NS_PER_SEC)
#define BATCH 512u

/* ---- rails ---- */

static int record_order(const void *a, const void *b)
{
    const mrail_ring_record_t *x = a, *y = b;

    return (x->post_ns > y->post_ns) - (x->post_ns < y->post_ns);
}

/* Reads the records of chunks. Returns their number. The caller frees
 * *records_p. */
static unsigned read_records(const char *command, const char *path,
                             mrail_ring_record_t **records_p)
{
    mrail_ring_record_t *records = NULL;
    unsigned count = 0;
    mrail_follow_t follow;
    int ret;

    *records_p = NULL;
    if (mrail_follow_open(&follow, path) != MRAIL_PAGE_ALIVE) {
        return 0;
    }
    /* Limit the number of reads, because the writer may be as fast as this
     * reader. */
    while (count < 2 * follow.reader.num_records) {
        if (!mrail_grow(&records, count + BATCH, sizeof(*records))) {
            mrail_tool_fail(command, "out of memory");
        }
        ret = mrail_follow_read(&follow, records + count, BATCH);
        if (ret <= 0) {
            break;
        }
        count += (unsigned)ret;
    }
    mrail_follow_close(&follow);
    *records_p = records;
    return count;
}

static int is_chunk(const mrail_ring_record_t *record)
{
    return (record->kind == MRAIL_RING_PUT) || (record->kind == MRAIL_RING_GET);
}

/* Returns the start of the period in which chunks count, or UINT64_MAX if there
 * is none. */
static uint64_t rates_from(const mrail_ring_record_t *records, unsigned count,
                           uint64_t now_ns)
{
    uint64_t last_ns = 0;

    for (unsigned i = 0; i < count; ++i) {
        if (is_chunk(&records[i])) {
            last_ns = MRAIL_MAX(last_ns, records[i].done_ns);
        }
    }
    return (last_ns + RECENT_NS < now_ns)
               ? UINT64_MAX
               : last_ns - MRAIL_MIN(last_ns, RATE_NS);
}

/* Adds a chunk to a sum. The chunks come in the order of their post times.
 * *until_p is the time until which earlier ones were outstanding. */
static void add_chunk(diagnose_traffic_t *traffic,
                      const mrail_ring_record_t *record, uint64_t *until_p)
{
    uint64_t from_ns = MRAIL_MAX(record->post_ns, *until_p);

    traffic->busy_ns +=
        (record->done_ns > from_ns) ? record->done_ns - from_ns : 0;
    traffic->bytes += record->length;
    ++traffic->chunks;
    *until_p = MRAIL_MAX(*until_p, record->done_ns);
}

/* Keeps the time of the last chunk of each peer. */
static void add_exchange(diagnose_rank_t *rank,
                         const mrail_ring_record_t *record)
{
    diagnose_exchange_t *oldest = &rank->exchanges[0];

    for (unsigned i = 0; i < rank->num_exchanges; ++i) {
        diagnose_exchange_t *exchange = &rank->exchanges[i];

        if (exchange->peer == record->peer) {
            exchange->last_ns = MRAIL_MAX(exchange->last_ns, record->done_ns);
            return;
        }
        if (exchange->last_ns < oldest->last_ns) {
            oldest = exchange;
        }
    }
    if (rank->num_exchanges < DIAGNOSE_EXCHANGES) {
        oldest = &rank->exchanges[rank->num_exchanges++];
    } else if (oldest->last_ns > record->done_ns) {
        return;
    }
    *oldest = (diagnose_exchange_t){record->peer, record->done_ns};
}

/* Returns the index of a record's lane, or num_lanes. */
static unsigned lane_of(const diagnose_rank_t *rank,
                        const mrail_ring_record_t *record)
{
    unsigned i = 0;

    while ((i < rank->num_lanes) && ((rank->lanes[i].peer != record->peer) ||
                                     (rank->lanes[i].slot != record->lane) ||
                                     (rank->lanes[i].rail != record->rail))) {
        ++i;
    }
    return i;
}

void diagnose_add_records(diagnose_rank_t *rank, mrail_ring_record_t *records,
                          unsigned count)
{
    uint64_t rails_until[MRAIL_PAGE_RAILS] = {0};
    uint64_t lanes_until[MRAIL_PAGE_LANES] = {0};
    uint64_t from_ns = rates_from(records, count, rank->last_ns);

    if (count > 0) {
        qsort(records, count, sizeof(*records), record_order);
    }
    for (unsigned i = 0; i < count; ++i) {
        const mrail_ring_record_t *record = &records[i];
        unsigned lane;

        if ((record->rail >= rank->num_rails) || !is_chunk(record)) {
            continue;
        }
        add_exchange(rank, record);
        if (record->post_ns < from_ns) {
            continue;
        }
        add_chunk(&rank->rails[record->rail].traffic, record,
                  &rails_until[record->rail]);
        lane = lane_of(rank, record);
        if (lane < rank->num_lanes) {
            add_chunk(&rank->lanes[lane].traffic, record, &lanes_until[lane]);
            rank->lanes[lane].get_bytes +=
                (record->kind == MRAIL_RING_GET) ? record->length : 0;
        }
    }
}

static void fill_rates(const char *command, const char *path,
                       diagnose_rank_t *rank)
{
    mrail_ring_record_t *records;
    unsigned count = read_records(command, path, &records);

    diagnose_add_records(rank, records, count);
    free(records);
}

/* Returns the uplink that port rules give to data that this end sends on a
 * lane, or -1 without rules. */
static int uplink_of(const mrail_page_t *page, const mrail_page_lane_t *lane)
{
    return ((page->uplinks == 0) || (page->uplinks > MRAIL_PORTS_MAX_UPLINKS) ||
            (lane->sport < MRAIL_PORTS_FIRST))
               ? -1
               : (int)mrail_ports_segment_of(page->uplinks, lane->sport);
}

/* Leaves out lanes that moved to another port, because some of their chunks
 * took another path. */
static void fill_lanes(const mrail_page_t *page, diagnose_rank_t *rank)
{
    for (unsigned i = 0; i < page->num_lanes; ++i) {
        const mrail_page_lane_t *lane = &page->lanes[i];

        if ((lane->rail < page->num_rails) && (lane->moves == 0)) {
            rank->lanes[rank->num_lanes++] =
                (diagnose_lane_t){.peer = lane->peer,
                                  .slot = lane->slot,
                                  .rail = lane->rail,
                                  .uplink = uplink_of(page, lane)};
        }
    }
}

/* ---- events ---- */

static diagnose_path_t *path_of(diagnose_rank_t *rank, uint64_t peer,
                                unsigned slot)
{
    for (unsigned i = 0; i < rank->num_paths; ++i) {
        if ((rank->paths[i].peer == peer) && (rank->paths[i].slot == slot)) {
            return &rank->paths[i];
        }
    }
    return NULL;
}

static void path_remove(diagnose_rank_t *rank, diagnose_path_t *path)
{
    *path = rank->paths[--rank->num_paths];
}

/* A lane that was closed after a failure is no longer on the page, but its
 * event names the rail: "soft1:1: lane 3 to peer 17a4 closing (failed)". */
static int closed_rail_of(const mrail_page_t *page, uint64_t peer,
                          unsigned slot)
{
    char device[sizeof(page->rails[0].device)];
    unsigned port, lane;
    unsigned long long id;

    for (uint64_t n = mrail_page_first_event(page); n < page->num_events; ++n) {
        const char *text = page->events[n % MRAIL_PAGE_EVENTS].text;

        if ((sscanf(text, "%31[^:]:%u: lane %u to peer %llx closing", device,
                    &port, &lane, &id) != 4) ||
            (lane != slot) || (id != peer)) {
            continue;
        }
        for (unsigned i = 0; i < page->num_rails; ++i) {
            if ((strcmp(page->rails[i].device, device) == 0) &&
                (page->rails[i].port == port)) {
                return (int)i;
            }
        }
    }
    return -1;
}

static int rail_of(const mrail_page_t *page, uint64_t peer, unsigned slot)
{
    for (unsigned i = 0; i < page->num_lanes; ++i) {
        const mrail_page_lane_t *lane = &page->lanes[i];

        if ((lane->peer == peer) && (lane->slot == slot)) {
            return (lane->rail < page->num_rails) ? (int)lane->rail : -1;
        }
    }
    return closed_rail_of(page, peer, slot);
}

/* Adds a path when an event retires it, and removes it when it is up again. */
static int take_path_event(const mrail_page_t *page,
                           const mrail_page_event_t *event,
                           diagnose_rank_t *rank)
{
    unsigned slot;
    unsigned long long peer;
    char from[16], to[16], reason[64];
    diagnose_path_t *path;

    if (sscanf(event->text, "path %u to peer %llx: %15s -> %15s (%63[^)])",
               &slot, &peer, from, to, reason) != 5) {
        return 0;
    }
    path = path_of(rank, peer, slot);
    if ((path != NULL) && (strcmp(to, "up") == 0)) {
        path_remove(rank, path);
    } else if ((path == NULL) && (strcmp(to, "retired") == 0) &&
               (rank->num_paths < DIAGNOSE_PATHS)) {
        path = &rank->paths[rank->num_paths++];
        path->peer = peer;
        path->slot = slot;
        path->rail = rail_of(page, peer, slot);
        /* The event may be later than the last update of the page. */
        path->ago_ns =
            page->update_ns - MRAIL_MIN(page->update_ns, event->time_ns);
        snprintf(path->event, sizeof(path->event), "%s", reason);
    }
    return 1;
}

static void take_event(const mrail_page_t *page,
                       const mrail_page_event_t *event, diagnose_rank_t *rank)
{
    unsigned long long peer;

    if (take_path_event(page, event, rank)) {
        return;
    }
    if (sscanf(event->text, "peer %llx is gone", &peer) == 1) {
        for (unsigned i = rank->num_paths; i-- > 0;) {
            if (rank->paths[i].peer == peer) {
                path_remove(rank, &rank->paths[i]);
            }
        }
        return;
    }
    for (unsigned i = 0; i < rank->num_rails; ++i) {
        size_t length = strlen(page->rails[i].device);

        if ((strncmp(event->text, page->rails[i].device, length) == 0) &&
            (strncmp(event->text + length, ": port ", 7) == 0)) {
            rank->rails[i].is_down =
                strcmp(event->text + length, ": port error") == 0;
        }
    }
}

void diagnose_fill_rails(const char *command, const char *path,
                         const mrail_page_t *page, diagnose_rank_t *rank)
{
    const char *id = strrchr(path, '.');

    rank->rank = page->rank;
    rank->pid = page->head.pid;
    rank->id = (id != NULL) ? strtoull(id + 1, NULL, 16) : 0;
    rank->num_rails = page->num_rails;
    for (unsigned i = 0; i < page->num_rails; ++i) {
        snprintf(rank->rails[i].name, sizeof(rank->rails[i].name), "%s:%u",
                 page->rails[i].device, page->rails[i].port);
        rank->rails[i].nominal = page->rails[i].nominal;
    }
    fill_lanes(page, rank);
    for (uint64_t n = mrail_page_first_event(page); n < page->num_events; ++n) {
        take_event(page, &page->events[n % MRAIL_PAGE_EVENTS], rank);
    }
    fill_rates(command, path, rank);
}
