/* mrail info --events: what has happened to the rails of this user's processes,
 * also of those that were killed. */
#include "config.h"
#include "tools/info.h"
#include "tools/pages.h"

#include <stdlib.h>

static void events_print(const pages_event_t *event)
{
    char when[PAGES_TIME], who[PAGES_WHO];

    pages_time(when, sizeof(when), event->event->time_ns);
    pages_who(who, sizeof(who), event->page);
    printf("%s  %s%s%-10s %s\n", when, event->page->job,
           (event->page->job[0] != '\0') ? " " : "", who, event->event->text);
}

static void events_json(const pages_event_t *event, int first)
{
    printf("%s\n  {\"time_s\": %.6f, \"job\": ", first ? "" : ",",
           (double)event->event->time_ns / 1e9);
    mrail_tool_json_string(stdout, event->page->job);
    printf(", \"rank\": %d, \"pid\": %u, \"text\": ", event->page->rank,
           event->page->head.pid);
    mrail_tool_json_string(stdout, event->event->text);
    printf("}");
}

int mrail_info_events(const char *dir, const char *job, int json)
{
    pages_event_t *events;
    unsigned count;
    pages_t pages;

    pages_read(&pages, MRAIL_INFO_VERB, pages_dir(dir), job, 1);
    count = pages_events(&pages, MRAIL_INFO_VERB, &events);
    if (json) {
        printf("{\"processes\": %u, \"events\": [", pages.count);
    }
    for (unsigned i = 0; i < count; ++i) {
        if (json) {
            events_json(&events[i], i == 0);
        } else {
            events_print(&events[i]);
        }
    }
    if (json) {
        printf("]}\n");
    } else if (count == 0) {
        fprintf(stderr, "mrail info: %u processes with telemetry, no event\n",
                pages.count);
    }
    free(events);
    pages_cleanup(&pages);
    return 0;
}
