#include "config.h"
#include "tools/rings.h"

#include "base/clock.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct rings_reading {
    rings_t *rings;
    const char *verb;
    const char *job;
    int complain;
} rings_reading_t;

static void *rings_grow(const char *verb, void *items, size_t size)
{
    items = realloc(items, size);
    if (items == NULL) {
        mrail_tool_fail(verb, "out of memory");
    }
    return items;
}

static void rings_visit(const char *path, void *arg)
{
    rings_reading_t *reading = arg;
    rings_t *rings = reading->rings;
    mrail_ring_t *ring = rings_grow(reading->verb, NULL, sizeof(*ring));
    mrail_ring_verdict_t verdict = mrail_ring_read(path, ring);

    if ((verdict != MRAIL_RING_ALIVE) && (verdict != MRAIL_RING_ENDED)) {
        free(ring);
        /* Its process ended meanwhile, in good order. */
        if (verdict != MRAIL_RING_GONE) {
            ++rings->refused;
            if (reading->complain) {
                fprintf(stderr, "mrail %s: %s: %s\n", reading->verb, path,
                        mrail_ring_verdict_text(verdict));
            }
        }
        return;
    }
    if ((reading->job != NULL) && (strcmp(reading->job, ring->job) != 0)) {
        free(ring);
        return;
    }
    rings->items = rings_grow(reading->verb, rings->items,
                              (rings->count + 1) * sizeof(*rings->items));
    rings->items[rings->count++] = (rings_item_t){
        .ring = ring, .alive = (verdict == MRAIL_RING_ALIVE)};
}

static int rings_order(const void *a, const void *b)
{
    const mrail_ring_t *x = ((const rings_item_t *)a)->ring;
    const mrail_ring_t *y = ((const rings_item_t *)b)->ring;
    int ret = strcmp(x->job, y->job);

    if (ret == 0) {
        ret = (x->rank > y->rank) - (x->rank < y->rank);
    }
    return (ret != 0) ? ret : (x->head.pid > y->head.pid) -
                                  (x->head.pid < y->head.pid);
}

void rings_read(rings_t *rings, const char *verb, const char *dir,
                const char *job, int complain)
{
    rings_reading_t reading = {
        .rings = rings, .verb = verb, .job = job, .complain = complain};
    int ret;

    memset(rings, 0, sizeof(*rings));
    ret = mrail_ring_each(dir, rings_visit, &reading);
    if (ret < 0) {
        mrail_tool_fail(verb, "cannot read %s: %s", dir, strerror(-ret));
    }
    if (rings->count > 1) {
        qsort(rings->items, rings->count, sizeof(*rings->items), rings_order);
    }
}

void rings_cleanup(rings_t *rings)
{
    for (unsigned i = 0; i < rings->count; ++i) {
        free(rings->items[i].ring);
    }
    free(rings->items);
    memset(rings, 0, sizeof(*rings));
}

const mrail_ring_t *rings_find(const rings_t *rings, const mrail_ring_t *ring)
{
    for (unsigned i = 0; i < rings->count; ++i) {
        const mrail_ring_t *other = rings->items[i].ring;

        if ((other->head.pid == ring->head.pid) &&
            (other->start_ns == ring->start_ns)) {
            return other;
        }
    }
    return NULL;
}

void rings_time(char *text, size_t size, uint64_t time_ns)
{
    time_t seconds = (time_t)(time_ns / MRAIL_NS_PER_SEC);
    struct tm broken;
    char date[RINGS_TIME];

    if ((localtime_r(&seconds, &broken) == NULL) ||
        (strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &broken) == 0)) {
        snprintf(date, sizeof(date), "?");
    }
    snprintf(text, size, "%s.%06u", date,
             (unsigned)(time_ns % MRAIL_NS_PER_SEC / 1000));
}

void rings_who(char *text, size_t size, const mrail_ring_t *ring)
{
    if (ring->rank >= 0) {
        snprintf(text, size, "rank %d", ring->rank);
    } else {
        snprintf(text, size, "pid %u", ring->head.pid);
    }
}

static int rings_event_order(const void *a, const void *b)
{
    const rings_event_t *x = a, *y = b;

    return (x->event->time_ns > y->event->time_ns) -
           (x->event->time_ns < y->event->time_ns);
}

unsigned rings_events(const rings_t *rings, const char *verb,
                      rings_event_t **events_p)
{
    rings_event_t *events = rings_grow(
        verb, NULL,
        ((size_t)rings->count * MRAIL_RING_EVENTS + 1) * sizeof(*events));
    unsigned count = 0;

    for (unsigned i = 0; i < rings->count; ++i) {
        const mrail_ring_t *ring = rings->items[i].ring;

        for (uint64_t n = mrail_ring_first_event(ring); n < ring->num_events;
             ++n) {
            events[count].ring = ring;
            events[count++].event = &ring->events[n % MRAIL_RING_EVENTS];
        }
    }
    qsort(events, count, sizeof(*events), rings_event_order);
    *events_p = events;
    return count;
}
