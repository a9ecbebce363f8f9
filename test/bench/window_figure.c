/*
 * The figure of the throughput window: a lane of 400 Gb/s in virtual time that
 * another flow disturbs (test/sim/metered_lane.h), as W = 1, 8 and 32 see it.
 *
 *     window_figure SEED [FILE.svg]
 *
 * Prints "NAME W VALUE" lines of what `contrib/bench window` judges.
 */
#include "config.h"
#include "metered_lane.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The page, in pixels: three panels, one above the other. */
#define WIDTH 900
#define HEIGHT 880
#define LEFT 78
#define RIGHT 872
#define TOP 164
#define PANEL 190 /* height */
#define PITCH 226 /* from one to the next */
#define MAX_GBPS 800.0
#define END_US 500.0

static const char *const color[METERED_WINDOWS] = {"#c2571a", "#1f5fa8",
                                                   "#2b7d4f"};
static const char *const remark[METERED_WINDOWS] = {
    "each chunk for itself: noise and bursts look alike",
    "what mrail uses: every burst is seen",
    "the bursts are gone: one step, late",
};

static double gbps(double bytes_per_s)
{
    return bytes_per_s * 8e-9;
}

static double x_of(mrail_ns_t at_ns)
{
    return LEFT + (double)at_ns / MRAIL_NS_PER_US / END_US * (RIGHT - LEFT);
}

/* From the bottom of a panel up. */
static double y_of(double value_gbps)
{
    return PANEL - value_gbps / MAX_GBPS * PANEL;
}

static void text(FILE *out, double x, double y, const char *attributes,
                 const char *content)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, attributes,
            content);
}

static void put_head(FILE *out, uint64_t seed)
{
    char line[200];

    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
            "height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"Helvetica, "
            "Arial, DejaVu Sans, sans-serif\" font-size=\"13\" "
            "fill=\"#222\">\n<rect width=\"%d\" height=\"%d\" "
            "fill=\"#fff\"/>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT);
    text(out, LEFT, 32, "font-size=\"19\" font-weight=\"bold\"",
         "Throughput of one lane, measured over its last W chunks");
    snprintf(line, sizeof(line),
             "Virtual time, %.0f Gb/s, chunks of %d KiB posted back to back, "
             "sampled every %llu &#181;s, seed %llu;",
             gbps(METERED_RATE), METERED_SEGMENT / 1024,
             (unsigned long long)(METERED_SAMPLE_NS / MRAIL_NS_PER_US),
             (unsigned long long)seed);
    text(out, LEFT, 55, "font-size=\"12\" fill=\"#555\"", line);
    snprintf(line, sizeof(line),
             "completions are seen by polls that are %.1f to %.1f &#181;s "
             "apart.  After ICCL, figure 15.",
             METERED_POLL_MIN_NS / 1e3, METERED_POLL_MAX_NS / 1e3);
    text(out, LEFT, 72, "font-size=\"12\" fill=\"#555\"", line);
}

static void put_legend(FILE *out)
{
    double x = LEFT;

    fprintf(out,
            "<rect x=\"%.1f\" y=\"90\" width=\"26\" height=\"12\" "
            "fill=\"#dcdfe4\"/><path d=\"M%.1f 90h26\" stroke=\"#8a919c\" "
            "stroke-width=\"1.5\"/>\n",
            x, x);
    text(out, x + 33, 101, "", "true rate");
    x += 124;
    for (unsigned i = 0; i < METERED_WINDOWS; ++i, x += 100) {
        char label[20];

        fprintf(out,
                "<path d=\"M%.1f 96h26\" stroke=\"%s\" stroke-width=\"2\"/>"
                "<circle cx=\"%.1f\" cy=\"96\" r=\"2.6\" fill=\"%s\"/>\n",
                x, color[i], x + 13, color[i]);
        snprintf(label, sizeof(label), "W = %u", metered_size[i]);
        text(out, x + 33, 101, "", label);
    }
    fprintf(out, "<path d=\"M%.1f 101l4.5 -9l4.5 9z\" fill=\"#555\"/>\n",
            x + 6);
    text(out, x + 22, 101, "", "off the scale");
}

/* Labels of the phases, above the first panel. */
static void put_phases(FILE *out)
{
    static const struct {
        mrail_ns_t from_ns, to_ns;
        const char *name;
    } phases[] = {
        {0, METERED_ARRIVE_NS, "alone"},
        {METERED_ARRIVE_NS, METERED_STABLE_NS, "another flow, in bursts"},
        {METERED_STABLE_NS, METERED_LEAVE_NS, "both have half"},
        {METERED_LEAVE_NS, METERED_END_NS, "alone"},
    };

    for (unsigned i = 0; i < sizeof(phases) / sizeof(phases[0]); ++i) {
        double from = x_of(phases[i].from_ns), to = x_of(phases[i].to_ns);

        text(out, (from + to) / 2, TOP - 30,
             "text-anchor=\"middle\" font-size=\"12\" fill=\"#555\"",
             phases[i].name);
        for (unsigned k = 0; (i != 0) && (k < METERED_WINDOWS); ++k) {
            fprintf(out,
                    "<path d=\"M%.1f %uv%d\" stroke=\"#b3b8c0\" "
                    "stroke-dasharray=\"3 4\"/>\n",
                    from, TOP + k * PITCH, PANEL);
        }
    }
}

static void put_truth(FILE *out)
{
    mrail_ns_t now_ns = 0, until_ns;
    double share = metered_share(0, &until_ns);

    fprintf(out, "<path d=\"M%.1f %.1f", x_of(0), PANEL + 0.0);
    while (now_ns < METERED_END_NS) {
        share = metered_share(now_ns, &until_ns);
        now_ns = (until_ns < METERED_END_NS) ? until_ns : METERED_END_NS;
        fprintf(out, "V%.1fH%.1f", y_of(share * gbps(METERED_RATE)),
                x_of(now_ns));
    }
    fprintf(out,
            "V%dH%dz\" fill=\"#dcdfe4\" stroke=\"#8a919c\" "
            "stroke-width=\"1\"/>\n",
            PANEL, LEFT);
}

static void put_axes(FILE *out, int last)
{
    char label[20];

    for (int value = 0; value <= (int)MAX_GBPS; value += 200) {
        double y = y_of(value);

        fprintf(out, "<path d=\"M%d %.1fH%d\" stroke=\"%s\"/>\n", LEFT, y,
                RIGHT, (value == 0) ? "#444" : "#e9ebee");
        snprintf(label, sizeof(label), "%d", value);
        text(out, LEFT - 9, y + 4.5, "text-anchor=\"end\"", label);
    }
    fprintf(out, "<path d=\"M%d 0V%d\" stroke=\"#444\"/>\n", LEFT, PANEL);
    fprintf(out,
            "<text transform=\"translate(%d %d) rotate(-90)\" "
            "text-anchor=\"middle\">Gb/s</text>\n",
            LEFT - 50, PANEL / 2);
    for (int us = 0; us <= (int)END_US; us += 50) {
        double x = x_of((mrail_ns_t)us * MRAIL_NS_PER_US);

        fprintf(out, "<path d=\"M%.1f %dv5\" stroke=\"#444\"/>\n", x, PANEL);
        if (last) {
            snprintf(label, sizeof(label), "%d", us);
            text(out, x, PANEL + 20, "text-anchor=\"middle\"", label);
        }
    }
    if (last) {
        text(out, (LEFT + RIGHT) / 2.0, PANEL + 42, "text-anchor=\"middle\"",
             "time (&#181;s)");
    }
}

/* A sample above the scale is a triangle at its top. */
static void put_series(FILE *out, const metered_point_t *points, unsigned i)
{
    fprintf(out,
            "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" "
            "stroke-linejoin=\"round\" points=\"",
            color[i]);
    for (unsigned k = 0; k < METERED_POINTS; ++k) {
        fprintf(out, "%.1f,%.1f ", x_of(points[k].at_ns),
                y_of(fmin(gbps(points[k].rate[i]), MAX_GBPS)));
    }
    fprintf(out, "\"/>\n<g fill=\"%s\">", color[i]);
    for (unsigned k = 0; k < METERED_POINTS; ++k) {
        double value = gbps(points[k].rate[i]), x = x_of(points[k].at_ns);

        if (value > MAX_GBPS) {
            fprintf(out, "<path d=\"M%.1f 5l4.5 -9l4.5 9z\"/>", x - 4.5);
        } else {
            fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\"/>", x,
                    y_of(value));
        }
    }
    fputs("</g>\n", out);
}

static void put_panel(FILE *out, const metered_point_t *points, unsigned i)
{
    char line[120];

    fprintf(out, "<g transform=\"translate(0 %u)\">\n", TOP + i * PITCH);
    put_axes(out, i == METERED_WINDOWS - 1);
    put_truth(out);
    put_series(out, points, i);
    snprintf(line, sizeof(line),
             "<tspan font-weight=\"bold\" fill=\"%s\">W = %u</tspan>: %s",
             color[i], metered_size[i], remark[i]);
    text(out, LEFT + 4, -9, "", line);
    fputs("</g>\n", out);
}

static int write_svg(const char *path, uint64_t seed,
                     const metered_point_t *points)
{
    FILE *out = fopen(path, "w");
    int bad;

    if (out == NULL) {
        fprintf(stderr, "window_figure: %s: %s\n", path, strerror(errno));
        return -1;
    }
    put_head(out, seed);
    put_legend(out);
    for (unsigned i = 0; i < METERED_WINDOWS; ++i) {
        put_panel(out, points, i);
    }
    put_phases(out);
    fputs("</svg>\n", out);
    bad = ferror(out);
    if ((fclose(out) != 0) || bad) {
        fprintf(stderr, "window_figure: %s cannot be written\n", path);
        return -1;
    }
    return 0;
}

static void print_result(const metered_point_t *points)
{
    for (unsigned i = 0; i < METERED_WINDOWS; ++i) {
        metered_result_t result;

        metered_check(points, i, &result);
        printf("noise %u %.4f\n", metered_size[i], 100 * sqrt(result.square));
        printf("worst %u %.4f\n", metered_size[i], 100 * result.worst);
        printf("seen_us %u %llu\n", metered_size[i],
               (unsigned long long)(result.seen_ns / MRAIL_NS_PER_US));
        printf("dips %u %u\n", metered_size[i], result.dips);
        printf("rise %u %.4f\n", metered_size[i], 100 * result.rise);
    }
}

int main(int argc, char **argv)
{
    metered_point_t points[METERED_POINTS];
    uint64_t seed;
    char *end;

    if ((argc < 2) || (argc > 3)) {
        fputs("usage: window_figure SEED [FILE.svg]\n", stderr);
        return 2;
    }
    errno = 0;
    seed = strtoull(argv[1], &end, 10);
    if ((*end != '\0') || (end == argv[1]) || (errno != 0)) {
        fprintf(stderr, "window_figure: SEED '%s' is not a number\n", argv[1]);
        return 2;
    }
    metered_run(seed, points);
    if ((argc == 3) && (write_svg(argv[2], seed, points) != 0)) {
        return 1;
    }
    print_result(points);
    return (fflush(stdout) == 0) ? 0 : 1;
}
