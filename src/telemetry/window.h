/*
 * Measures the throughput of a lane over its last W completed chunks. Times are
 * arguments, and the owner serialises the calls. Source: [ICCL] 3.4 (W = 8).
 *
 * In mrail_tele_window_t, which belongs to the progress thread, W is a
 * compile-time constant. The functions mrail_tele_sums_*() take the samples and
 * their number as arguments, so their caller chooses W.
 */
#ifndef MRAIL_TELEMETRY_WINDOW_H
#define MRAIL_TELEMETRY_WINDOW_H

#include "base/clock.h"
#include "base/util.h"

#include <stdint.h>

#define MRAIL_TELE_WINDOW 8

typedef struct mrail_tele_sample {
    uint64_t bytes;
    uint64_t busy_ns;
} mrail_tele_sample_t;

/* A window without its samples. All zero means that there is no measurement
 * yet. */
typedef struct mrail_tele_sums {
    uint64_t bytes; /* sum over the samples of the window */
    uint64_t busy_ns;
    mrail_ns_t last_ns; /* time of the last completion */
    unsigned count;     /* samples so far, at most the size of the window */
    unsigned newest;    /* index of the newest sample */
    unsigned batch;     /* chunks whose completion was seen at last_ns */
    uint64_t batch_bytes;
    uint64_t batch_ns;
} mrail_tele_sums_t;

typedef struct mrail_tele_window {
    mrail_tele_sums_t sums;
    mrail_tele_sample_t samples[MRAIL_TELE_WINDOW];
} mrail_tele_window_t;

static inline void mrail_tele_sums_push(mrail_tele_sums_t *sums,
                                        mrail_tele_sample_t *samples,
                                        unsigned size, uint64_t bytes,
                                        uint64_t busy_ns)
{
    mrail_tele_sample_t *sample;

    sums->newest = (sums->newest + 1) % size;
    sample = &samples[sums->newest];
    sums->bytes += bytes - sample->bytes;
    sums->busy_ns += busy_ns - sample->busy_ns;
    sample->bytes = bytes;
    sample->busy_ns = busy_ns;
    sums->count += (sums->count < size);
    sums->batch_bytes += bytes;
    ++sums->batch;
}

/* Adds a completion with the same timestamp as the last one, and redistributes
 * the time of the batch. The function is not inlined, because the common case
 * needs the registers. */
static __attribute__((noinline, unused)) void
mrail_tele_sums_share(mrail_tele_sums_t *sums, mrail_tele_sample_t *samples,
                      unsigned size, uint64_t bytes)
{
    uint64_t share_ns = sums->batch_ns / (sums->batch + 1);

    for (unsigned i = 0; (i < sums->batch) && (i < size); ++i) {
        mrail_tele_sample_t *sample =
            &samples[(sums->newest + size - i) % size];

        sums->busy_ns += share_ns - sample->busy_ns;
        sample->busy_ns = share_ns;
    }
    mrail_tele_sums_push(sums, samples, size, bytes, share_ns);
}

/*
 * Adds a chunk of `bytes` that was posted at post_ns and completed at now_ns.
 * The lane counts as busy from post_ns or the previous completion, whichever is
 * later, so idle time does not lower the rate. Completions with the same
 * timestamp share the time of the first one. Otherwise, more than W of them
 * would fill the window with samples of zero length. samples[0..size) must be
 * zero at first; size >= 1 is constant.
 */
static inline void mrail_tele_sums_add(mrail_tele_sums_t *sums,
                                       mrail_tele_sample_t *samples,
                                       unsigned size, uint64_t bytes,
                                       mrail_ns_t post_ns, mrail_ns_t now_ns)
{
    mrail_ns_t from = (post_ns > sums->last_ns) ? post_ns : sums->last_ns;

    if (MRAIL_LIKELY(now_ns > from)) {
        sums->last_ns = now_ns;
        sums->batch_ns = now_ns - from;
        sums->batch_bytes = 0;
        sums->batch = 0;
        mrail_tele_sums_push(sums, samples, size, bytes, now_ns - from);
    } else {
        mrail_tele_sums_share(sums, samples, size, bytes);
    }
}

/* Returns bytes per second, or 0 if there is no sample yet. */
static inline uint64_t mrail_tele_sums_rate(const mrail_tele_sums_t *sums)
{
    if (sums->busy_ns == 0) {
        return 0;
    }
    return (uint64_t)((double)sums->bytes * MRAIL_NS_PER_SEC /
                      (double)sums->busy_ns);
}

static inline void mrail_tele_window_add(mrail_tele_window_t *win,
                                         uint64_t bytes, mrail_ns_t post_ns,
                                         mrail_ns_t now_ns)
{
    mrail_tele_sums_add(&win->sums, win->samples, MRAIL_TELE_WINDOW, bytes,
                        post_ns, now_ns);
}

static inline uint64_t mrail_tele_window_rate(const mrail_tele_window_t *win)
{
    return mrail_tele_sums_rate(&win->sums);
}

#endif
