/*
 * Throughput of a lane over its last W completed segments.  Pure; the owner
 * serialises.  Source: ICCL 3.4 (W = 8).
 */
#ifndef MRAIL_TELEMETRY_WINDOW_H
#define MRAIL_TELEMETRY_WINDOW_H

#include "base/clock.h"

#include <stdint.h>

#define MRAIL_TELE_WINDOW 8

typedef struct mrail_tele_window {
    uint64_t bytes[MRAIL_TELE_WINDOW];
    uint64_t busy_ns[MRAIL_TELE_WINDOW];
    uint64_t sum_bytes;
    uint64_t sum_busy_ns;
    mrail_ns_t last_ns; /* time of the last completion */
    unsigned count;     /* samples so far, saturates at the window's size */
    unsigned next;
} mrail_tele_window_t;

/*
 * A segment of `bytes` that was posted at post_ns has completed at now_ns.
 * The lane counts as busy from the later of post_ns and the completion before
 * this one: time without work is not held against it.
 */
static inline void mrail_tele_window_add(mrail_tele_window_t *win,
                                         uint64_t bytes, mrail_ns_t post_ns,
                                         mrail_ns_t now_ns)
{
    mrail_ns_t from = (post_ns > win->last_ns) ? post_ns : win->last_ns;
    uint64_t busy = (now_ns > from) ? (now_ns - from) : 0;

    win->sum_bytes += bytes - win->bytes[win->next];
    win->sum_busy_ns += busy - win->busy_ns[win->next];
    win->bytes[win->next] = bytes;
    win->busy_ns[win->next] = busy;
    win->next = (win->next + 1) % MRAIL_TELE_WINDOW;
    win->count += (win->count < MRAIL_TELE_WINDOW);
    win->last_ns = now_ns;
}

/* Bytes per second; 0 while there is no sample. */
static inline uint64_t mrail_tele_window_rate(const mrail_tele_window_t *win)
{
    if ((win->count == 0) || (win->sum_busy_ns == 0)) {
        return 0;
    }
    return (uint64_t)((double)win->sum_bytes * MRAIL_NS_PER_SEC /
                      (double)win->sum_busy_ns);
}

#endif
