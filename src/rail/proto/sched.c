#include "config.h"
#include "rail/proto/sched.h"

#include "base/util.h"

#include <math.h>

/* Returns the measured rate. Without one, returns the mean of the measured
 * lanes, or else the nominal rate. */
static double mrail_sched_rate(const mrail_sched_lane_t *lane, double mean)
{
    uint64_t rate = mrail_tele_window_rate(&lane->meter);

    if (rate != 0) {
        return (double)rate;
    }
    return (mean > 0) ? mean : (double)lane->nominal;
}

/* Returns the mean of the measured rates, or 0 if no lane was measured. */
static double mrail_sched_mean_rate(mrail_sched_lane_t *const *lanes,
                                    unsigned count)
{
    double sum = 0;
    unsigned n = 0;

    for (unsigned i = 0; i < count; ++i) {
        uint64_t rate = mrail_tele_window_rate(&lanes[i]->meter);

        sum += (double)rate;
        n += (rate != 0);
    }
    return (n == 0) ? 0 : (sum / n);
}

/* Returns the bytes in flight that are not done yet. Part of the oldest chunk,
 * which takes about MRAIL_SCHED_CHUNK_NS, counts as done. */
static double mrail_sched_backlog(const mrail_sched_lane_t *lane, double rate,
                                  mrail_ns_t now_ns)
{
    mrail_ns_t served_ns =
        (now_ns > lane->since_ns) ? now_ns - lane->since_ns : 0;
    double served;

    served_ns = MRAIL_MIN(served_ns, MRAIL_SCHED_CHUNK_NS);
    served = rate * (double)served_ns / MRAIL_NS_PER_SEC;
    return MRAIL_MAX((double)lane->inflight - served, 0.0);
}

/* Returns the size of the lane's next chunk. `left` is the number of bytes that
 * this lane will still carry. They are split into equal chunks, so that all
 * lanes finish together. */
static size_t mrail_sched_chunk(const mrail_sched_lane_t *lane, double rate,
                                double left, size_t limit, size_t equal_split,
                                const mrail_sched_params_t *params)
{
    double target, pieces;
    size_t chunk, grain;

    if (params->chunk != 0) {
        return MRAIL_MIN(params->chunk, limit);
    }
    if (params->alone) {
        target = rate * MRAIL_SCHED_ALONE_NS / MRAIL_NS_PER_SEC;
        target = MRAIL_MAX(target, MRAIL_SCHED_CHUNK_LOW);
        return (size_t)MRAIL_MIN(MRAIL_MIN(target, MRAIL_SCHED_CHUNK_ALONE),
                                 (double)limit);
    }
    if (lane->meter.sums.count == 0) {
        target = MRAIL_SCHED_CHUNK_LOW;
    } else {
        /* With an equal split, a part that is slightly larger than the other
         * parts remains one chunk. */
        target = rate * MRAIL_SCHED_CHUNK_NS / MRAIL_NS_PER_SEC;
        target =
            MRAIL_MAX(target, (double)equal_split * MRAIL_SCHED_EQUAL_RATES);
    }
    target = MRAIL_MIN(MRAIL_MAX(target, MRAIL_SCHED_CHUNK_LOW),
                       MRAIL_SCHED_CHUNK_MAX);
    if (left > MRAIL_SCHED_CHUNK_MIN) {
        pieces = (double)(size_t)((left + target - 1) / target);
        chunk = (size_t)(left / pieces);
    } else {
        chunk = MRAIL_SCHED_CHUNK_MIN;
    }
    /* Chunks are whole packets of the largest MTU. Equal parts stay equal and
     * start at a PCIe payload boundary. */
    grain = (equal_split != 0) ? 512 : 4096;
    return MRAIL_MIN((chunk + grain - 1) & ~(grain - 1), limit);
}

static size_t mrail_sched_window(const mrail_sched_lane_t *lane, double rate,
                                 size_t chunk,
                                 const mrail_sched_params_t *params)
{
    double window;

    if (params->window != 0) {
        return params->window;
    }
    if (lane->meter.sums.count == 0) {
        return 4 * MRAIL_SCHED_CHUNK_LOW;
    }
    window = rate * MRAIL_SCHED_WINDOW_NS / MRAIL_NS_PER_SEC;
    window = MRAIL_MAX(window, (double)lane->refill);
    window = MRAIL_MIN(window, MRAIL_SCHED_WINDOW_MAX);
    return MRAIL_MAX((size_t)window, 2 * chunk);
}

typedef struct mrail_sched_total {
    double mean;        /* bytes/s, mean of the measured lanes */
    double scale;       /* rate over nominal rate of each lane if the rates
                         * count as equal; otherwise 0 */
    double rate;        /* bytes/s, sum of the lanes that take part */
    double backlog;     /* bytes */
    size_t equal_split; /* params->equal_split, if it applies to these lanes;
                         * otherwise 0 */
    double least_s;     /* seconds; smallest mrail_sched_taken() */
} mrail_sched_total_t;

static int mrail_sched_takes_part(const mrail_sched_lane_t *lane)
{
    return lane->usable || (lane->inflight != 0);
}

/* Returns total->scale: nonzero if the rates of all lanes are nearly equal.
 * These lanes carry equal chunks, because rates on shared rails fluctuate. With
 * chunks in proportion to momentary rates, some lanes would finish early. */
static double mrail_sched_scale(mrail_sched_lane_t *const *lanes,
                                unsigned count, int has_rules)
{
    double tolerance =
        has_rules ? MRAIL_SCHED_EQUAL_RATES_RULES : MRAIL_SCHED_EQUAL_RATES;
    double least = 0, most = 0, rates = 0, nominal = 0;

    for (unsigned i = 0; i < count; ++i) {
        const mrail_sched_lane_t *lane = lanes[i];
        uint64_t rate = mrail_tele_window_rate(&lane->meter);
        double ratio;

        if (!mrail_sched_takes_part(lane)) {
            continue;
        }
        if ((rate == 0) || (lane->nominal == 0)) {
            return 0;
        }
        ratio = (double)rate / (double)lane->nominal;
        least = (rates == 0) ? ratio : MRAIL_MIN(least, ratio);
        most = MRAIL_MAX(most, ratio);
        rates += (double)rate;
        nominal += (double)lane->nominal;
    }
    return (most <= least * tolerance) && (nominal > 0) ? rates / nominal : 0;
}

/* Returns 1 if even the smallest chunk takes too long. */
static int mrail_sched_is_slow(double rate)
{
    return rate * MRAIL_SCHED_CHUNK_NS / MRAIL_NS_PER_SEC <
           MRAIL_SCHED_CHUNK_LOW;
}

static double mrail_sched_rate_of(const mrail_sched_lane_t *lane,
                                  const mrail_sched_total_t *total)
{
    return (total->scale > 0) ? (double)lane->nominal * total->scale
                              : mrail_sched_rate(lane, total->mean);
}

/* Returns the time for the lane's assigned bytes at its nominal rate, in
 * seconds. */
static double mrail_sched_taken(const mrail_sched_lane_t *lane,
                                const mrail_sched_params_t *params)
{
    return (double)(params->has_quota ? lane->quota_taken : lane->taken) /
           (double)lane->nominal;
}

/* Returns 1 if the lane is more than half a chunk ahead of the lane with the
 * fewest bytes. The bound applies only if the rates are nearly equal, because a
 * faulty lane would otherwise hold back all other lanes. */
static int mrail_sched_is_ahead(const mrail_sched_lane_t *lane, size_t chunk,
                                const mrail_sched_total_t *total,
                                const mrail_sched_params_t *params)
{
    return params->has_rules && (total->scale > 0) &&
           (mrail_sched_taken(lane, params) >
            total->least_s + (double)chunk / (double)lane->nominal / 2);
}

static void mrail_sched_sum(mrail_sched_lane_t *const *lanes, unsigned count,
                            const mrail_sched_params_t *params,
                            mrail_ns_t now_ns, mrail_sched_total_t *total)
{
    total->mean = mrail_sched_mean_rate(lanes, count);
    total->scale = (params->has_rules || (params->equal_split != 0))
                       ? mrail_sched_scale(lanes, count, params->has_rules)
                       : 0;
    total->equal_split = params->equal_split;
    if ((params->equal_split > MRAIL_SCHED_EQUAL_SPLIT_MAX) &&
        ((total->scale <= 0) || !mrail_sched_is_slow(total->mean))) {
        total->equal_split = 0;
        total->scale = params->has_rules ? total->scale : 0;
    }
    total->rate = 0;
    total->backlog = 0;
    total->least_s = INFINITY;
    for (unsigned i = 0; i < count; ++i) {
        if (mrail_sched_takes_part(lanes[i])) {
            double rate = mrail_sched_rate_of(lanes[i], total);

            total->rate += rate;
            total->least_s =
                MRAIL_MIN(total->least_s, mrail_sched_taken(lanes[i], params));
            total->backlog += mrail_sched_backlog(lanes[i], rate, now_ns);
        }
    }
}

int mrail_sched_pick(mrail_sched_lane_t *const *lanes, unsigned count,
                     size_t limit, size_t queued,
                     const mrail_sched_params_t *params, mrail_ns_t now_ns,
                     size_t *segment_p)
{
    mrail_sched_total_t total;
    double best_s = 0, best_slack_s = 0, all_s, work;
    int best = -1;

    mrail_sched_sum(lanes, count, params, now_ns, &total);
    work = total.backlog + (double)queued;
    for (unsigned i = 0; i < count; ++i) {
        const mrail_sched_lane_t *lane = lanes[i];
        double rate = mrail_sched_rate_of(lane, &total);
        double backlog = mrail_sched_backlog(lane, rate, now_ns), finish_s;
        size_t chunk, window;

        if (!lane->usable || (rate <= 0)) {
            continue;
        }
        chunk =
            mrail_sched_chunk(lane, rate, work * rate / total.rate - backlog,
                              limit, total.equal_split, params);
        window = mrail_sched_window(lane, rate, chunk, params);
        if (((lane->inflight != 0) && (lane->inflight + chunk > window)) ||
            mrail_sched_is_ahead(lane, chunk, &total, params)) {
            continue;
        }
        finish_s = (backlog + (double)chunk) / rate;
        if ((best < 0) || (finish_s < best_s)) {
            best = (int)i;
            best_s = finish_s;
            best_slack_s = (double)chunk / rate / 2;
            *segment_p = chunk;
        }
    }
    if (best < 0) {
        return -1;
    }
    /* Time to finish all work with all lanes busy. A lane that would finish
     * later leaves the work to a faster lane. If it has been idle for the time
     * of a chunk, however, the other lanes make no progress, so it takes the
     * work. */
    all_s = work / total.rate;
    if ((best_s > all_s + best_slack_s) && (total.backlog > 0) &&
        ((double)(now_ns - lanes[best]->meter.sums.last_ns) <
         best_s * MRAIL_NS_PER_SEC)) {
        return -1;
    }
    return best;
}

int mrail_sched_pick_whole(mrail_sched_lane_t *const *lanes, unsigned count,
                           size_t length)
{
    double mean = (count > 1) ? mrail_sched_mean_rate(lanes, count) : 0;
    double best_s = 0;
    int best = -1;

    for (unsigned i = 0; i < count; ++i) {
        double finish_s;

        if (!lanes[i]->usable) {
            continue;
        }
        finish_s = (double)(lanes[i]->inflight + length) /
                   mrail_sched_rate(lanes[i], mean);
        if ((best < 0) || (finish_s < best_s)) {
            best = (int)i;
            best_s = finish_s;
        }
    }
    return best;
}
