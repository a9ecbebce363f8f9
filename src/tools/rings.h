/* The telemetry rings of this user on this machine, as mrail top and mrail info
 * --events show them. */
#ifndef MRAIL_TOOLS_RINGS_H
#define MRAIL_TOOLS_RINGS_H

#include "telemetry/ring.h"

typedef struct rings_item {
    mrail_ring_t *ring;
    int alive; /* its process runs */
} rings_item_t;

typedef struct rings {
    rings_item_t *items; /* by job and rank */
    unsigned count;
    unsigned refused;    /* files that are no rings, or cannot be read */
} rings_t;

/* Reads all in `dir`; only those of `job`, if it is not NULL.  Says on stderr
 * what cannot be read and why, if `complain`.  A `dir` that cannot be read or no
 * memory ends the process. */
void rings_read(rings_t *rings, const char *verb, const char *dir,
                const char *job, int complain);
void rings_cleanup(rings_t *rings);

/* The same process's in `rings`, or NULL. */
const mrail_ring_t *rings_find(const rings_t *rings, const mrail_ring_t *ring);

/* "2026-11-20 17:04:05.123456", local time. */
#define RINGS_TIME 32
void rings_time(char *text, size_t size, uint64_t time_ns);

/* "rank 3", or "pid 4711" of who has none. */
#define RINGS_WHO 32
void rings_who(char *text, size_t size, const mrail_ring_t *ring);

/* One event of some ring. */
typedef struct rings_event {
    const mrail_ring_t *ring;
    const mrail_ring_event_t *event;
} rings_event_t;

/* All that are left, by time: how many; *events_p is the caller's to free. */
unsigned rings_events(const rings_t *rings, const char *verb,
                      rings_event_t **events_p);

#endif
