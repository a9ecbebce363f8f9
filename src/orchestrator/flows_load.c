/* Memory, links, slots and masks of a division: what stays while it goes on. */
#include "config.h"
#include "flows_inside.h"

#include "base/util.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *flows_take(double **next_p, size_t count)
{
    double *taken = *next_p;

    *next_p += count;
    return taken;
}

static int flows_allocate_links(mrail_flows_t *flows)
{
    size_t links = (size_t)flows->links.num_links + 1;
    double *next = calloc((7 + FLOWS_NUM_STAGES) * links, sizeof(*next));

    flows->prices[0] = next;
    flows->link_first = malloc(links * sizeof(*flows->link_first));
    if ((next == NULL) || (flows->link_first == NULL)) {
        return -ENOMEM;
    }
    for (unsigned stage = 0; stage < FLOWS_NUM_STAGES; ++stage) {
        flows->prices[stage] = flows_take(&next, links);
    }
    flows->per_byte = flows_take(&next, links);
    flows->factor = flows_take(&next, links);
    flows->load = flows_take(&next, links);
    flows->length = flows_take(&next, links);
    flows->since = flows_take(&next, links);
    flows->rise = flows_take(&next, links);
    flows->sum_load = flows_take(&next, links);
    return 0;
}

static int flows_allocate_slots(mrail_flows_t *flows, uint32_t num_slots)
{
    double *next = malloc(5 * (size_t)num_slots * sizeof(*next));

    free(flows->slot_link);
    free(flows->slot_open);
    free(flows->slot_relays);
    free(flows->link_slot);
    flows->slots_room = flows->slots_set = flows->slots_linked = 0;
    flows->slot_relays = next;
    flows->slot_link = malloc((size_t)num_slots * MRAIL_FLOWS_SLOT_LINKS *
                              sizeof(*flows->slot_link));
    flows->slot_open = malloc(num_slots);
    flows->link_slot = malloc((size_t)num_slots * MRAIL_FLOWS_SLOT_LINKS *
                              sizeof(*flows->link_slot));
    if ((next == NULL) || (flows->slot_link == NULL) ||
        (flows->slot_open == NULL) || (flows->link_slot == NULL)) {
        return -ENOMEM;
    }
    (void)flows_take(&next, num_slots);
    flows->slot_worth = flows_take(&next, num_slots);
    flows->slot_weight = flows_take(&next, num_slots);
    flows->slot_factor = flows_take(&next, num_slots);
    flows->slot_load = flows_take(&next, num_slots);
    flows->slots_room = num_slots;
    return 0;
}

static int flows_allocate_bytes(mrail_flows_t *flows, size_t num_bytes)
{
    double *next = malloc(3 * num_bytes * sizeof(*next));

    free(flows->trial);
    free(flows->mask);
    flows->trial = next;
    flows->mask = malloc(num_bytes / flows->passes.width * sizeof(*flows->mask));
    flows->bytes_room = 0;
    if ((next == NULL) || (flows->mask == NULL)) {
        return -ENOMEM;
    }
    (void)flows_take(&next, num_bytes);
    flows->sum = flows_take(&next, num_bytes);
    flows->bytes = flows_take(&next, num_bytes);
    flows->bytes_room = num_bytes;
    return 0;
}

/* Half of what a path is worth for itself, which is what its narrowest link is:
 * the root, so that two halves alike make it whole. */
static double flows_worth(const mrail_flows_t *flows,
                          const mrail_flows_slot_t *slot)
{
    double least = flows->widest;

    for (unsigned i = 0; i < MRAIL_FLOWS_SLOT_LINKS; ++i) {
        if (slot->link[i] != MRAIL_FLOWS_NO_LINK) {
            least = MRAIL_MIN(least, flows->links.capacity[slot->link[i]]);
        }
    }
    return sqrt(least / flows->widest);
}

static void flows_set_slot(mrail_flows_t *flows, uint32_t s,
                           const mrail_flows_slot_t *slot)
{
    uint32_t *link = &flows->slot_link[(size_t)s * MRAIL_FLOWS_SLOT_LINKS];

    for (unsigned i = 0; i < MRAIL_FLOWS_SLOT_LINKS; ++i) {
        link[i] = ((slot == NULL) || (slot->link[i] == MRAIL_FLOWS_NO_LINK))
                      ? flows->links.num_links
                      : slot->link[i];
    }
    flows->slot_open[s] = (slot != NULL) && !slot->is_closed;
    flows->slot_relays[s] = flows->slot_open[s] ? slot->relays : 0;
    flows->has_relays |= (flows->slot_relays[s] != 0);
    flows->slot_worth[s] = flows->slot_open[s] ? flows_worth(flows, slot) : 0;
}

/* Those that are new. */
static void flows_set_slots(mrail_flows_t *flows, const mrail_flows_slot_t *slot)
{
    uint32_t lanes = flows->links.num_lanes, width = flows->passes.width;

    for (uint32_t s = flows->slots_set; s < flows->num_slots; ++s) {
        uint32_t row = s / width, lane = s % width;

        flows_set_slot(flows, s,
                       (lane < lanes) ? &slot[(size_t)row * lanes + lane] : NULL);
    }
    flows->slots_set = MRAIL_MAX(flows->slots_set, flows->num_slots);
}

/* The slots of each link: counted, then put in place. */
static void flows_set_link_slots(mrail_flows_t *flows)
{
    uint32_t num_links = flows->links.num_links, *first = flows->link_first;
    uint32_t total;

    memset(first, 0, (num_links + 1) * sizeof(*first));
    for (uint32_t s = 0; s < flows->num_slots; ++s) {
        for (unsigned i = 0; i < MRAIL_FLOWS_SLOT_LINKS; ++i) {
            uint32_t e = flows->slot_link[s * MRAIL_FLOWS_SLOT_LINKS + i];

            if (flows->slot_open[s] && (e < num_links)) {
                ++first[e + 1];
            }
        }
    }
    for (uint32_t e = 0; e < num_links; ++e) {
        first[e + 1] += first[e];
    }
    total = first[num_links];
    for (uint32_t s = flows->num_slots; s-- > 0;) {
        for (unsigned i = 0; i < MRAIL_FLOWS_SLOT_LINKS; ++i) {
            uint32_t e = flows->slot_link[s * MRAIL_FLOWS_SLOT_LINKS + i];

            if (flows->slot_open[s] && (e < num_links)) {
                flows->link_slot[--first[e + 1]] = s;
            }
        }
    }
    /* Where each begins is now one place further on. */
    memmove(first, first + 1, num_links * sizeof(*first));
    first[num_links] = total;
    flows->slots_linked = flows->num_slots;
}

int mrail_flows_create(const mrail_flows_links_t *links, mrail_flows_t **flows_p)
{
    mrail_flows_t *flows = calloc(1, sizeof(*flows));

    if (flows == NULL) {
        return -ENOMEM;
    }
    flows->links = *links;
    flows->passes.width =
        MRAIL_PASSES_VECTOR *
        MRAIL_DIV_ROUND_UP(links->num_lanes, MRAIL_PASSES_VECTOR);
    if (flows_allocate_links(flows) != 0) {
        mrail_flows_destroy(flows);
        return -ENOMEM;
    }
    for (uint32_t e = 0; e < links->num_links; ++e) {
        flows->widest = MRAIL_MAX(flows->widest, links->capacity[e]);
        flows->per_byte[e] = 1 / links->capacity[e];
    }
    *flows_p = flows;
    return 0;
}

/* What lanes are worth to each demand is a mask of its own. */
static void flows_set_worth(mrail_flows_t *flows, const double *worth)
{
    for (uint32_t k = 0; k < flows->passes.num_demands; ++k) {
        flows->mask[k] = k;
    }
    flows->passes.mask = flows->mask;
    flows->passes.mask_factor = worth;
    flows->passes.mask_length = NULL;
}

/* Which lanes demands may take, for the passes; none, if all may take all. */
static int flows_set_masks(mrail_flows_t *flows,
                           const mrail_flows_problem_t *problem)
{
    const uint32_t *lanes = problem->lanes;
    uint32_t all = (1u << flows->links.num_lanes) - 1, last = 0, number = 0;
    uint32_t width = flows->passes.width;
    int is_masked = 0;

    if (problem->worth != NULL) {
        flows_set_worth(flows, problem->worth);
        return 0;
    }
    for (uint32_t k = 0; k < flows->passes.num_demands; ++k) {
        if ((lanes[k] != last) &&
            (mrail_masks_find(&flows->masks, lanes[k], &number) != 0)) {
            return -ENOMEM;
        }
        last = lanes[k];
        flows->mask[k] = number;
        is_masked |= (lanes[k] & all) != all;
    }
    flows->passes.mask = NULL;
    if (!is_masked) {
        return 0;
    }
    if (flows->masks_set < flows->masks.num) {
        size_t count = (size_t)flows->masks.num * width;
        double *set = realloc(flows->mask_lanes, 2 * count * sizeof(*set));

        if (set == NULL) {
            return -ENOMEM;
        }
        flows->mask_lanes = set;
        for (size_t i = 0; i < count; ++i) {
            int is_open = (flows->masks.lanes[i / width] >> (i % width)) & 1;

            set[i] = is_open ? 1 : 0;
            set[count + i] = is_open ? 0 : MRAIL_FLOWS_CLOSED;
        }
        flows->masks_set = flows->masks.num;
    }
    flows->passes.mask = flows->mask;
    flows->passes.mask_factor = flows->mask_lanes;
    flows->passes.mask_length =
        flows->mask_lanes + (size_t)flows->masks_set * width;
    return 0;
}

int mrail_flows_load(mrail_flows_t *flows, const mrail_flows_problem_t *problem)
{
    flows->num_slots = problem->num_rows * flows->passes.width;
    flows->num_bytes = (size_t)problem->num_demands * flows->passes.width;
    flows->passes.num_demands = problem->num_demands;
    flows->passes.row = problem->row;
    flows->passes.demand = problem->demand;
    flows->base = problem->base;
    if (((flows->num_slots > flows->slots_room) &&
         (flows_allocate_slots(flows, flows->num_slots) != 0)) ||
        ((flows->num_bytes > flows->bytes_room) &&
         (flows_allocate_bytes(flows, flows->num_bytes) != 0)) ||
        (flows_set_masks(flows, problem) != 0)) {
        flows->passes.num_demands = flows->num_slots = 0;
        flows->num_bytes = 0;
        return -ENOMEM;
    }
    flows_set_slots(flows, problem->slot);
    if (flows->slots_linked != flows->num_slots) {
        flows_set_link_slots(flows);
    }
    return 0;
}

void mrail_flows_forget_prices(mrail_flows_t *flows, unsigned stage)
{
    memset(flows->prices[stage], 0,
           flows->links.num_links * sizeof(*flows->prices[stage]));
}

void mrail_flows_forget(mrail_flows_t *flows)
{
    for (unsigned stage = 0; stage < FLOWS_NUM_STAGES; ++stage) {
        mrail_flows_forget_prices(flows, stage);
    }
}

void mrail_flows_destroy(mrail_flows_t *flows)
{
    mrail_masks_cleanup(&flows->masks);
    free(flows->mask_lanes);
    free(flows->mask);
    free(flows->trial);
    free(flows->slot_relays);
    free(flows->slot_open);
    free(flows->slot_link);
    free(flows->link_slot);
    free(flows->link_first);
    free(flows->prices[0]);
    free(flows);
}
