/*
 * What a process shows of its rails to who watches it: a file of fixed size in
 * /dev/shm, mode 0600.  Its process writes it, with write(2): whatever is done to
 * the file, the process is not hurt.  Readers copy it, and wait for nobody.  It
 * stays when the process is killed; a lock on it tells whether the process lives.
 *
 * Writers serialise calls.  A reader believes nothing: numbers are checked, text
 * is made printable.
 */
#ifndef MRAIL_TELEMETRY_PAGE_H
#define MRAIL_TELEMETRY_PAGE_H

#include "base/util.h"

#include <stddef.h>
#include <stdint.h>

#define MRAIL_PAGE_DIR "/dev/shm"
#define MRAIL_PAGE_MAGIC 0x6d52696eu
#define MRAIL_PAGE_VERSION 1u
#define MRAIL_PAGE_RAILS 16u
#define MRAIL_PAGE_LANES 256u
#define MRAIL_PAGE_COUNTERS 32u
#define MRAIL_PAGE_EVENTS 512u
#define MRAIL_PAGE_PATH 256u

/* Times are CLOCK_REALTIME, in ns.  Rates are bytes per second. */
typedef struct mrail_page_rail {
    char device[32];
    uint32_t port;
    uint32_t num_lanes; /* up */
    uint64_t nominal;   /* rate of the port */
    uint64_t bytes;     /* carried, by lanes that have ended, too */
} mrail_page_rail_t;

typedef struct mrail_page_lane {
    uint64_t peer;
    uint64_t bytes; /* carried: messages, and PUTs and GETs that are done */
    uint64_t rate;  /* over the last chunks; 0: none yet */
    uint64_t outstanding; /* bytes posted that have not come back */
    uint64_t posted_ns;   /* when a chunk was last posted; 0: never */
    uint64_t done_ns;     /* ... and came back */
    uint64_t stalled_ns;  /* something was outstanding, and nothing came back */
    uint64_t idle_ns;     /* nothing was posted, while some lane had work */
    uint16_t slot;
    uint16_t sport; /* UDP source port */
    uint32_t rail;  /* index */
    char state[16]; /* of the lane, or of its path if that is not well */
} mrail_page_lane_t;

typedef struct mrail_page_counter {
    char name[24];
    uint64_t value;
} mrail_page_counter_t;

typedef struct mrail_page_event {
    uint64_t time_ns;
    char text[120];
} mrail_page_event_t;

typedef struct mrail_page_head {
    uint32_t magic;
    uint32_t version;
    uint32_t size; /* of the whole ring, bytes */
    uint32_t pid;
    uint64_t begun; /* changes that were begun ... */
    uint64_t done;  /* ... and that are complete */
} mrail_page_head_t;

typedef struct mrail_page {
    mrail_page_head_t head;
    uint64_t start_ns;
    uint64_t update_ns; /* of the last look at rails, lanes and counters */
    int32_t rank;       /* in its MPI job; -1: it is none */
    uint32_t num_rails;
    uint32_t num_counters;
    uint32_t num_lanes;  /* shown here */
    uint32_t more_lanes; /* that there is no room for */
    uint32_t reserved;
    uint64_t num_events; /* ever; number n is at n % MRAIL_PAGE_EVENTS */
    char job[48];        /* name of the job; "": none */
    char program[64];
    mrail_page_rail_t rails[MRAIL_PAGE_RAILS];
    mrail_page_counter_t counters[MRAIL_PAGE_COUNTERS];
    mrail_page_lane_t lanes[MRAIL_PAGE_LANES];
    mrail_page_event_t events[MRAIL_PAGE_EVENTS];
} mrail_page_t;

uint64_t mrail_page_now(void);

/* ---- the process that is watched ---- */

typedef struct mrail_page_file mrail_page_file_t;

/* Creates `dir`/mrail-telemetry.UID.PID.SUFFIX, all of it, on a tmpfs.  Removes those of
 * this user's processes that ended without taking leave MRAIL_PAGE_KEEP_S ago, or
 * any time ago if there are more than MRAIL_PAGE_KEEP files.  0; or -errno (-ENOSPC:
 * the file system is full), with nothing left behind. */
#define MRAIL_PAGE_KEEP_S 3600
#define MRAIL_PAGE_KEEP 256
int mrail_page_create(const char *dir, uint64_t suffix,
                      mrail_page_file_t **file_p);
/* Ends it in good order: the file goes.  NULL is fine. */
void mrail_page_remove(mrail_page_file_t *file);

/* This process's own copy.  Who has changed it, but for its head and its events,
 * calls mrail_page_update(). */
mrail_page_t *mrail_page_own(mrail_page_file_t *file);
void mrail_page_update(mrail_page_file_t *file);

/* One line of what has happened, at once.  NULL is fine. */
void mrail_page_event(mrail_page_file_t *file, const char *format, ...)
    MRAIL_PRINTF(2, 3);

/* ---- who watches ---- */

typedef enum mrail_page_status {
    MRAIL_PAGE_ALIVE,
    MRAIL_PAGE_ENDED,   /* its process is gone; it did not end in good order */
    MRAIL_PAGE_FOREIGN, /* another user's */
    MRAIL_PAGE_OTHER,   /* of another version */
    MRAIL_PAGE_BROKEN,  /* truncated, or no ring at all */
    MRAIL_PAGE_GONE     /* it cannot be opened */
} mrail_page_status_t;

/* A copy that holds together, if it is ALIVE or ENDED. */
mrail_page_status_t mrail_page_read(const char *path, mrail_page_t *page);
/* What to tell the user: "it ...". */
const char *mrail_page_status_text(mrail_page_status_t verdict);

/* Calls `visit` (or NULL) with the path of each of this user's rings in `dir`, in
 * the order of their names: how many there are, or -errno. */
int mrail_page_each(const char *dir, void (*visit)(const char *path, void *arg),
                    void *arg);

/* Removes those of this user's processes that ended without taking leave at
 * least min_age_s ago: how many, or -errno. */
int mrail_page_clean(const char *dir, long min_age_s);

/* Number of the oldest event that has not been written over. */
static inline uint64_t mrail_page_first_event(const mrail_page_t *page)
{
    return (page->num_events > MRAIL_PAGE_EVENTS)
               ? page->num_events - MRAIL_PAGE_EVENTS
               : 0;
}

#endif
