/* mrail info --events shows the events on the rails of this user's processes,
 * including killed processes. */
#include "config.h"
#include "tools/info.h"

#include "base/json.h"
#include "tools/collect_view.h"

#include <stdlib.h>

static void events_print(const pages_event_t *event)
{
    char when[PAGES_TIME], process[PAGES_PROCESS];

    pages_time(when, sizeof(when), event->event->time_ns);
    pages_process(process, sizeof(process), event->page);
    printf("%s  %s%s%-10s %s\n", when, event->page->job,
           (event->page->job[0] != '\0') ? " " : "", process,
           event->event->text);
}

static void events_json(const pages_t *pages, const pages_event_t *events,
                        unsigned count)
{
    mrail_json_t json = mrail_json_to(stdout);

    mrail_json_object(&json, NULL);
    mrail_json_uint(&json, "processes", pages->count);
    mrail_json_array(&json, "events");
    for (unsigned i = 0; i < count; ++i) {
        const mrail_page_t *page = events[i].page;

        mrail_json_newline(&json);
        mrail_json_object(&json, NULL);
        mrail_json_fixed(&json, "time_s",
                         (double)events[i].event->time_ns / 1e9, 6);
        mrail_json_string(&json, "job", page->job);
        mrail_json_int(&json, "rank", page->rank);
        mrail_json_uint(&json, "pid", page->head.pid);
        mrail_json_string(&json, "text", events[i].event->text);
        mrail_json_object_end(&json);
    }
    mrail_json_array_end(&json);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
}

int mrail_info_events(const char *dir, const char *job, const char *archive,
                      int json)
{
    collect_view_t *view = NULL;
    pages_event_t *events;
    unsigned count;
    pages_t pages;

    if (archive != NULL) {
        view = collect_view_open(MRAIL_INFO_COMMAND, archive);
        dir = view->dir;
    }
    pages_read(&pages, MRAIL_INFO_COMMAND, pages_dir(dir), job, 1);
    count = pages_events(&pages, MRAIL_INFO_COMMAND, &events);
    if (json) {
        events_json(&pages, events, count);
    } else if (count == 0) {
        fprintf(stderr, "mrail info: %u processes with telemetry, no event\n",
                pages.count);
    }
    for (unsigned i = 0; !json && i < count; ++i) {
        events_print(&events[i]);
    }
    free(events);
    pages_cleanup(&pages);
    collect_view_close(view);
    return 0;
}
