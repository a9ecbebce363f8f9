/* mrail top --lanes formats lanes as text. */
#include "config.h"
#include "tools/top_show.h"

#include <string.h>

static void print_titles(FILE *stream, const mrail_page_t *page)
{
    fprintf(stream, "job %s\n", (page->job[0] != '\0') ? page->job : "(none)");
    fprintf(stream, "%-10s %8s %-16s %4s %-12s %5s %5s %8s %9s  %s\n",
            "PROCESS", "PID", "PEER", "LANE", "RAIL", "SPORT", "MOVES", "MB/S",
            "OUT", "STATE");
}

static void print_lane(FILE *stream, const pages_t *pages,
                       const pages_item_t *item, const mrail_page_lane_t *lane)
{
    const char *host = pages_host_name(pages, item);
    const mrail_page_t *page = item->page;
    const mrail_page_rail_t *rail = &page->rails[lane->rail];
    char process[PAGES_PROCESS], device[48];

    pages_process(process, sizeof(process), page);
    snprintf(device, sizeof(device), "%s:%u", rail->device, rail->port);
    fprintf(stream,
            "%-10s %8u %016llx %4u %-12s %5u %5u %8.1f %9llu  %s%s%s%s\n",
            process, page->head.pid, (unsigned long long)lane->peer, lane->slot,
            device, lane->sport, lane->moves, (double)lane->rate / 1e6,
            (unsigned long long)lane->outstanding, lane->state,
            (host != NULL) ? ", " : "", (host != NULL) ? host : "",
            item->alive ? "" : ", ended");
}

void top_lanes(FILE *stream, const pages_t *now, const top_filter_t *filter)
{
    const mrail_page_t *last = NULL;
    uint64_t hidden = 0;

    for (unsigned i = 0; i < now->count; ++i) {
        const mrail_page_t *page = now->items[i].page;

        if (!top_filter_process(filter, page)) {
            continue;
        }
        if ((last == NULL) || (strcmp(last->job, page->job) != 0)) {
            fputs((last == NULL) ? "" : "\n", stream);
            print_titles(stream, page);
        }
        last = page;
        hidden += page->more_lanes;
        for (unsigned n = 0; n < page->num_lanes; ++n) {
            if (top_filter_rail(filter, &page->rails[page->lanes[n].rail])) {
                print_lane(stream, now, &now->items[i], &page->lanes[n]);
            }
        }
    }
    if (hidden > 0) {
        fprintf(stream, "%llu more lanes are not in the pages\n",
                (unsigned long long)hidden);
    }
}
