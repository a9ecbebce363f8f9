/* mrail top: what the rails of this user's processes do, from their telemetry
 * rings. */
#include "config.h"
#include "base/clock.h"
#include "tools/json.h"
#include "tools/options.h"
#include "tools/pages.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VERB "top"
#define LAST_EVENTS 8

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

static void top_json_rails(mrail_json_t *json, const pages_t *before,
                           const mrail_page_t *now)
{
    mrail_json_array(json, "rails");
    for (unsigned i = 0; i < now->num_rails; ++i) {
        const mrail_page_rail_t *rail = &now->rails[i];
        top_rail_t what = top_rail(pages_find(before, now), now, i);

        mrail_json_object(json, NULL);
        mrail_json_string(json, "device", rail->device);
        mrail_json_uint(json, "port", rail->port);
        mrail_json_uint(json, "lanes", rail->num_lanes);
        mrail_json_uint(json, "bytes", rail->bytes);
        mrail_json_fixed(json, "bytes_per_s", what.bytes_per_s, 0);
        mrail_json_uint(json, "nominal_bytes_per_s", rail->nominal);
        mrail_json_uint(json, "outstanding", what.outstanding);
        mrail_json_fixed(json, "stalled", what.stalled, 3);
        mrail_json_fixed(json, "idle", what.idle, 3);
        mrail_json_object_end(json);
    }
    mrail_json_array_end(json);
}

static void top_json_lanes(mrail_json_t *json, const mrail_page_t *now)
{
    char peer[20];

    mrail_json_array(json, "lanes");
    for (unsigned i = 0; i < now->num_lanes; ++i) {
        const mrail_page_lane_t *lane = &now->lanes[i];

        snprintf(peer, sizeof(peer), "%016llx", (unsigned long long)lane->peer);
        mrail_json_object(json, NULL);
        mrail_json_string(json, "peer", peer);
        mrail_json_uint(json, "lane", lane->slot);
        mrail_json_uint(json, "rail", lane->rail);
        mrail_json_uint(json, "sport", lane->sport);
        mrail_json_string(json, "state", lane->state);
        mrail_json_uint(json, "bytes", lane->bytes);
        mrail_json_uint(json, "window_bytes_per_s", lane->rate);
        mrail_json_uint(json, "outstanding", lane->outstanding);
        mrail_json_fixed(json, "posted_s", (double)lane->posted_ns / 1e9, 6);
        mrail_json_fixed(json, "done_s", (double)lane->done_ns / 1e9, 6);
        mrail_json_fixed(json, "stalled_s", (double)lane->stalled_ns / 1e9, 3);
        mrail_json_fixed(json, "idle_s", (double)lane->idle_ns / 1e9, 3);
        mrail_json_object_end(json);
    }
    mrail_json_array_end(json);
    mrail_json_uint(json, "lanes_not_shown", now->more_lanes);
}

static void top_json_process(mrail_json_t *json, const pages_t *before,
                             const pages_item_t *item)
{
    const mrail_page_t *page = item->page;

    mrail_json_object(json, NULL);
    mrail_json_string(json, "job", page->job);
    mrail_json_int(json, "rank", page->rank);
    mrail_json_uint(json, "pid", page->head.pid);
    mrail_json_string(json, "program", page->program);
    mrail_json_bool(json, "alive", item->alive);
    mrail_json_fixed(json, "start_s", (double)page->start_ns / 1e9, 6);
    mrail_json_fixed(json, "update_s", (double)page->update_ns / 1e9, 6);
    top_json_rails(json, before, page);
    top_json_lanes(json, page);
    mrail_json_object(json, "counters");
    for (unsigned i = 0; i < page->num_counters; ++i) {
        mrail_json_uint(json, page->counters[i].name, page->counters[i].value);
    }
    mrail_json_object_end(json);
    mrail_json_object_end(json);
}

static void top_json(const pages_t *before, const pages_t *now)
{
    mrail_json_t json = mrail_json_to(stdout);

    mrail_json_object(&json, NULL);
    mrail_json_fixed(&json, "time_s", (double)mrail_page_now() / 1e9, 3);
    mrail_json_array(&json, "processes");
    for (unsigned i = 0; i < now->count; ++i) {
        top_json_process(&json, before, &now->items[i]);
    }
    mrail_json_array_end(&json);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
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

#define FIELD(_name) offsetof(top_t, _name)

static const mrail_option_t top_options[] = {
    {"--interval", "TIME", "between two samples, 0.1 to 3600 seconds (1)",
     MRAIL_OPTION_SECONDS, FIELD(interval_s), 100, 3600000, NULL},
    {"--count", "N", "samples, then end (on a terminal: go on; else 1)",
     MRAIL_OPTION_UINT64, FIELD(count), 1, UINT32_MAX, NULL},
    {"--job", "NAME", "only the processes of this job", MRAIL_OPTION_TEXT,
     FIELD(job), 0, 0, NULL},
    {"--json", NULL, "an object for each sample", MRAIL_OPTION_FLAG,
     FIELD(json), 0, 0, NULL},
    {"--dir", "DIR",
     "folder of the telemetry pages, instead of UCX_MRAIL_TELEMETRY_DIR "
     "(" MRAIL_PAGE_DIR ")",
     MRAIL_OPTION_TEXT, FIELD(dir), 0, 0, NULL},
    {"--clean", NULL, "remove the pages of processes that were killed",
     MRAIL_OPTION_FLAG, FIELD(clean), 0, 0, NULL},
    {.names = NULL}};

static const char *const synopsis[] = {
    "[--interval TIME] [--count N] [--job NAME] [--json]", "--clean", NULL};

static const mrail_command_t command = {
    .verb = VERB,
    .synopsis = synopsis,
    .about =
        "Shows what each rail of this user's processes on this machine carries:\n"
        "\n"
        "  LANES    queue pairs that are up        MB/S   over the interval\n"
        "  OF       what the port can do           OUT    bytes in flight\n"
        "  STALLED  share of the time in which work was outstanding on a lane and\n"
        "           nothing came back: the network, or the other end\n"
        "  IDLE     ... in which nothing was posted, while others had work\n"
        "\n"
        "and the last events. A process that was killed is shown as ended.\n",
    .options = top_options,
    .epilog =
        "Exit status: 0 done, 1 no process to show or failure, 2 usage.\n"};

int main(int argc, char **argv)
{
    top_t top = {.interval_s = 1, .count = isatty(STDOUT_FILENO) ? 0 : 1};

    mrail_options_parse(&command, argv, &top);
    top.dir = pages_dir(top.dir);
    return top.clean ? top_clean(&top) : top_run(&top);
}
