/*
 * What a process shows of its rails to who watches it: a file of fixed size in
 * /dev/shm, mode 0600.  Its process writes it, with write(2): whatever is done to
 * the file, the process is not hurt.  Readers copy it, and wait for nobody.  It
 * stays when the process is killed; a lock on it tells whether the process lives.
 *
 * Writers serialise calls.  A reader believes nothing: numbers are checked, text
 * is made printable.
 */
#ifndef MRAIL_TELEMETRY_RING_H
#define MRAIL_TELEMETRY_RING_H

#include "base/util.h"

#include <stddef.h>
#include <stdint.h>

#define MRAIL_RING_DIR "/dev/shm"
#define MRAIL_RING_MAGIC 0x6d52696eu
#define MRAIL_RING_VERSION 1u
#define MRAIL_RING_RAILS 16u
#define MRAIL_RING_LANES 256u
#define MRAIL_RING_COUNTERS 32u
#define MRAIL_RING_EVENTS 512u
#define MRAIL_RING_PATH 256u

/* Times are CLOCK_REALTIME, in ns.  Rates are bytes per second. */
typedef struct mrail_ring_rail {
    char device[32];
    uint32_t port;
    uint32_t num_lanes;   /* up */
    uint64_t nominal;     /* rate of the port */
    uint64_t bytes;       /* carried, by lanes that have ended, too */
} mrail_ring_rail_t;

typedef struct mrail_ring_lane {
    uint64_t peer;
    uint64_t bytes;       /* carried: messages, and PUTs and GETs that are done */
    uint64_t rate;        /* over the last segments; 0: none yet */
    uint64_t outstanding; /* bytes posted that have not come back */
    uint64_t posted_ns;   /* when a segment was last posted; 0: never */
    uint64_t done_ns;     /* ... and came back */
    uint64_t stalled_ns;  /* something was outstanding, and nothing came back */
    uint64_t idle_ns;     /* nothing was posted, while some lane had work */
    uint16_t slot;
    uint16_t sport;       /* UDP source port */
    uint32_t rail;        /* index */
    char state[16];       /* of the lane, or of its path if that is not well */
} mrail_ring_lane_t;

typedef struct mrail_ring_counter {
    char name[24];
    uint64_t value;
} mrail_ring_counter_t;

typedef struct mrail_ring_event {
    uint64_t time_ns;
    char text[120];
} mrail_ring_event_t;

typedef struct mrail_ring_head {
    uint32_t magic;
    uint32_t version;
    uint32_t size;        /* of the whole ring, bytes */
    uint32_t pid;
    uint64_t begun;       /* changes that were begun ... */
    uint64_t done;        /* ... and that are complete */
} mrail_ring_head_t;

typedef struct mrail_ring {
    mrail_ring_head_t head;
    uint64_t start_ns;
    uint64_t update_ns;   /* of the last look at rails, lanes and counters */
    int32_t rank;         /* in its MPI job; -1: it is none */
    uint32_t num_rails;
    uint32_t num_counters;
    uint32_t num_lanes;   /* shown here */
    uint32_t more_lanes;  /* that there is no room for */
    uint32_t reserved;
    uint64_t num_events;  /* ever; number n is at n % MRAIL_RING_EVENTS */
    char job[48];         /* name of the job; "": none */
    char program[64];
    mrail_ring_rail_t rails[MRAIL_RING_RAILS];
    mrail_ring_counter_t counters[MRAIL_RING_COUNTERS];
    mrail_ring_lane_t lanes[MRAIL_RING_LANES];
    mrail_ring_event_t events[MRAIL_RING_EVENTS];
} mrail_ring_t;

uint64_t mrail_ring_now(void);

/* ---- the process that is watched ---------------------------------------- */

typedef struct mrail_ring_file mrail_ring_file_t;

/* Creates `dir`/mrail-ring.UID.PID.SUFFIX, all of it, on a tmpfs.  Removes those of
 * this user's processes that ended without taking leave MRAIL_RING_KEEP_S ago, or
 * any time ago if there are more than MRAIL_RING_KEEP files.  0; or -errno (-ENOSPC:
 * the file system is full), with nothing left behind. */
#define MRAIL_RING_KEEP_S 3600
#define MRAIL_RING_KEEP 256
int mrail_ring_create(const char *dir, uint64_t suffix,
                      mrail_ring_file_t **file_p);
/* Ends it in good order: the file goes.  NULL is fine. */
void mrail_ring_remove(mrail_ring_file_t *file);

/* This process's own copy.  Who has changed it, but for its head and its events,
 * calls mrail_ring_update(). */
mrail_ring_t *mrail_ring_own(mrail_ring_file_t *file);
void mrail_ring_update(mrail_ring_file_t *file);

/* One line of what has happened, at once.  NULL is fine. */
void mrail_ring_event(mrail_ring_file_t *file, const char *format, ...)
    MRAIL_PRINTF(2, 3);

/* ---- who watches -------------------------------------------------------- */

typedef enum mrail_ring_verdict {
    MRAIL_RING_ALIVE,
    MRAIL_RING_ENDED,   /* its process is gone; it did not end in good order */
    MRAIL_RING_FOREIGN, /* another user's */
    MRAIL_RING_OTHER,   /* of another version */
    MRAIL_RING_BROKEN,  /* truncated, or no ring at all */
    MRAIL_RING_GONE     /* it cannot be opened */
} mrail_ring_verdict_t;

/* A copy that holds together, if it is ALIVE or ENDED. */
mrail_ring_verdict_t mrail_ring_read(const char *path, mrail_ring_t *ring);
/* What to tell the user: "it ...". */
const char *mrail_ring_verdict_text(mrail_ring_verdict_t verdict);

/* Calls `visit` (or NULL) with the path of each of this user's rings in `dir`, in
 * the order of their names: how many there are, or -errno. */
int mrail_ring_each(const char *dir,
                    void (*visit)(const char *path, void *arg), void *arg);

/* Removes those of this user's processes that ended without taking leave at
 * least min_age_s ago: how many, or -errno. */
int mrail_ring_clean(const char *dir, long min_age_s);

/* Number of the oldest event that has not been written over. */
static inline uint64_t mrail_ring_first_event(const mrail_ring_t *ring)
{
    return (ring->num_events > MRAIL_RING_EVENTS)
               ? ring->num_events - MRAIL_RING_EVENTS
               : 0;
}

#endif
