/* mrail top shows activity on the rails of this user's processes, from their
 * telemetry pages. This file handles options, samples and keys. */
#include "config.h"
#include "base/number.h"
#include "tools/collect_view.h"
#include "tools/options.h"
#include "tools/pages.h"
#include "tools/tool.h"
#include "tools/top_screen.h"
#include "tools/top_show.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COMMAND "top"

typedef struct top {
    const char *dir;
    const char *archive;  /* NULL for pages of this machine */
    collect_view_t *view; /* view of the archive */
    const char *job;
    double interval_s;
    uint64_t count; /* 0 for no limit */
    top_filter_t filter;
    unsigned order; /* top_order_t */
    int json, lanes, clean;
} top_t;

/* ---- Samples ---- */

static void top_sleep(double seconds)
{
    struct timespec t = {
        .tv_sec = (time_t)seconds,
        .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9),
    };

    while ((nanosleep(&t, &t) != 0) && (errno == EINTR)) {
    }
}

/* Reads the pages on this machine or in an archive. */
static void top_read(const top_t *top, pages_t *pages, int warn)
{
    pages_read(pages, COMMAND, top->dir, top->job, warn);
    if (top->view != NULL) {
        pages->hosts = top->view->hosts;
        pages->num_hosts = top->view->manifest.num_hosts;
        pages->time_ns = top->view->manifest.time_ns;
    }
}

static void top_print(const top_t *top, const pages_t *before,
                      const pages_t *now)
{
    if (top->json) {
        top_json(before, now, &top->filter);
    } else if (top->lanes) {
        top_lanes(stdout, now, &top->filter);
    } else {
        top_table(stdout, before, now, &top->filter, top->order);
    }
    fflush(stdout);
}

/* Prints one sample after the other as scrolling text. */
static void top_scroll(const top_t *top, pages_t *before)
{
    pages_t now;

    for (uint64_t i = 0; (top->count == 0) || (i < top->count); ++i) {
        top_sleep(top->interval_s);
        top_read(top, &now, 0);
        top_print(top, before, &now);
        pages_cleanup(before);
        *before = now;
    }
}

/* Prints the rates between the two samples of an archive. */
static void top_archive(const top_t *top, const pages_t *now)
{
    pages_t before;

    pages_read(&before, COMMAND, top->view->earlier, top->job, 0);
    top_print(top, &before, now);
    pages_cleanup(&before);
}

/* ---- On a terminal ---- */

static void top_draw(const top_t *top, const pages_t *before,
                     const pages_t *now, unsigned *page_p)
{
    fputs("\033[H\033[2J", stdout);
    top_screenful(stdout, before, now, &top->filter, top->order,
                  top_screen_rows(), page_p);
    fflush(stdout);
}

/* Returns 0 to continue, or -1 to exit. */
static int top_key(top_t *top, int key, unsigned *page_p)
{
    switch (key) {
    case 'q':
    case -1:
        return -1;
    case ' ':
    case 'n':
        ++*page_p;
        return 0;
    case 'b':
    case 'p':
        *page_p -= (*page_p > 0);
        return 0;
    case 's':
        top->order = (top->order + 1) % TOP_ORDER_NUM;
        *page_p = 0;
        return 0;
    default:
        return 0;
    }
}

/* Keys take effect immediately, using the current samples. */
static void top_screen(top_t *top, pages_t *before)
{
    unsigned page = 0;
    int is_ending = 0;
    uint64_t taken = 0;
    pages_t now;

    top_read(top, &now, 0);
    while (!is_ending && ((top->count == 0) || (taken <= top->count))) {
        double left_s = top->interval_s;

        while (!is_ending && (left_s > 0)) {
            top_draw(top, before, &now, &page);
            is_ending = top_key(top, top_screen_key(&left_s), &page);
        }
        pages_cleanup(before);
        *before = now;
        top_read(top, &now, 0);
        ++taken;
    }
    pages_cleanup(&now);
    top_screen_close();
    putchar('\n');
}

/* Returns the number of rails that pass the filters. */
static unsigned top_shown(const top_t *top, const pages_t *now)
{
    top_row_t *rows;
    unsigned num = top_rows(now, now, &top->filter, top->order, &rows);

    free(rows);
    return num;
}

static int top_run(top_t *top)
{
    pages_t before;

    top_read(top, &before, 1);
    if (before.count == 0) {
        fprintf(stderr,
                "mrail top: no process %s%s has telemetry in %s; it "
                "must run with UCX_TLS=mrail and UCX_MRAIL_TELEMETRY=y\n",
                (top->job != NULL) ? "of job " : "of this user",
                (top->job != NULL) ? top->job : "",
                (top->view != NULL) ? top->archive : top->dir);
        return MRAIL_TOOL_FAILED;
    }
    if (top_shown(top, &before) == 0) {
        fprintf(stderr,
                "mrail top: no rail of %u process%s matches --rank, --rail "
                "and --program\n",
                before.count, (before.count == 1) ? "" : "es");
        pages_cleanup(&before);
        return MRAIL_TOOL_FAILED;
    }
    if (top->view != NULL) {
        top_archive(top, &before);
    } else if (!top->json && !top->lanes && (top->count != 1) &&
               top_screen_open()) {
        top_screen(top, &before);
    } else {
        top_scroll(top, &before);
    }
    pages_cleanup(&before);
    return 0;
}

static int top_clean(const top_t *top)
{
    int count = mrail_tele_file_clean(top->dir, 0);

    if (count < 0) {
        mrail_tool_fail(COMMAND, "cannot read %s: %s", top->dir,
                        strerror(-count));
    }
    printf("%d removed\n", count);
    return 0;
}

static void top_take_ranks(void *target, const char *text)
{
    if (mrail_number_in_list(text, 0) < 0) {
        mrail_tool_usage(COMMAND, "--rank %s: expected a list such as 0,4-7",
                         text);
    }
    ((top_t *)target)->filter.ranks = text;
}

#define FIELD(_name) offsetof(top_t, _name)

static const mrail_option_t top_options[] = {
    {"--interval", "TIME",
     "time between two samples, 0.1 to 3600 seconds (default: 1)",
     MRAIL_OPTION_SECONDS, FIELD(interval_s), 100, 3600000, NULL},
    {"--count", "N",
     "number of samples (default: unlimited on a terminal, "
     "otherwise 1)",
     MRAIL_OPTION_UINT64, FIELD(count), 1, UINT32_MAX, NULL},
    {"--job", "NAME", "show only the processes of this job", MRAIL_OPTION_TEXT,
     FIELD(job), 0, 0, NULL},
    {"--rank", "LIST", "show only these ranks, such as 0,4-7",
     MRAIL_OPTION_CALL, 0, 0, 0, top_take_ranks},
    {"--rail", "PATTERN", "show only these rails: mlx5_0, 'mlx5_*' or mlx5_0:1",
     MRAIL_OPTION_TEXT, FIELD(filter.rail), 0, 0, NULL},
    {"--program", "PATTERN", "show only processes of this program",
     MRAIL_OPTION_TEXT, FIELD(filter.program), 0, 0, NULL},
    {"--sort", TOP_ORDERS,
     "order within a job: by rank, or by descending MB/S, STALLED, IDLE or "
     "OUT (default: rank)",
     MRAIL_OPTION_CHOICE, FIELD(order), 0, 0, NULL},
    {"--json", NULL, "print a JSON object for each sample", MRAIL_OPTION_FLAG,
     FIELD(json), 0, 0, NULL},
    {"--lanes", NULL,
     "print a line for each lane, with its source port and moves",
     MRAIL_OPTION_FLAG, FIELD(lanes), 0, 0, NULL},
    {"--dir", "DIR",
     "telemetry directory, instead of UCX_MRAIL_TELEMETRY_DIR "
     "(default: " MRAIL_TELE_DIR ")",
     MRAIL_OPTION_TEXT, FIELD(dir), 0, 0, NULL},
    {"--archive", "FILE",
     "show a mrail collect archive, with the rates between its two samples",
     MRAIL_OPTION_TEXT, FIELD(archive), 0, 0, NULL},
    {"--clean", NULL, "remove the files of killed processes", MRAIL_OPTION_FLAG,
     FIELD(clean), 0, 0, NULL},
    {.names = NULL}};

static const char *const synopsis[] = {
    "[--interval TIME] [--count N] [--sort ORDER] [FILTER...]",
    "--lanes|--json [--interval TIME] [--count N] [FILTER...]",
    "--archive FILE [--lanes|--json] [--sort ORDER] [FILTER...]", "--clean",
    NULL};

static const mrail_command_t command = {
    .name = COMMAND,
    .synopsis = synopsis,
    .about =
        "Shows the traffic on each rail of this user's processes on this\n"
        "machine:\n"
        "\n"
        "  LANES    queue pairs that are up        MB/S   rate over the interval\n"
        "  OF       rate of the port               OUT    bytes in flight\n"
        "  STALLED  share of time in which work was outstanding on a lane and\n"
        "           no work completed, because of the network or the remote end\n"
        "  IDLE     share of time in which a lane had no work, but other lanes did\n"
        "\n"
        "It also shows the last events. Killed processes are shown as\n"
        "ended. On a terminal, it shows one page at a time: space and b\n"
        "turn pages, s changes the order, q quits. --job, --rank, --rail\n"
        "and --program are filters.\n",
    .options = top_options,
    .epilog =
        "Exit status: 0 done, 1 no process or rail to show, or failure, 2\n"
        "usage.\n"};

int main(int argc, char **argv)
{
    top_t top = {.interval_s = 1, .count = isatty(STDOUT_FILENO) ? 0 : 1};
    int status;

    mrail_options_parse(&command, argv, &top);
    if (top.lanes && top.json) {
        mrail_tool_usage(
            COMMAND,
            "--lanes cannot be combined with --json, which includes the lanes");
    }
    if ((top.archive != NULL) && (top.clean || (top.dir != NULL))) {
        mrail_tool_usage(COMMAND, "--archive cannot be combined with %s",
                         top.clean ? "--clean" : "--dir");
    }
    top.dir = pages_dir(top.dir);
    if (top.archive != NULL) {
        top.view = collect_view_open(COMMAND, top.archive);
        top.dir = top.view->dir;
    }
    status = top.clean ? top_clean(&top) : top_run(&top);
    collect_view_close(top.view);
    return status;
}
