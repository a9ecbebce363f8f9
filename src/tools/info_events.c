/* mrail info --events: what has happened to the rails of this user's processes,
 * also of those that were killed. */
#include "config.h"
#include "tools/info.h"
#include "tools/rings.h"

#include <stdlib.h>

static void events_print(const rings_event_t *event)
{
    char when[RINGS_TIME], who[RINGS_WHO];

    rings_time(when, sizeof(when), event->event->time_ns);
    rings_who(who, sizeof(who), event->ring);
    printf("%s  %s%s%-10s %s\n", when, event->ring->job,
           (event->ring->job[0] != '\0') ? " " : "", who, event->event->text);
}

static void events_json(const rings_event_t *event, int first)
{
    printf("%s\n  {\"time_s\": %.6f, \"job\": ", first ? "" : ",",
           (double)event->event->time_ns / 1e9);
    mrail_tool_json_string(stdout, event->ring->job);
    printf(", \"rank\": %d, \"pid\": %u, \"text\": ", event->ring->rank,
           event->ring->head.pid);
    mrail_tool_json_string(stdout, event->event->text);
    printf("}");
}

int mrail_info_events(int json)
{
    rings_event_t *events;
    unsigned count;
    rings_t rings;

    rings_read(&rings, MRAIL_INFO_VERB, MRAIL_RING_DIR, NULL, 1);
    count = rings_events(&rings, MRAIL_INFO_VERB, &events);
    if (json) {
        printf("{\"processes\": %u, \"events\": [", rings.count);
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
                rings.count);
    }
    free(events);
    rings_cleanup(&rings);
    return 0;
}
