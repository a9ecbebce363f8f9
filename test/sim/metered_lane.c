#include "config.h"
#include "metered_lane.h"

#include "base/rng.h"
#include "base/util.h"

#include <math.h>
#include <string.h>

const unsigned metered_size[METERED_WINDOWS] = {1, 8, 32};

#define METERED_SIZE_MAX 32

typedef struct {
    struct {
        mrail_tele_sums_t sums;
        mrail_tele_sample_t samples[METERED_SIZE_MAX];
    } window[METERED_WINDOWS];
    mrail_tele_window_t meter;
    mrail_rng_t rng;
    /* Post times of the chunks in flight, starting at `first`. */
    mrail_ns_t post_ns[METERED_DEPTH];
    unsigned first;
    double end_ns; /* time at which the service of the first chunk ends */
} metered_lane_t;

double metered_share(mrail_ns_t now_ns, mrail_ns_t *until_ns_p)
{
    mrail_ns_t half;

    if (now_ns < METERED_ARRIVE_NS) {
        *until_ns_p = METERED_ARRIVE_NS;
        return 1;
    }
    if (now_ns < METERED_STABLE_NS) {
        half = (now_ns - METERED_ARRIVE_NS) / METERED_BURST_NS;
        *until_ns_p = METERED_ARRIVE_NS + (half + 1) * METERED_BURST_NS;
        return ((half % 2) == 0) ? 0.25 : 0.75;
    }
    if (now_ns < METERED_LEAVE_NS) {
        *until_ns_p = METERED_LEAVE_NS;
        return 0.5;
    }
    *until_ns_p = MRAIL_NS_NEVER;
    return 1;
}

/* Returns the time at which the service of a chunk ends if it begins at
 * from_ns. */
static double metered_serve(double from_ns)
{
    double left = METERED_SEGMENT;

    for (;;) {
        mrail_ns_t until_ns;
        double share = metered_share((mrail_ns_t)from_ns, &until_ns);
        double per_ns = share * METERED_RATE / MRAIL_NS_PER_SEC;
        double residual = ((double)until_ns - from_ns) * per_ns;

        if (left <= residual) {
            return from_ns + left / per_ns;
        }
        left -= residual;
        from_ns = (double)until_ns;
    }
}

/* Returns the mean rate of the lane from from_ns to to_ns, in bytes per
 * second. */
static double metered_truth(mrail_ns_t from_ns, mrail_ns_t to_ns)
{
    double sum = 0;
    mrail_ns_t now_ns = from_ns, until_ns;

    while (now_ns < to_ns) {
        double share = metered_share(now_ns, &until_ns);

        until_ns = MRAIL_MIN(until_ns, to_ns);
        sum += share * (double)(until_ns - now_ns);
        now_ns = until_ns;
    }
    return METERED_RATE * sum / (double)(to_ns - from_ns);
}

/* Processes completions and posts the same number of chunks. */
static void metered_poll(metered_lane_t *lane, mrail_ns_t now_ns)
{
    while (lane->end_ns <= (double)now_ns) {
        mrail_ns_t *post_ns = &lane->post_ns[lane->first];

        for (unsigned i = 0; i < METERED_WINDOWS; ++i) {
            mrail_tele_sums_add(&lane->window[i].sums, lane->window[i].samples,
                                metered_size[i], METERED_SEGMENT, *post_ns,
                                now_ns);
        }
        mrail_tele_window_add(&lane->meter, METERED_SEGMENT, *post_ns, now_ns);
        *post_ns = now_ns;
        lane->first = (lane->first + 1) % METERED_DEPTH;
        lane->end_ns = metered_serve(lane->end_ns);
    }
}

static void metered_sample(const metered_lane_t *lane, mrail_ns_t at_ns,
                           metered_point_t *point)
{
    point->at_ns = at_ns;
    point->truth = metered_truth(at_ns - METERED_SAMPLE_NS, at_ns);
    for (unsigned i = 0; i < METERED_WINDOWS; ++i) {
        point->rate[i] = (double)mrail_tele_sums_rate(&lane->window[i].sums);
    }
    point->meter = (double)mrail_tele_window_rate(&lane->meter);
}

void metered_run(uint64_t seed, metered_point_t *points)
{
    metered_lane_t lane;
    mrail_ns_t now_ns = 0, sample_ns = METERED_SAMPLE_NS;

    memset(&lane, 0, sizeof(lane));
    mrail_rng_init(&lane.rng, seed);
    lane.end_ns =
        metered_serve(mrail_rng_below(&lane.rng, (uint32_t)metered_serve(0)));
    while (sample_ns <= METERED_END_NS) {
        now_ns += METERED_POLL_MIN_NS +
                  mrail_rng_below(&lane.rng, METERED_POLL_MAX_NS -
                                                 METERED_POLL_MIN_NS + 1);
        for (; (sample_ns < now_ns) && (sample_ns <= METERED_END_NS);
             sample_ns += METERED_SAMPLE_NS) {
            metered_sample(&lane, sample_ns, points++);
        }
        metered_poll(&lane, now_ns);
    }
}

/* Computes the largest distance from the true rate and the mean square of the
 * distance, in (from_ns, to_ns]. */
static void metered_distance(const metered_point_t *points, unsigned window,
                             mrail_ns_t from_ns, mrail_ns_t to_ns,
                             double *worst_p, double *square_p)
{
    double worst = 0, square = 0;
    unsigned count = 0;

    for (unsigned i = 0; i < METERED_POINTS; ++i) {
        const metered_point_t *point = &points[i];
        double off = (point->rate[window] - point->truth) / METERED_RATE;

        if ((point->at_ns > from_ns) && (point->at_ns <= to_ns)) {
            worst = MRAIL_MAX(worst, fabs(off));
            square += off * off;
            ++count;
        }
    }
    *worst_p = worst;
    *square_p = square / count;
}

/* Returns the time from after_ns to the first sample on the given side of three
 * quarters of the rate. */
static mrail_ns_t metered_delay(const metered_point_t *points, unsigned window,
                                mrail_ns_t after_ns, int below)
{
    for (unsigned i = 0; i < METERED_POINTS; ++i) {
        double part = points[i].rate[window] / METERED_RATE;

        if ((points[i].at_ns > after_ns) &&
            (below ? (part < 0.75) : (part > 0.75))) {
            return points[i].at_ns - after_ns;
        }
    }
    return MRAIL_NS_NEVER;
}

static void metered_shape(const metered_point_t *points, unsigned window,
                          metered_result_t *result)
{
    double low = HUGE_VAL;
    int down = 0;

    result->dips = 0;
    result->rise = 0;
    for (unsigned i = 0; i < METERED_POINTS; ++i) {
        const metered_point_t *point = &points[i];
        double part = point->rate[window] / METERED_RATE;

        if ((point->at_ns <= METERED_ARRIVE_NS) ||
            (point->at_ns > METERED_LEAVE_NS)) {
            continue;
        }
        low = MRAIL_MIN(low, part);
        result->rise = MRAIL_MAX(result->rise, part - low);
        if (!down && (part < 0.5)) {
            down = 1;
        } else if (down && (part > 0.65)) {
            down = 0;
            ++result->dips;
        }
    }
}

void metered_check(const metered_point_t *points, unsigned window,
                   metered_result_t *result)
{
    double unused;

    metered_distance(points, window, METERED_ARRIVE_NS / 2, METERED_ARRIVE_NS,
                     &result->worst, &result->square);
    metered_distance(points, window, METERED_LEAVE_NS - METERED_ARRIVE_NS / 2,
                     METERED_LEAVE_NS, &result->stable_worst, &unused);
    result->false_alarms = 0;
    for (unsigned i = 0; i < METERED_POINTS; ++i) {
        result->false_alarms += (points[i].at_ns > METERED_ARRIVE_NS / 2) &&
                                (points[i].at_ns <= METERED_ARRIVE_NS) &&
                                (points[i].rate[window] < 0.75 * METERED_RATE);
    }
    result->seen_ns = metered_delay(points, window, METERED_ARRIVE_NS, 1);
    result->gone_ns = metered_delay(points, window, METERED_LEAVE_NS, 0);
    metered_shape(points, window, result);
}
