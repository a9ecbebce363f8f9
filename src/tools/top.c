/* mrail top: what the rails of this user's processes do, from their telemetry
 * rings. */
#include "config.h"
#include "base/clock.h"
#include "tools/pages.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VERB "top"
#define LAST_EVENTS 8

static const char help_text[] =
    "Usage: mrail top [--interval S] [--count N] [--job NAME] [--json]\n"
    "       mrail top --clean\n"
    "\n"
    "Shows what each rail of this user's processes on this machine carries:\n"
    "\n"
    "  LANES    queue pairs that are up        MB/S   over the interval\n"
    "  OF       what the port can do           OUT    bytes under way\n"
    "  STALLED  share of the time in which work was outstanding on a lane and\n"
    "           nothing came back: the network, or the other end\n"
    "  IDLE     ... in which nothing was posted, while others had work\n"
    "\n"
    "and the last events. A process that was killed is shown as ended.\n"
    "\n"
    "  --interval S  seconds between two samples, 0.1 to 3600 (1)\n"
    "  --count N     samples, then end (on a terminal: go on; else 1)\n"
    "  --job NAME    only the processes of this job\n"
    "  --json        an object for each sample\n"
    "  --dir DIR     folder of the telemetry pages, instead of\n"
    "                UCX_MRAIL_TELEMETRY_DIR (" MRAIL_PAGE_DIR ")\n"
    "  --clean       remove what processes that were killed have left\n"
    "  -h, --help    this text\n"
    "\n"
    "Exit status: 0 done, 1 no process to show or failure, 2 usage.\n";

typedef struct top {
    const char *dir;
    const char *job;
    double interval_s;
    uint64_t count; /* 0: for ever */
    int json;
    int clean;
} top_t;

/* ---- what two samples tell ---- */

typedef struct top_rail {
    double bytes_per_s;
    double stalled; /* mean share of its lanes' time */
    double idle;
    uint64_t outstanding;
} top_rail_t;

static const mrail_page_lane_t *top_find_lane(const mrail_page_t *page,
                                              const mrail_page_lane_t *lane)
{
    for (unsigned i = 0; i < page->num_lanes; ++i) {
        const mrail_page_lane_t *other = &page->lanes[i];

        if ((other->peer == lane->peer) && (other->slot == lane->slot)) {
            return other;
        }
    }
    return NULL;
}

/* Of counters that may have begun anew. */
static double top_since(uint64_t before, uint64_t now)
{
    return (now > before) ? (double)(now - before) : 0;
}

/* `before`: NULL or the same process's earlier sample. */
static top_rail_t top_rail(const mrail_page_t *before, const mrail_page_t *now,
                           unsigned index)
{
    const mrail_page_lane_t *lane, *old;
    double elapsed_ns =
        (before != NULL) ? top_since(before->update_ns, now->update_ns) : 0;
    top_rail_t rail = {0};
    unsigned lanes = 0;

    for (unsigned i = 0; i < now->num_lanes; ++i) {
        lane = &now->lanes[i];
        old = (before != NULL) ? top_find_lane(before, lane) : NULL;
        if (lane->rail == index) {
            rail.outstanding += lane->outstanding;
            if (old != NULL) {
                ++lanes;
                rail.stalled += top_since(old->stalled_ns, lane->stalled_ns);
                rail.idle += top_since(old->idle_ns, lane->idle_ns);
            }
        }
    }
    if (elapsed_ns > 0) {
        rail.bytes_per_s =
            top_since(before->rails[index].bytes, now->rails[index].bytes) *
            MRAIL_NS_PER_SEC / elapsed_ns;
        rail.stalled /= elapsed_ns * MRAIL_MAX(lanes, 1u);
        rail.idle /= elapsed_ns * MRAIL_MAX(lanes, 1u);
    }
    return rail;
}

/* ---- as a table ---- */

static void top_print_process(const pages_t *before, const pages_item_t *item)
{
    const mrail_page_t *now = item->page;
    char who[PAGES_WHO];

    pages_who(who, sizeof(who), now);
    for (unsigned i = 0; i < now->num_rails; ++i) {
        const mrail_page_rail_t *rail = &now->rails[i];
        top_rail_t what = top_rail(pages_find(before, now), now, i);
        char device[48];

        snprintf(device, sizeof(device), "%s:%u", rail->device, rail->port);
        printf("%-10s %8u %-14.14s %-12s %5u %8.1f %7.0f %6.0f%% %5.0f%% %9llu"
               "%s\n",
               (i == 0) ? who : "", now->head.pid, (i == 0) ? now->program : "",
               device, rail->num_lanes, what.bytes_per_s / 1e6,
               (double)rail->nominal / 1e6, what.stalled * 100, what.idle * 100,
               (unsigned long long)what.outstanding,
               item->alive ? "" : "  ended");
    }
}

static void top_print_events(const pages_t *pages)
{
    pages_event_t *events;
    unsigned count = pages_events(pages, VERB, &events);
    char when[PAGES_TIME], who[PAGES_WHO];

    if (count > 0) {
        printf("\nlast events (all: mrail info --events)\n");
    }
    for (unsigned i = (count > LAST_EVENTS) ? count - LAST_EVENTS : 0;
         i < count; ++i) {
        pages_time(when, sizeof(when), events[i].event->time_ns);
        pages_who(who, sizeof(who), events[i].page);
        printf("%s  %-10s %s\n", when, who, events[i].event->text);
    }
    free(events);
}

static void top_print(const top_t *top, const pages_t *before,
                      const pages_t *now)
{
    const char *job = NULL;

    if (isatty(STDOUT_FILENO) && (top->count != 1)) {
        fputs("\033[H\033[2J", stdout);
    }
    for (unsigned i = 0; i < now->count; ++i) {
        const pages_item_t *item = &now->items[i];

        if ((job == NULL) || (strcmp(job, item->page->job) != 0)) {
            job = item->page->job;
            printf("%sjob %s\n%-10s %8s %-14s %-12s %5s %8s %7s %7s %6s %9s\n",
                   (i == 0) ? "" : "\n", (job[0] != '\0') ? job : "(none)",
                   "WHO", "PID", "PROGRAM", "RAIL", "LANES", "MB/S", "OF",
                   "STALLED", "IDLE", "OUT");
        }
        top_print_process(before, item);
    }
    top_print_events(now);
    fflush(stdout);
}

/* ---- as JSON ---- */

static void top_json_rails(const pages_t *before, const mrail_page_t *now)
{
    printf(", \"rails\": [");
    for (unsigned i = 0; i < now->num_rails; ++i) {
        const mrail_page_rail_t *rail = &now->rails[i];
        top_rail_t what = top_rail(pages_find(before, now), now, i);

        printf("%s{\"device\": ", (i == 0) ? "" : ", ");
        mrail_tool_json_string(stdout, rail->device);
        printf(", \"port\": %u, \"lanes\": %u, \"bytes\": %llu, "
               "\"bytes_per_s\": %.0f, \"nominal_bytes_per_s\": %llu, "
               "\"outstanding\": %llu, \"stalled\": %.3f, \"idle\": %.3f}",
               rail->port, rail->num_lanes, (unsigned long long)rail->bytes,
               what.bytes_per_s, (unsigned long long)rail->nominal,
               (unsigned long long)what.outstanding, what.stalled, what.idle);
    }
    printf("]");
}

static void top_json_lanes(const mrail_page_t *now)
{
    printf(", \"lanes\": [");
    for (unsigned i = 0; i < now->num_lanes; ++i) {
        const mrail_page_lane_t *lane = &now->lanes[i];

        printf("%s{\"peer\": \"%016llx\", \"lane\": %u, \"rail\": %u, "
               "\"sport\": %u, \"state\": ",
               (i == 0) ? "" : ", ", (unsigned long long)lane->peer, lane->slot,
               lane->rail, lane->sport);
        mrail_tool_json_string(stdout, lane->state);
        printf(", \"bytes\": %llu, \"window_bytes_per_s\": %llu, "
               "\"outstanding\": %llu, \"posted_s\": %.6f, \"done_s\": %.6f, "
               "\"stalled_s\": %.3f, \"idle_s\": %.3f}",
               (unsigned long long)lane->bytes, (unsigned long long)lane->rate,
               (unsigned long long)lane->outstanding,
               (double)lane->posted_ns / 1e9, (double)lane->done_ns / 1e9,
               (double)lane->stalled_ns / 1e9, (double)lane->idle_ns / 1e9);
    }
    printf("], \"lanes_not_shown\": %u", now->more_lanes);
}

static void top_json_counters(const mrail_page_t *now)
{
    printf(", \"counters\": {");
    for (unsigned i = 0; i < now->num_counters; ++i) {
        printf("%s", (i == 0) ? "" : ", ");
        mrail_tool_json_string(stdout, now->counters[i].name);
        printf(": %llu", (unsigned long long)now->counters[i].value);
    }
    printf("}");
}

static void top_json(const pages_t *before, const pages_t *now)
{
    printf("{\"time_s\": %.3f, \"processes\": [",
           (double)mrail_page_now() / 1e9);
    for (unsigned i = 0; i < now->count; ++i) {
        const mrail_page_t *page = now->items[i].page;

        printf("%s{\"job\": ", (i == 0) ? "" : ", ");
        mrail_tool_json_string(stdout, page->job);
        printf(", \"rank\": %d, \"pid\": %u, \"program\": ", page->rank,
               page->head.pid);
        mrail_tool_json_string(stdout, page->program);
        printf(", \"alive\": %s, \"start_s\": %.6f, \"update_s\": %.6f",
               now->items[i].alive ? "true" : "false",
               (double)page->start_ns / 1e9, (double)page->update_ns / 1e9);
        top_json_rails(before, page);
        top_json_lanes(page);
        top_json_counters(page);
        printf("}");
    }
    printf("]}\n");
    fflush(stdout);
}

/* ---- samples ---- */

static void top_sleep(double seconds)
{
    struct timespec t = {
        .tv_sec = (time_t)seconds,
        .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9),
    };

    while ((nanosleep(&t, &t) != 0) && (errno == EINTR)) {
    }
}

static int top_run(const top_t *top)
{
    pages_t before, now;

    pages_read(&before, VERB, top->dir, top->job, 1);
    if (before.count == 0) {
        fprintf(stderr,
                "mrail top: no process %s%s has telemetry in %s; it "
                "must run with UCX_TLS=mrail and UCX_MRAIL_TELEMETRY=y\n",
                (top->job != NULL) ? "of job " : "of this user",
                (top->job != NULL) ? top->job : "", top->dir);
        return MRAIL_TOOL_FAILED;
    }
    for (uint64_t i = 0; (top->count == 0) || (i < top->count); ++i) {
        top_sleep(top->interval_s);
        pages_read(&now, VERB, top->dir, top->job, 0);
        if (top->json) {
            top_json(&before, &now);
        } else {
            top_print(top, &before, &now);
        }
        pages_cleanup(&before);
        before = now;
    }
    pages_cleanup(&before);
    return 0;
}

static int top_clean(const top_t *top)
{
    int count = mrail_page_clean(top->dir, 0);

    if (count < 0) {
        mrail_tool_fail(VERB, "cannot read %s: %s", top->dir, strerror(-count));
    }
    printf("%d removed\n", count);
    return 0;
}

/* The value of "--name VALUE" or "--name=VALUE" at argv[*i_p]; NULL: it is
 * another word. */
static const char *top_value(char **argv, int *i_p, const char *name)
{
    const char *value = mrail_tool_option(argv, i_p, name);

    if (value == mrail_tool_no_value) {
        mrail_tool_usage(VERB, "%s needs a value", name);
    }
    return value;
}

static double top_interval(const char *text)
{
    char *end;
    double value = strtod(text, &end);

    if ((end == text) || (*end != '\0') || !(value >= 0.1) || (value > 3600)) {
        mrail_tool_usage(VERB, "--interval '%s': expected 0.1 to 3600 seconds",
                         text);
    }
    return value;
}

int main(int argc, char **argv)
{
    top_t top = {.interval_s = 1, .count = isatty(STDOUT_FILENO) ? 0 : 1};
    const char *text;

    for (int i = 1; i < argc; ++i) {
        mrail_tool_version(argv[i]);
        if (mrail_tool_is_help(argv[i])) {
            fputs(help_text, stdout);
            return 0;
        }
        if (strcmp(argv[i], "--json") == 0) {
            top.json = 1;
        } else if (strcmp(argv[i], "--clean") == 0) {
            top.clean = 1;
        } else if ((text = top_value(argv, &i, "--interval")) != NULL) {
            top.interval_s = top_interval(text);
        } else if ((text = top_value(argv, &i, "--count")) != NULL) {
            if (mrail_tool_parse_uint(text, 1, UINT32_MAX, &top.count) != 0) {
                mrail_tool_usage(VERB,
                                 "--count '%s': expected a number of "
                                 "samples",
                                 text);
            }
        } else if ((text = top_value(argv, &i, "--job")) != NULL) {
            top.job = text;
        } else if ((text = top_value(argv, &i, "--dir")) != NULL) {
            top.dir = text;
        } else {
            mrail_tool_usage(VERB, "unknown argument '%s'", argv[i]);
        }
    }
    top.dir = pages_dir(top.dir);
    return top.clean ? top_clean(&top) : top_run(&top);
}
