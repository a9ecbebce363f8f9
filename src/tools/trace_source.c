#include "config.h"
#include "tools/trace_source.h"

#include "base/grow.h"
#include "base/number.h"
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "trace"
#define BATCH 512u

/* ---- selection ---- */

static int is_file(const char *selector)
{
    return strchr(selector, '/') != NULL;
}

/* Returns 1 if a selector names the process of the page. */
static int is_selected(const trace_sources_t *sources, const mrail_page_t *page)
{
    char pid[16];

    snprintf(pid, sizeof(pid), "%u", page->head.pid);
    for (unsigned i = 0; sources->selectors[i] != NULL; ++i) {
        const char *selector = sources->selectors[i];

        if ((strcmp(selector, pid) == 0) ||
            (strcmp(selector, page->job) == 0)) {
            return 1;
        }
    }
    return sources->selectors[0] == NULL;
}

static int has_rank(const trace_sources_t *sources, const mrail_page_t *page)
{
    return (sources->ranks == NULL) ||
           ((page->rank >= 0) &&
            (mrail_number_in_list(sources->ranks, (uint64_t)page->rank) == 1));
}

/* Returns 1 if all selectors are files, and there is at least one. */
static int has_only_files(const trace_sources_t *sources)
{
    unsigned i = 0;

    while ((sources->selectors[i] != NULL) && is_file(sources->selectors[i])) {
        ++i;
    }
    return (i != 0) && (sources->selectors[i] == NULL);
}

/* ---- open ---- */

static int is_known(const trace_sources_t *sources, const char *path)
{
    for (unsigned i = 0; i < sources->count; ++i) {
        if (strcmp(sources->items[i]->path, path) == 0) {
            return 1;
        }
    }
    return 0;
}

static void source_free(trace_source_t *source)
{
    if (trace_source_is_open(source)) {
        mrail_follow_close(&source->follow);
    }
    if (source->calls_fd >= 0) {
        close(source->calls_fd);
    }
    if (source->plans_fd >= 0) {
        close(source->plans_fd);
    }
    trace_table_clear(&source->table);
    trace_tracks_destroy(source->tracks);
    free(source->plans);
    free(source->page);
    free(source);
}

/* Returns the id at the end of a file name, or 0. */
static uint64_t id_of(const char *path)
{
    const char *dot = strrchr(path, '.');

    return (dot != NULL) ? strtoull(dot + 1, NULL, 16) : 0;
}

static trace_source_t *source_new(const char *path)
{
    trace_source_t *source = calloc(1, sizeof(*source));

    if (source != NULL) {
        source->page = malloc(sizeof(*source->page));
    }
    if ((source == NULL) || (source->page == NULL)) {
        mrail_tool_fail(COMMAND, "out of memory");
    }
    snprintf(source->path, sizeof(source->path), "%s", path);
    source->id = id_of(path);
    source->follow.fd = source->calls_fd = source->plans_fd = -1;
    return source;
}

/* Returns the host of a file in an archive, or NULL. */
static const char *host_of(const trace_sources_t *sources, const char *path)
{
    int host = mrail_tele_file_host(path);

    return ((host >= 0) && ((unsigned)host < sources->view->manifest.num_hosts))
               ? sources->view->hosts[host].name
               : NULL;
}

/* Opens the process of the page at `path`. Returns ALIVE if the process is open
 * or not wanted, or the reason why it cannot be opened. */
static mrail_page_status_t source_open(trace_sources_t *sources,
                                       const char *path, int is_named)
{
    trace_source_t *source = source_new(path);
    mrail_page_status_t status = mrail_page_read(path, source->page);
    int has_ended = (status == MRAIL_PAGE_ENDED);

    if (!has_ended && (status != MRAIL_PAGE_ALIVE)) {
        goto err_free;
    }
    status = MRAIL_PAGE_ALIVE;
    if (!has_rank(sources, source->page) ||
        (!is_named && !is_selected(sources, source->page))) {
        goto err_free;
    }
    status = mrail_follow_open(&source->follow, path);
    if (status != MRAIL_PAGE_ALIVE) {
        goto err_free;
    }
    if (sources->view != NULL) {
        source->host = host_of(sources, path);
    } else {
        mrail_follow_request(&source->follow);
    }
    source->has_past = sources->past || has_ended ||
                       (sources->has_searched && sources->past_of_new);
    if (!source->has_past) {
        (void)mrail_follow_skip(&source->follow);
    }
    source->before = source->follow.reader;
    if (!mrail_grow(&sources->items, sources->count + 1,
                    sizeof(*sources->items))) {
        mrail_tool_fail(COMMAND, "out of memory");
    }
    sources->items[sources->count++] = source;
    return MRAIL_PAGE_ALIVE;

err_free:
    source_free(source);
    return status;
}

static void complain(const char *path, mrail_page_status_t status)
{
    fprintf(stderr, "mrail trace: %s: %s\n", path,
            mrail_page_status_text(status));
}

static void visit(const char *path, void *arg)
{
    trace_sources_t *sources = arg;
    mrail_page_status_t status;

    if (is_known(sources, path)) {
        return;
    }
    status = source_open(sources, path, 0);
    /* GONE: the process exited normally after the directory was read. */
    if (!sources->has_searched && (status != MRAIL_PAGE_ALIVE) &&
        (status != MRAIL_PAGE_GONE)) {
        complain(path, status);
    }
}

static void open_files(trace_sources_t *sources)
{
    mrail_page_status_t status;

    for (unsigned i = 0; sources->selectors[i] != NULL; ++i) {
        const char *path = sources->selectors[i];

        if (!is_file(path) || is_known(sources, path)) {
            continue;
        }
        if (strlen(path) >= MRAIL_TELE_PATH) {
            mrail_tool_fail(COMMAND, "%s: the path is too long", path);
        }
        status = source_open(sources, path, 1);
        if (status != MRAIL_PAGE_ALIVE) {
            complain(path, status);
        }
    }
}

_Noreturn static void fail_none(const trace_sources_t *sources)
{
    const char *const *selectors = (const char *const *)sources->selectors;

    if (has_only_files(sources)) {
        mrail_tool_fail(COMMAND, "no file contains the records of a process");
    }
    mrail_tool_fail(
        COMMAND,
        "no process %s%s keeps records in %s; it must run with "
        "UCX_TLS=mrail and UCX_MRAIL_TELEMETRY=y",
        (selectors[0] == NULL)   ? "of this user"
        : (selectors[1] == NULL) ? "or job "
                                 : "or job with these names",
        ((selectors[0] != NULL) && (selectors[1] == NULL)) ? selectors[0] : "",
        sources->dir);
}

void trace_sources_find(trace_sources_t *sources)
{
    int ret;

    if (!sources->has_searched) {
        open_files(sources);
    }
    if (!has_only_files(sources)) {
        ret = mrail_page_each(sources->dir, visit, sources);
        if (ret < 0) {
            mrail_tool_fail(COMMAND, "cannot read %s: %s", sources->dir,
                            strerror(-ret));
        }
    }
    sources->has_searched = 1;
    if (sources->count == 0) {
        fail_none(sources);
    }
}

void trace_sources_cleanup(trace_sources_t *sources)
{
    for (unsigned i = 0; i < sources->count; ++i) {
        source_free(sources->items[i]);
    }
    free(sources->items);
    sources->items = NULL;
    sources->count = 0;
}

/* ---- read ---- */

void trace_source_take(trace_source_t *source, trace_take_func_t take,
                       void *arg)
{
    static mrail_ring_record_t records[BATCH];
    uint32_t reads = 4 + 2 * source->follow.reader.num_records / BATCH;
    int count = !source->is_broken;

    for (; (count > 0) && (reads > 0); --reads) {
        count = mrail_follow_read(&source->follow, records, BATCH);
        for (int i = 0; i < count; ++i) {
            take(arg, source, &records[i]);
        }
    }
    if (count < 0) {
        complain(source->path, MRAIL_PAGE_BROKEN);
        source->is_broken = 1;
    }
}

void trace_source_read_page(trace_source_t *source)
{
    static mrail_page_t page;
    mrail_page_status_t status = mrail_page_read_fd(source->follow.fd, &page);

    if ((status == MRAIL_PAGE_ALIVE) || (status == MRAIL_PAGE_ENDED)) {
        *source->page = page;
    }
}
