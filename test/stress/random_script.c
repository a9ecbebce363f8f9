#include "config.h"
#include "random_script.h"

#include "base/rng.h"
#include "base/util.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LINES 12
#define LASTING 10 /* maximum duration of a fault, in spans */

const char *const random_script_names[RANDOM_SCRIPT_KINDS] = {
    [RANDOM_SCRIPT_PASSES] = "passes",
    [RANDOM_SCRIPT_SURVIVOR] = "survivor",
    [RANDOM_SCRIPT_CUT] = "cut",
};

typedef struct line {
    uint32_t at_us; /* 0 if it starts after a number of packets or bytes */
    unsigned order; /* preserves the order of lines with the same time */
    char text[128];
    size_t length;
} line_t;

typedef struct writer {
    mrail_rng_t rng;
    line_t lines[MAX_LINES + 16 + 1];
    unsigned num_lines;
} writer_t;

static void add(writer_t *w, const char *format, ...) MRAIL_PRINTF(2, 3);

/* Appends text to the last line. */
static void add(writer_t *w, const char *format, ...)
{
    line_t *line = &w->lines[w->num_lines - 1];
    va_list ap;

    va_start(ap, format);
    line->length +=
        (size_t)vsnprintf(line->text + line->length,
                          sizeof(line->text) - line->length, format, ap);
    va_end(ap);
}

static void begin_at(writer_t *w, uint32_t at_us)
{
    w->lines[w->num_lines++].at_us = at_us;
    add(w, "at %uus", at_us);
}

static uint32_t below(writer_t *w, uint32_t bound)
{
    return mrail_rng_below(&w->rng, bound);
}

/* Disturbs a rail. Some packets still arrive. */
static void degrade(writer_t *w)
{
    switch (below(w, 6)) {
    case 0:
        add(w, "drop %u%%", 1 + below(w, 3));
        break;
    case 1:
        add(w, "delay %uus", 1 + below(w, 3000));
        break;
    case 2:
        add(w, "duplicate %u%%", 1 + below(w, 50));
        break;
    case 3:
        add(w, "reorder %u%% %uus", 1 + below(w, 20), 1 + below(w, 500));
        break;
    case 4:
        add(w, "corrupt %u%%", 1 + below(w, 3));
        break;
    default:
        add(w, "rate %uM", 1 + below(w, 100));
        break;
    }
}

/* Stops a rail completely. */
static void stop(writer_t *w)
{
    static const char *const ways[] = {
        "down",      "blackhole tx", "blackhole rx", "blackhole both",
        "drop_acks", "pause",        "drop 30%"};

    add(w, "%s", ways[below(w, MRAIL_ARRAY_SIZE(ways))]);
}

static void begin_random(writer_t *w, uint32_t span_us)
{
    uint32_t what = below(w, 6);

    if (what > 1) {
        begin_at(w, below(w, span_us));
        return;
    }
    ++w->num_lines;
    if (what == 0) {
        add(w, "at packet %u", 1 + below(w, 300));
    } else {
        add(w, "at byte %u", 1 + below(w, 300000));
    }
}

static void for_random(writer_t *w, uint32_t span_us)
{
    add(w, " for %uus",
        1 + below(w, span_us * (below(w, 4) == 0 ? LASTING : 1)));
}

static void where_random(writer_t *w, unsigned num_rails)
{
    if (below(w, 2)) {
        add(w, " node %u", below(w, 2));
    }
    if (below(w, 4) != 0) {
        add(w, " rail %u", below(w, num_rails));
    }
    add(w, " ");
}

static void line_that_passes(writer_t *w, unsigned num_rails, uint32_t span_us)
{
    unsigned what = below(w, 10);

    begin_random(w, span_us);
    if (what == 0) { /* this fault is an event instead of a state */
        where_random(w, num_rails);
        add(w, "qp_error %u", 1 + below(w, 3));
    } else {
        for_random(w, span_us);
        where_random(w, num_rails);
        if (what < 5) {
            stop(w);
        } else {
            degrade(w);
        }
    }
}

static void lines_of_survivor(writer_t *w, unsigned num_rails, uint32_t span_us)
{
    static const char *const ends[] = {"down", "blackhole both", "down",
                                       "blackhole rx", "drop_acks"};
    unsigned survivor = below(w, num_rails);

    for (unsigned rail = 0; rail < num_rails; ++rail) {
        begin_random(w, span_us);
        if (rail == survivor) {
            for_random(w, span_us);
            add(w, " rail %u ", rail);
            degrade(w);
        } else {
            add(w, " node %u rail %u %s", below(w, 2), rail,
                ends[below(w, MRAIL_ARRAY_SIZE(ends))]);
        }
    }
}

static void lines_of_cut(writer_t *w, uint32_t span_us)
{
    begin_at(w, below(w, span_us));
    add(w, " node %u %s", below(w, 2), below(w, 2) ? "down" : "blackhole both");
}

static int by_time(const void *a, const void *b)
{
    const line_t *one = a, *other = b;

    if (one->at_us != other->at_us) {
        return (one->at_us > other->at_us) ? 1 : -1;
    }
    return (one->order > other->order) - (one->order < other->order);
}

void random_script(uint64_t seed, random_script_kind_t kind, unsigned num_rails,
                   uint32_t span_us, char text[RANDOM_SCRIPT_MAX])
{
    writer_t w = {.num_lines = 0};
    unsigned lines, length;

    mrail_rng_init(&w.rng, mrail_mix64(seed));
    length = (unsigned)snprintf(text, RANDOM_SCRIPT_MAX, "seed %u\n",
                                below(&w, 1000000));
    lines = 1 + below(&w, MAX_LINES);
    while (lines-- != 0) {
        line_that_passes(&w, num_rails, span_us);
    }
    switch (kind) {
    case RANDOM_SCRIPT_SURVIVOR:
        lines_of_survivor(&w, num_rails, span_us);
        break;
    case RANDOM_SCRIPT_CUT:
        lines_of_cut(&w, span_us);
        break;
    default:
        begin_at(&w, (1 + LASTING) * span_us);
        add(&w, " clear");
        break;
    }
    for (unsigned i = 0; i < w.num_lines; ++i) {
        w.lines[i].order = i;
    }
    qsort(w.lines, w.num_lines, sizeof(w.lines[0]), by_time);
    for (unsigned i = 0; i < w.num_lines; ++i) {
        const line_t *line = &w.lines[i];

        if (length + line->length + 2 > RANDOM_SCRIPT_MAX) {
            abort(); /* RANDOM_SCRIPT_MAX is too small */
        }
        memcpy(text + length, line->text, line->length);
        length += (unsigned)line->length;
        text[length++] = '\n';
    }
    text[length] = '\0';
}
