#include "config.h"
#include "tools/pages.h"

#include "base/clock.h"
#include "base/grow.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct pages_reading {
    pages_t *pages;
    const char *command; /* command name for warnings, or NULL for no
                          * warnings */
    const char *job;
    int64_t
        oldest_s; /* skip processes that have exited and last wrote before this
                   * time */
    int ret;      /* 0, or -ENOMEM */
} pages_reading_t;

static void pages_refuse(const pages_reading_t *reading, const char *path,
                         mrail_page_status_t status)
{
    /* GONE: the process exited normally after the directory was read. */
    if (status == MRAIL_PAGE_GONE) {
        return;
    }
    ++reading->pages->refused[status];
    if (reading->command != NULL) {
        fprintf(stderr, "mrail %s: %s: %s\n", reading->command, path,
                mrail_page_status_text(status));
    }
}

/* Returns 1 if the page was added. */
static int pages_add(pages_reading_t *reading, const char *path,
                     mrail_page_t *page)
{
    pages_t *pages = reading->pages;
    mrail_page_status_t status = mrail_page_read(path, page);

    if ((status != MRAIL_PAGE_ALIVE) && (status != MRAIL_PAGE_ENDED)) {
        pages_refuse(reading, path, status);
        return 0;
    }
    if ((reading->job != NULL) && (strcmp(reading->job, page->job) != 0)) {
        return 0;
    }
    if (!mrail_grow(&pages->items, pages->count + 1, sizeof(*pages->items))) {
        reading->ret = -ENOMEM;
        return 0;
    }
    pages->items[pages->count++] =
        (pages_item_t){.page = page,
                       .alive = (status == MRAIL_PAGE_ALIVE),
                       .host = mrail_tele_file_host(path)};
    return 1;
}

/* There may be hundreds of pages of exited processes, so these are not
 * copied. */
static int pages_is_old(const pages_reading_t *reading, const char *path)
{
    int64_t changed_s;

    return (reading->oldest_s != 0) &&
           (mrail_page_peek(path, &changed_s) == MRAIL_PAGE_ENDED) &&
           (changed_s < reading->oldest_s);
}

static void pages_visit(const char *path, void *arg)
{
    pages_reading_t *reading = arg;
    mrail_page_t *page;

    if (pages_is_old(reading, path)) {
        ++reading->pages->skipped;
        return;
    }
    page = (reading->ret == 0) ? malloc(sizeof(*page)) : NULL;
    if (page == NULL) {
        reading->ret = -ENOMEM;
    } else if (!pages_add(reading, path, page)) {
        free(page);
    }
}

static int pages_order(const void *a, const void *b)
{
    const mrail_page_t *x = ((const pages_item_t *)a)->page;
    const mrail_page_t *y = ((const pages_item_t *)b)->page;
    int ret = strcmp(x->job, y->job);

    if (ret == 0) {
        ret = (x->rank > y->rank) - (x->rank < y->rank);
    }
    return (ret != 0)
               ? ret
               : (x->head.pid > y->head.pid) - (x->head.pid < y->head.pid);
}

const char *pages_dir(const char *option)
{
    const char *variable = getenv("UCX_MRAIL_TELEMETRY_DIR");

    if (option != NULL) {
        return option;
    }
    return (variable != NULL && *variable != '\0') ? variable : MRAIL_TELE_DIR;
}

static int pages_load(pages_reading_t *reading, const char *dir)
{
    pages_t *pages = reading->pages;
    int ret;

    memset(pages, 0, sizeof(*pages));
    ret = mrail_page_each(dir, pages_visit, reading);
    ret = (ret < 0) ? ret : reading->ret;
    if (ret < 0) {
        pages_cleanup(pages);
        return ret;
    }
    if (pages->count > 1) {
        qsort(pages->items, pages->count, sizeof(*pages->items), pages_order);
    }
    return 0;
}

int pages_try_read(pages_t *pages, const char *dir, int64_t oldest_s)
{
    pages_reading_t reading = {.pages = pages, .oldest_s = oldest_s};

    return pages_load(&reading, dir);
}

void pages_read(pages_t *pages, const char *command, const char *dir,
                const char *job, int warn)
{
    pages_reading_t reading = {
        .pages = pages, .command = warn ? command : NULL, .job = job};
    int ret = pages_load(&reading, dir);

    if (ret < 0) {
        mrail_tool_fail(command, "cannot read %s: %s", dir, strerror(-ret));
    }
}

void pages_cleanup(pages_t *pages)
{
    for (unsigned i = 0; i < pages->count; ++i) {
        free(pages->items[i].page);
    }
    free(pages->items);
    memset(pages, 0, sizeof(*pages));
}

void pages_json_hosts(mrail_json_t *json, const pages_host_t *hosts,
                      unsigned num_hosts)
{
    if (hosts == NULL) {
        return;
    }
    mrail_json_array(json, "hosts");
    for (unsigned i = 0; i < num_hosts; ++i) {
        mrail_json_object(json, NULL);
        mrail_json_string(json, "name", hosts[i].name);
        if (hosts[i].error != NULL) {
            mrail_json_string(json, "error", hosts[i].error);
        } else {
            mrail_json_fixed(json, "offset_s", (double)hosts[i].offset_ns / 1e9,
                             6);
            mrail_json_fixed(json, "error_s", (double)hosts[i].bound_ns / 1e9,
                             9);
        }
        mrail_json_object_end(json);
    }
    mrail_json_array_end(json);
}

const mrail_page_t *pages_find(const pages_t *pages, const mrail_page_t *page)
{
    for (unsigned i = 0; i < pages->count; ++i) {
        const mrail_page_t *other = pages->items[i].page;

        if ((other->head.pid == page->head.pid) &&
            (other->start_ns == page->start_ns)) {
            return other;
        }
    }
    return NULL;
}

void pages_time(char *text, size_t size, uint64_t time_ns)
{
    time_t seconds = (time_t)(time_ns / MRAIL_NS_PER_SEC);
    struct tm broken;
    char date[PAGES_TIME];

    if ((localtime_r(&seconds, &broken) == NULL) ||
        (strftime(date, sizeof(date), "%Y-%m-%d %H:%M:%S", &broken) == 0)) {
        snprintf(date, sizeof(date), "?");
    }
    snprintf(text, size, "%s.%06u", date,
             (unsigned)(time_ns % MRAIL_NS_PER_SEC / 1000));
}

void pages_process(char *text, size_t size, const mrail_page_t *page)
{
    if (page->rank >= 0) {
        snprintf(text, size, "rank %d", page->rank);
    } else {
        snprintf(text, size, "pid %u", page->head.pid);
    }
}

static int pages_event_order(const void *a, const void *b)
{
    const pages_event_t *x = a, *y = b;

    return (x->event->time_ns > y->event->time_ns) -
           (x->event->time_ns < y->event->time_ns);
}

unsigned pages_events(const pages_t *pages, const char *command,
                      pages_event_t **events_p)
{
    pages_event_t *events = malloc(
        ((size_t)pages->count * MRAIL_PAGE_EVENTS + 1) * sizeof(*events));
    unsigned count = 0;

    if (events == NULL) {
        mrail_tool_fail(command, "out of memory");
    }
    for (unsigned i = 0; i < pages->count; ++i) {
        const mrail_page_t *page = pages->items[i].page;

        for (uint64_t n = mrail_page_first_event(page); n < page->num_events;
             ++n) {
            events[count].page = page;
            events[count++].event = &page->events[n % MRAIL_PAGE_EVENTS];
        }
    }
    qsort(events, count, sizeof(*events), pages_event_order);
    *events_p = events;
    return count;
}
