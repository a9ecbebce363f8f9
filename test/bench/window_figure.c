/*
 * Produces the data for the throughput-window figure: a 400 Gb/s lane in
 * virtual time, disturbed by another flow (test/sim/metered_lane.h). Windows of
 * 1, 8 and 32 chunks measure the lane.
 *
 *     window_figure SEED
 *
 * Prints one JSON object. It contains the settings, the results that
 * `contrib/bench window` compares with their targets, the true rate, and the
 * samples of each window.
 */
#include "config.h"
#include "metered_lane.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double gbps(double bytes_per_s)
{
    return bytes_per_s * 8e-9;
}

static double us(mrail_ns_t ns)
{
    return (double)ns / MRAIL_NS_PER_US;
}

static void print_settings(uint64_t seed)
{
    printf("{\"seed\": %llu, \"rate_gbps\": %g, \"segment_bytes\": %d, "
           "\"sample_us\": %g, \"poll_min_us\": %g, \"poll_max_us\": %g,\n"
           " \"arrive_us\": %g, \"stable_us\": %g, \"leave_us\": %g, "
           "\"end_us\": %g,\n",
           (unsigned long long)seed, gbps(METERED_RATE), METERED_SEGMENT,
           us(METERED_SAMPLE_NS), us(METERED_POLL_MIN_NS),
           us(METERED_POLL_MAX_NS), us(METERED_ARRIVE_NS),
           us(METERED_STABLE_NS), us(METERED_LEAVE_NS), us(METERED_END_NS));
}

/* Prints {"1": VALUE, "8": VALUE, "32": VALUE}, with one value per window. */
static void print_windows(const char *name, const double *values,
                          const char *after)
{
    printf("\"%s\": {", name);
    for (unsigned i = 0; i < METERED_WINDOWS; ++i) {
        printf("%s\"%u\": %.4f", (i > 0) ? ", " : "", metered_size[i],
               values[i]);
    }
    printf("}%s", after);
}

static void print_results(const metered_point_t *points)
{
    double noise[METERED_WINDOWS], worst[METERED_WINDOWS];
    double seen_us[METERED_WINDOWS], dips[METERED_WINDOWS];
    double rise[METERED_WINDOWS];

    for (unsigned i = 0; i < METERED_WINDOWS; ++i) {
        metered_result_t result;

        metered_check(points, i, &result);
        noise[i] = 100 * sqrt(result.square);
        worst[i] = 100 * result.worst;
        seen_us[i] = us(result.seen_ns);
        dips[i] = result.dips;
        rise[i] = 100 * result.rise;
    }
    printf(" \"results\": {");
    print_windows("noise", noise, ",\n  ");
    print_windows("worst", worst, ",\n  ");
    print_windows("seen_us", seen_us, ",\n  ");
    print_windows("dips", dips, ",\n  ");
    print_windows("rise", rise, "},\n");
}

/* Prints the true rate as [from_us, gbps] for each step. */
static void print_truth(void)
{
    mrail_ns_t now_ns = 0, until_ns;

    printf(" \"truth\": [");
    while (now_ns < METERED_END_NS) {
        double share = metered_share(now_ns, &until_ns);

        printf("%s[%g, %g]", (now_ns > 0) ? ", " : "", us(now_ns),
               share * gbps(METERED_RATE));
        now_ns = until_ns;
    }
    printf("],\n");
}

/* Prints the samples of each window as [at_us, gbps]. */
static void print_series(const metered_point_t *points)
{
    printf(" \"series\": {");
    for (unsigned i = 0; i < METERED_WINDOWS; ++i) {
        printf("%s\n  \"%u\": [", (i > 0) ? "," : "", metered_size[i]);
        for (unsigned k = 0; k < METERED_POINTS; ++k) {
            printf("%s[%g, %.1f]", (k > 0) ? ", " : "", us(points[k].at_ns),
                   gbps(points[k].rate[i]));
        }
        printf("]");
    }
    printf("}}\n");
}

int main(int argc, char **argv)
{
    metered_point_t points[METERED_POINTS];
    uint64_t seed;
    char *end;

    if (argc != 2) {
        fputs("usage: window_figure SEED\n", stderr);
        return 2;
    }
    errno = 0;
    seed = strtoull(argv[1], &end, 10);
    if ((*end != '\0') || (end == argv[1]) || (errno != 0)) {
        fprintf(stderr, "window_figure: SEED '%s' is not a number\n", argv[1]);
        return 2;
    }
    metered_run(seed, points);
    print_settings(seed);
    print_results(points);
    print_truth();
    print_series(points);
    return (fflush(stdout) == 0) ? 0 : 1;
}
