#include "config.h"
#include "tools/exporter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t cpu_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * MRAIL_NS_PER_SEC + (uint64_t)t.tv_nsec;
}

/* ---- MPI calls ---- */

typedef struct calls_reading {
    exporter_selection_t *selection;
    mrail_calls_t *calls;
} calls_reading_t;

/* Returns a process with that id. Unless `calls` is NULL, the process must also
 * have its job and rank. */
static exporter_process_t *find_process(const exporter_selection_t *selection,
                                        unsigned pid,
                                        const mrail_calls_t *calls)
{
    for (unsigned i = 0; i < selection->count; ++i) {
        exporter_process_t *process = &selection->processes[i];
        const mrail_page_t *page = process->page;

        if (process->alive && (page->head.pid == pid) &&
            ((calls == NULL) || ((page->rank == calls->rank) &&
                                 (strcmp(page->job, calls->job) == 0)))) {
            return process;
        }
    }
    return NULL;
}

/* The name of the file contains the process id, so files of other processes
 * need not be read. */
static void calls_visit(const char *path, void *arg)
{
    const calls_reading_t *reading = arg;
    const char *name = strrchr(path, '/');
    exporter_process_t *process;
    unsigned pid;

    if ((name == NULL) ||
        (sscanf(name, "/mrail-telemetry.%*u.%u.", &pid) != 1) ||
        (find_process(reading->selection, pid, NULL) == NULL) ||
        (mrail_calls_read(path, reading->calls) != MRAIL_PAGE_ALIVE)) {
        return;
    }
    process =
        find_process(reading->selection, reading->calls->pid, reading->calls);
    if (process != NULL) {
        process->in_call_ns =
            exporter_in_call(reading->calls, mrail_clock_now());
    }
}

/* If the directory can no longer be read, only these times are unknown. */
static int read_calls(const char *dir, exporter_selection_t *selection)
{
    calls_reading_t reading = {selection, malloc(sizeof(mrail_calls_t))};

    if (reading.calls == NULL) {
        return -ENOMEM;
    }
    (void)mrail_tele_file_each(dir, MRAIL_TELE_CALLS, calls_visit, &reading);
    free(reading.calls);
    return 0;
}

/* ---- scrapes ---- */

static int write_text(const exporter_view_t *view, exporter_format_t format,
                      char **text_p, size_t *size_p)
{
    FILE *stream = open_memstream(text_p, size_p);
    int ret;

    if (stream == NULL) {
        return -ENOMEM;
    }
    ret = exporter_text(stream, view, format);
    if ((fclose(stream) != 0) || (ret != 0)) {
        free(*text_p);
        return -ENOMEM;
    }
    return 0;
}

static int make_text(exporter_t *exporter, const pages_t *pages,
                     uint64_t now_ns, exporter_format_t format, char **text_p,
                     size_t *size_p)
{
    exporter_view_t view = {.per_lane = exporter->per_lane};
    int ret =
        exporter_select(pages, &exporter->limits, now_ns, &view.selection);
    int others = mrail_tele_file_others(exporter->dir);

    if (ret != 0) {
        return ret;
    }
    memcpy(view.refused, pages->refused, sizeof(view.refused));
    view.selection.left_out[EXPORTER_ENDED] += pages->skipped;
    view.others = (others > 0) ? (unsigned)others : 0;
    ret = read_calls(exporter->dir, &view.selection);
    if (ret == 0) {
        exporter->self.cpu_ns = cpu_now();
        view.self = exporter->self;
        ret = write_text(&view, format, text_p, size_p);
    }
    exporter_selection_cleanup(&view.selection);
    return ret;
}

int exporter_scrape(exporter_t *exporter, exporter_format_t format,
                    char **text_p, size_t *size_p)
{
    uint64_t begin_ns = mrail_clock_now(), now_ns = mrail_page_now();
    uint64_t oldest_ns = now_ns - MRAIL_MIN(now_ns, exporter->limits.keep_ns);
    pages_t pages;
    int ret = pages_try_read(&pages, exporter->dir,
                             (int64_t)(oldest_ns / MRAIL_NS_PER_SEC));

    if (ret != 0) {
        return ret;
    }
    ret = make_text(exporter, &pages, now_ns, format, text_p, size_p);
    pages_cleanup(&pages);
    if (ret == 0) {
        ++exporter->self.scrapes;
        exporter->self.duration_ns = mrail_clock_now() - begin_ns;
    }
    return ret;
}
