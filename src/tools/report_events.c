/* The events of a job. Their texts come from the transport (src/rail). */
#include "config.h"
#include "tools/report.h"

#include "base/grow.h"
#include "base/util.h"

#include <errno.h>
#include <string.h>

const char *const report_kind_names[REPORT_KINDS] = {
    [REPORT_PORT] = "port", [REPORT_PATH] = "path", [REPORT_LANE] = "lane",
    [REPORT_MOVE] = "move", [REPORT_PEER] = "peer", [REPORT_OTHER] = "other"};

/* Returns the rail of a lane that is on the page, or -1. */
static int rail_of_lane(const mrail_page_t *page, uint64_t peer, unsigned slot)
{
    for (unsigned i = 0; i < page->num_lanes; ++i) {
        const mrail_page_lane_t *lane = &page->lanes[i];

        if ((lane->peer == peer) && (lane->slot == slot)) {
            return (lane->rail < page->num_rails) ? (int)lane->rail : -1;
        }
    }
    return -1;
}

static int rail_of_port(const mrail_page_t *page, const char *device,
                        unsigned port)
{
    for (unsigned i = 0; i < page->num_rails; ++i) {
        if ((strcmp(page->rails[i].device, device) == 0) &&
            (page->rails[i].port == port)) {
            return (int)i;
        }
    }
    return -1;
}

/* Returns the rail whose device begins the text: "soft1: port error". */
static int rail_of_device(const mrail_page_t *page, const char *text)
{
    for (unsigned i = 0; i < page->num_rails; ++i) {
        size_t length = strlen(page->rails[i].device);

        if ((strncmp(text, page->rails[i].device, length) == 0) &&
            (strncmp(text + length, ": ", 2) == 0)) {
            return (int)i;
        }
    }
    return -1;
}

/* Recognises an event by its text. */
static void classify(const mrail_page_t *page, report_event_t *event)
{
    char device[32], from[16], to[16];
    unsigned slot, port;
    unsigned long long peer = 0;

    event->kind = REPORT_OTHER;
    event->rail = -1;
    if (sscanf(event->text, "path %u to peer %llx: %15s -> %15s", &slot, &peer,
               from, to) == 4) {
        event->kind = REPORT_PATH;
        event->rail = rail_of_lane(page, peer, slot);
        event->is_recovery = strcmp(to, "up") == 0;
    } else if (sscanf(event->text, "%31[^:]:%u: lane %u to peer %llx closing",
                      device, &port, &slot, &peer) == 4) {
        event->kind = REPORT_LANE;
        event->rail = rail_of_port(page, device, port);
    } else if (sscanf(event->text, "lane %u to peer %llx: source port", &slot,
                      &peer) == 2) {
        event->kind = REPORT_MOVE;
        event->rail = rail_of_lane(page, peer, slot);
        event->is_recovery = 1;
    } else if (sscanf(event->text, "peer %llx is gone", &peer) == 1) {
        event->kind = REPORT_PEER;
    } else if ((event->rail = rail_of_device(page, event->text)) >= 0) {
        event->kind = REPORT_PORT;
        event->is_recovery = strstr(event->text, "active") != NULL;
    }
    event->peer = peer;
}

static int has_space(const report_model_t *model, report_kind_t kind)
{
    return (kind == REPORT_PORT)
               ? model->num_port_events < REPORT_PORT_EVENTS
               : model->num_events - model->num_port_events < REPORT_EVENTS;
}

static int take_event(report_model_t *model, const report_process_t *process,
                      const mrail_page_t *page, const mrail_page_event_t *from)
{
    report_event_t event = {.time_ns = from->time_ns, .process = process};

    snprintf(event.text, sizeof(event.text), "%s", from->text);
    classify(page, &event);
    if (!has_space(model, event.kind)) {
        ++model->events_left_out;
        return 0;
    }
    if (!mrail_grow(&model->events, model->num_events + 1,
                    sizeof(*model->events))) {
        return -ENOMEM;
    }
    model->events[model->num_events++] = event;
    model->num_port_events += (event.kind == REPORT_PORT);
    return 0;
}

int report_events(report_model_t *model, report_process_t *process,
                  const mrail_page_t *page)
{
    uint64_t first = mrail_page_first_event(page);
    int ret = 0;

    if (first > process->next_event) {
        model->events_missed += first - process->next_event;
        process->next_event = first;
    }
    for (; (process->next_event < page->num_events) && (ret == 0);
         ++process->next_event) {
        ret =
            take_event(model, process, page,
                       &page->events[process->next_event % MRAIL_PAGE_EVENTS]);
    }
    return ret;
}
