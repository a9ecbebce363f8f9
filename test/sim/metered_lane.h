/*
 * One 400 Gb/s lane in virtual time, measured by windows of 1, 8 and 32 chunks,
 * while another flow comes and goes. This is the situation of [ICCL] 4.4,
 * figure 15.
 *
 * The paper gives the rate, the series (every 10 us), the windows, and the
 * arrival at 100 us. It states that the lane "converges to a lower and stable
 * throughput", but does not give the rates before that, the message size, or
 * the spread of completion times. This test assumes:
 *
 *   0 .. 100 us    the lane has the port to itself 100 .. 260 us  the other
 *   flow sends in bursts: four times, the lane has a
 *                  quarter of the rate for 20 us, then three quarters for 20 us
 *   260 .. 400 us  each has half of the rate
 *   400 .. 500 us  the other flow has ended
 *
 * Chunks of 64 KiB are posted back to back, and 32 are always in flight. At the
 * full rate a chunk takes 1.3 us, so one window of 8 takes about 10 us, as long
 * as a sample. The window of 32 is longer than a burst and its pause. A chunk
 * ends when its last byte has been served, and the next poll reports it. Polls
 * are 0.2 to 1 us apart. They cause the noise, because a late poll makes one
 * chunk look slow and the next one fast. The seed determines the polls, and
 * where in a chunk the disturbance begins.
 */
#ifndef TEST_SIM_METERED_LANE_H
#define TEST_SIM_METERED_LANE_H

#include "telemetry/window.h"

#define METERED_RATE 50e9 /* bytes/s */
#define METERED_SEGMENT 65536
#define METERED_DEPTH 32
#define METERED_POLL_MIN_NS 200
#define METERED_POLL_MAX_NS 1000
#define METERED_SAMPLE_NS (10 * MRAIL_NS_PER_US)
#define METERED_END_NS (500 * MRAIL_NS_PER_US)
#define METERED_POINTS 50

#define METERED_ARRIVE_NS (100 * MRAIL_NS_PER_US)
#define METERED_STABLE_NS (260 * MRAIL_NS_PER_US)
#define METERED_LEAVE_NS (400 * MRAIL_NS_PER_US)
/* Duration of a burst, and of the pause after it. */
#define METERED_BURST_NS (20 * MRAIL_NS_PER_US)
#define METERED_BURSTS 4

enum { METERED_W1, METERED_W8, METERED_W32, METERED_WINDOWS };

extern const unsigned metered_size[METERED_WINDOWS];

/* Rates of the windows at at_ns, in bytes/s. */
typedef struct metered_point {
    mrail_ns_t at_ns;
    double truth; /* rate of the lane in the last 10 us */
    double rate[METERED_WINDOWS];
    double meter; /* estimate of mrail_tele_window_t, as in the engine */
} metered_point_t;

/* Returns the lane's share of the port at `now_ns`, and when that share
 * ends. */
double metered_share(mrail_ns_t now_ns, mrail_ns_t *until_ns_p);

/* Fills in points[METERED_POINTS], at 10, 20, ... 500 us. The same seed gives
 * the same points. */
void metered_run(uint64_t seed, metered_point_t *points);

/* Results of one window. All except the delays are fractions of
 * METERED_RATE. */
typedef struct metered_result {
    /* Largest distance from the true rate between 50 and 100 us. */
    double worst;
    double square;         /* mean square of this distance */
    unsigned false_alarms; /* samples in that period below three quarters */
    mrail_ns_t seen_ns; /* from the arrival to a sample below three quarters */
    mrail_ns_t gone_ns; /* time from the end to a sample above three quarters */
    /* Number of falls below 0.5 followed by a rise above 0.65 while the other
     * flow is present. */
    unsigned dips;
    /* Largest rise above an earlier minimum while the other flow is present. */
    double rise;
    double stable_worst; /* largest distance between 350 and 400 us */
} metered_result_t;

void metered_check(const metered_point_t *points, unsigned window,
                   metered_result_t *result);

#endif
