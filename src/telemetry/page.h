/*
 * The telemetry page of a process is a file of fixed size on a tmpfs with the
 * process's rails, lanes, counters and events. The trace ring (ring.h) follows
 * in the same file, so both share a name, a lock and a lifetime. Readers copy
 * the file and never block the writer. If the process is killed, the file
 * remains, but the lock on it is released.
 *
 * The process writes the page with pwrite(2), but the ring through a mapping.
 * file.h describes the only way in which other processes can harm the writer.
 *
 * The caller serialises the writer's functions. Readers do not trust the
 * content: they check all numbers and make text printable.
 */
#ifndef MRAIL_TELEMETRY_PAGE_H
#define MRAIL_TELEMETRY_PAGE_H

#include "telemetry/file.h"
#include "telemetry/ring.h"

#define MRAIL_PAGE_MAGIC 0x6d52696eu
#define MRAIL_PAGE_VERSION 4u
#define MRAIL_PAGE_RAILS 16u
#define MRAIL_PAGE_LANES 256u
#define MRAIL_PAGE_COUNTERS 32u
#define MRAIL_PAGE_EVENTS 512u

/* Completed chunks of one direction of a rail, as in mrail_tele_work_t. */
typedef struct mrail_page_work {
    uint64_t bytes;
    uint64_t busy_ns;
    uint64_t chunks;
    uint64_t chunk_ns;
} mrail_page_work_t;

/* Times are CLOCK_REALTIME, in ns. Rates are bytes per second. */
typedef struct mrail_page_rail {
    char device[32];
    uint32_t port;
    uint32_t num_lanes; /* lanes that are up */
    uint64_t nominal;   /* nominal rate of the port */
    uint64_t bytes;     /* bytes carried by all lanes, including closed ones */
    /* Sums over all lanes, including closed ones; see mrail_page_lane_t. */
    uint64_t stalled_ns;
    uint64_t idle_ns;
    /* Estimated bandwidth in each direction (capacity.h); 0 if unknown. */
    uint64_t live_out;
    uint64_t live_in;
    mrail_page_work_t work_out;
    mrail_page_work_t work_in;
    uint32_t is_down; /* the port is down, the device has failed, or there is an
                       * outage */
    uint32_t reserved;
} mrail_page_rail_t;

typedef struct mrail_page_lane {
    uint64_t peer;
    uint64_t bytes;       /* bytes of messages and of completed PUTs and GETs */
    uint64_t rate;        /* rate over the last chunks; 0 if unknown */
    uint64_t outstanding; /* bytes in flight */
    uint64_t stalled_ns;  /* time with work outstanding but no completion */
    uint64_t idle_ns;     /* time without work while other lanes had work */
    uint16_t slot;
    uint16_t sport; /* UDP source port */
    uint16_t rail;  /* index */
    uint16_t moves; /* moves to other source ports, at most UINT16_MAX */
    /* state of the lane, or of its path if the lane is up but the path is not,
     * or if the lane has failed and is closed */
    char state[16];
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
    uint32_t size; /* size of the page in bytes, without the ring */
    uint32_t pid;
    /* Size in bytes of the ring at MRAIL_PAGE_RING_AT; 0 if there is no
     * ring. */
    uint64_t ring_size;
    uint64_t begun; /* number of changes that were started */
    uint64_t done;  /* number of changes that were completed */
} mrail_page_head_t;

typedef struct mrail_page {
    mrail_page_head_t head;
    uint64_t start_ns;
    /* time of the last update of rails, lanes and counters */
    uint64_t update_ns;
    /* CLOCK_REALTIME minus CLOCK_MONOTONIC, which is the clock of the ring */
    uint64_t clock_offset_ns;
    int32_t rank; /* rank in its MPI job; -1 if there is no job */
    uint32_t num_rails;
    uint32_t num_counters;
    uint32_t num_lanes;  /* number of lanes in this page */
    uint32_t more_lanes; /* number of lanes that do not fit in the page */
    uint32_t uplinks;    /* of a leaf with port rules, or 0 without rules */
    uint64_t num_events; /* total number; event n is at n % MRAIL_PAGE_EVENTS */
    char job[48];        /* name of the job, or "" */
    char program[64];
    mrail_page_rail_t rails[MRAIL_PAGE_RAILS];
    mrail_page_counter_t counters[MRAIL_PAGE_COUNTERS];
    mrail_page_lane_t lanes[MRAIL_PAGE_LANES];
    mrail_page_event_t events[MRAIL_PAGE_EVENTS];
} mrail_page_t;

/* A multiple of every memory page size, as mmap(2) requires. */
#define MRAIL_PAGE_RING_ALIGN 65536u
#define MRAIL_PAGE_RING_AT                                                     \
    (MRAIL_DIV_ROUND_UP(sizeof(mrail_page_t), MRAIL_PAGE_RING_ALIGN) *         \
     MRAIL_PAGE_RING_ALIGN)

/* Returns the size of a file with this number of records. */
static inline size_t mrail_page_file_size(uint32_t num_records)
{
    return (num_records == 0)
               ? sizeof(mrail_page_t)
               : MRAIL_PAGE_RING_AT + mrail_ring_size(num_records);
}

/* Returns the memory that a file with this number of records uses. The gap
 * before the ring uses none. */
static inline size_t mrail_page_memory(uint32_t num_records)
{
    return sizeof(mrail_page_t) +
           ((num_records == 0) ? 0 : mrail_ring_size(num_records));
}

uint64_t mrail_page_now(void);

/* ---- writer ---- */

typedef struct mrail_page_file mrail_page_file_t;

/* Creates the file `suffix`, with a ring of `num_records`, a result of
 * mrail_ring_round(). On failure, returns -errno and leaves no file behind;
 * -ENOSPC means that the file system is full. */
int mrail_page_create(const char *dir, uint64_t suffix, uint32_t num_records,
                      mrail_page_file_t **file_p);
/* Removes the page when the process ends normally. `file` may be NULL. */
void mrail_page_remove(mrail_page_file_t *file);

/* Returns the ring of the file, which is valid until mrail_page_remove(). It is
 * all zero if the file has no ring. */
mrail_ring_t mrail_page_ring(const mrail_page_file_t *file);

/* Returns 1 if a reader requests records; see mrail_follow_request(). Makes a
 * system call. */
int mrail_page_is_followed(const mrail_page_file_t *file);

/* Returns the writer's own copy of the page. The caller may change all but the
 * header and the events, and then calls mrail_page_update(). */
mrail_page_t *mrail_page_own(mrail_page_file_t *file);
void mrail_page_update(mrail_page_file_t *file);

/* Adds an event, which is immediately visible to readers. `file` may be
 * NULL. */
void mrail_page_event(mrail_page_file_t *file, const char *format, ...)
    MRAIL_PRINTF(2, 3);

/* ---- readers ---- */

typedef enum mrail_page_status {
    MRAIL_PAGE_ALIVE,
    MRAIL_PAGE_ENDED,   /* the process ended abnormally */
    MRAIL_PAGE_FOREIGN, /* the file belongs to another user */
    MRAIL_PAGE_OTHER,   /* another version wrote the file */
    MRAIL_PAGE_BROKEN,  /* truncated, or not a telemetry page */
    MRAIL_PAGE_GONE,    /* the file cannot be opened */
    MRAIL_PAGE_NO_RING, /* the process does not record its chunks */
    MRAIL_PAGE_STATUSES
} mrail_page_status_t;

/* Reads a consistent copy. *page is valid only for ALIVE and ENDED. */
mrail_page_status_t mrail_page_read(const char *path, mrail_page_t *page);
/* Returns the status of a file without copying the page, and the time of its
 * last change, CLOCK_REALTIME in seconds. *changed_s_p is valid only for ALIVE
 * and ENDED. */
mrail_page_status_t mrail_page_peek(const char *path, int64_t *changed_s_p);
/* Like mrail_page_read(), for an open file, which stays readable after the
 * process has removed it. */
mrail_page_status_t mrail_page_read_fd(int fd, mrail_page_t *page);
/* Returns a message, such as "the file belongs to another user". */
const char *mrail_page_status_text(mrail_page_status_t status);

/* Calls `visit` (may be NULL) with the path of each of this user's pages in
 * `dir`, sorted by name. Returns their number, or -errno. */
static inline int mrail_page_each(const char *dir,
                                  void (*visit)(const char *path, void *arg),
                                  void *arg)
{
    return mrail_tele_file_each(dir, MRAIL_TELE_PAGE, visit, arg);
}

/* Returns the number of the oldest event that the page still contains. */
static inline uint64_t mrail_page_first_event(const mrail_page_t *page)
{
    return (page->num_events > MRAIL_PAGE_EVENTS)
               ? page->num_events - MRAIL_PAGE_EVENTS
               : 0;
}

#endif
