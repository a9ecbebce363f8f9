/* mrail top --json prints one object per sample. */
#include "config.h"
#include "tools/top_show.h"

#include "base/json.h"

#include <stdio.h>

static void json_rails(mrail_json_t *json, const mrail_page_t *before,
                       const mrail_page_t *now, const top_filter_t *filter)
{
    mrail_json_array(json, "rails");
    for (unsigned i = 0; i < now->num_rails; ++i) {
        const mrail_page_rail_t *rail = &now->rails[i];
        top_figures_t figures = top_figures(before, now, i);

        if (!top_filter_rail(filter, rail)) {
            continue;
        }
        mrail_json_object(json, NULL);
        mrail_json_string(json, "device", rail->device);
        mrail_json_uint(json, "port", rail->port);
        mrail_json_uint(json, "lanes", rail->num_lanes);
        mrail_json_uint(json, "bytes", rail->bytes);
        mrail_json_fixed(json, "bytes_per_s", figures.bytes_per_s, 0);
        mrail_json_uint(json, "nominal_bytes_per_s", rail->nominal);
        mrail_json_uint(json, "outstanding", figures.outstanding);
        mrail_json_fixed(json, "stalled", figures.stalled, 3);
        mrail_json_fixed(json, "idle", figures.idle, 3);
        mrail_json_object_end(json);
    }
    mrail_json_array_end(json);
}

static void json_lanes(mrail_json_t *json, const mrail_page_t *now,
                       const top_filter_t *filter)
{
    char peer[20];

    mrail_json_array(json, "lanes");
    for (unsigned i = 0; i < now->num_lanes; ++i) {
        const mrail_page_lane_t *lane = &now->lanes[i];

        if ((lane->rail < now->num_rails) &&
            !top_filter_rail(filter, &now->rails[lane->rail])) {
            continue;
        }
        snprintf(peer, sizeof(peer), "%016llx", (unsigned long long)lane->peer);
        mrail_json_object(json, NULL);
        mrail_json_string(json, "peer", peer);
        mrail_json_uint(json, "lane", lane->slot);
        mrail_json_uint(json, "rail", lane->rail);
        mrail_json_uint(json, "sport", lane->sport);
        mrail_json_uint(json, "moves", lane->moves);
        mrail_json_string(json, "state", lane->state);
        mrail_json_uint(json, "bytes", lane->bytes);
        mrail_json_uint(json, "window_bytes_per_s", lane->rate);
        mrail_json_uint(json, "outstanding", lane->outstanding);
        mrail_json_fixed(json, "stalled_s", (double)lane->stalled_ns / 1e9, 3);
        mrail_json_fixed(json, "idle_s", (double)lane->idle_ns / 1e9, 3);
        mrail_json_object_end(json);
    }
    mrail_json_array_end(json);
    mrail_json_uint(json, "lanes_not_shown", now->more_lanes);
}

static void json_process(mrail_json_t *json, const pages_t *before,
                         const pages_t *now, const pages_item_t *item,
                         const top_filter_t *filter)
{
    const mrail_page_t *page = item->page;
    const char *host = pages_host_name(now, item);

    mrail_json_object(json, NULL);
    if (host != NULL) {
        mrail_json_string(json, "host", host);
    }
    mrail_json_string(json, "job", page->job);
    mrail_json_int(json, "rank", page->rank);
    mrail_json_uint(json, "pid", page->head.pid);
    mrail_json_string(json, "program", page->program);
    mrail_json_bool(json, "alive", item->alive);
    mrail_json_fixed(json, "start_s", (double)page->start_ns / 1e9, 6);
    mrail_json_fixed(json, "update_s", (double)page->update_ns / 1e9, 6);
    json_rails(json, pages_find(before, page), page, filter);
    json_lanes(json, page, filter);
    mrail_json_object(json, "counters");
    for (unsigned i = 0; i < page->num_counters; ++i) {
        mrail_json_uint(json, page->counters[i].name, page->counters[i].value);
    }
    mrail_json_object_end(json);
    mrail_json_object_end(json);
}

void top_json(const pages_t *before, const pages_t *now,
              const top_filter_t *filter)
{
    mrail_json_t json = mrail_json_to(stdout);
    uint64_t time_ns = (now->time_ns != 0) ? now->time_ns : mrail_page_now();

    mrail_json_object(&json, NULL);
    mrail_json_fixed(&json, "time_s", (double)time_ns / 1e9, 3);
    pages_json_hosts(&json, now->hosts, now->num_hosts);
    mrail_json_array(&json, "processes");
    for (unsigned i = 0; i < now->count; ++i) {
        if (top_filter_process(filter, now->items[i].page)) {
            json_process(&json, before, now, &now->items[i], filter);
        }
    }
    mrail_json_array_end(&json);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
    fflush(stdout);
}
