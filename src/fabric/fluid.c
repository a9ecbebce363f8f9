#include "config.h"
#include "fabric/fluid.h"

#include "base/grow.h"
#include "base/util.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* A remainder below this fraction of a group's bytes is a rounding error and
 * counts as 0. */
#define DONE_TOLERANCE 1e-9

typedef struct fluid_group {
    double bytes, remaining, start_s, end_s, rate;
    uint32_t first, num; /* flows of the group */
} fluid_group_t;

typedef struct fluid_flow {
    uint32_t group;
    uint32_t num;
    uint32_t links[MRAIL_FLUID_MAX_HOPS];
    double rate; /* negative until it is fixed */
} fluid_flow_t;

typedef struct fluid_link {
    double capacity, bytes;
    double left; /* capacity not yet used in this filling */
    /* number of flows that have no rate yet in this filling */
    uint32_t num;
    uint32_t first, end; /* range in fluid->on_link */
} fluid_link_t;

typedef struct fluid_heap_item {
    double share;
    uint32_t link;
} fluid_heap_item_t;

struct mrail_fluid {
    uint32_t num_links, num_groups, num_flows;
    uint32_t groups_allocated, flows_allocated;
    fluid_link_t *links;
    fluid_group_t *groups;
    fluid_flow_t *flows;
    uint32_t *active; /* groups that have started and have not ended */
    uint32_t num_active;
    uint32_t *waiting; /* groups that have not started, in descending order of
                        * start */
    uint32_t num_waiting;
    uint32_t *on_link; /* active flows, by link */
    uint32_t listed;   /* number of active flows when on_link was made */
    uint32_t num_flowing;
    fluid_heap_item_t *heap;
    uint32_t heap_num;
    double now_s, makespan_s;
    uint64_t num_fills;
};

mrail_fluid_t *mrail_fluid_create(uint32_t num_links, const double *capacity)
{
    mrail_fluid_t *fluid = calloc(1, sizeof(*fluid));

    if (fluid == NULL) {
        return NULL;
    }
    fluid->num_links = num_links;
    fluid->links = calloc(num_links + 1, sizeof(*fluid->links));
    fluid->heap = malloc((num_links + 1) * sizeof(*fluid->heap));
    if (fluid->links == NULL || fluid->heap == NULL) {
        mrail_fluid_destroy(fluid);
        return NULL;
    }
    for (uint32_t i = 0; i < num_links; ++i) {
        assert(capacity[i] > 0);
        fluid->links[i].capacity = capacity[i];
    }
    return fluid;
}

void mrail_fluid_destroy(mrail_fluid_t *fluid)
{
    if (fluid == NULL) {
        return;
    }
    free(fluid->links);
    free(fluid->groups);
    free(fluid->flows);
    free(fluid->active);
    free(fluid->waiting);
    free(fluid->on_link);
    free(fluid->heap);
    free(fluid);
}

int64_t mrail_fluid_group_add(mrail_fluid_t *fluid, double bytes)
{
    assert(bytes > 0);
    if (fluid->num_groups == fluid->groups_allocated) {
        uint32_t allocated = MRAIL_MAX(64, 2 * fluid->groups_allocated);

        if (!mrail_grow(&fluid->groups, allocated, sizeof(*fluid->groups))) {
            return -ENOMEM;
        }
        fluid->groups_allocated = allocated;
    }
    fluid->groups[fluid->num_groups] =
        (fluid_group_t){.bytes = bytes,
                        .remaining = bytes,
                        .end_s = INFINITY,
                        .first = fluid->num_flows};
    return fluid->num_groups++;
}

void mrail_fluid_group_start(mrail_fluid_t *fluid, double start_s)
{
    assert(fluid->num_groups > 0 && start_s >= 0);
    fluid->groups[fluid->num_groups - 1].start_s = start_s;
}

int mrail_fluid_flow_add(mrail_fluid_t *fluid, const uint32_t *links,
                         unsigned num)
{
    fluid_flow_t *flow;

    assert(num >= 1 && num <= MRAIL_FLUID_MAX_HOPS && fluid->num_groups > 0);
    if (fluid->num_flows == fluid->flows_allocated) {
        uint32_t allocated = MRAIL_MAX(64, 2 * fluid->flows_allocated);

        if (!mrail_grow(&fluid->flows, allocated, sizeof(*fluid->flows))) {
            return -ENOMEM;
        }
        fluid->flows_allocated = allocated;
    }
    flow = &fluid->flows[fluid->num_flows++];
    *flow = (fluid_flow_t){.group = fluid->num_groups - 1, .num = num};
    for (unsigned i = 0; i < num; ++i) {
        assert(links[i] < fluid->num_links);
        flow->links[i] = links[i];
    }
    ++fluid->groups[fluid->num_groups - 1].num;
    return 0;
}

/* ---- Lists ---- */

/* Lists the flows of active groups by link. Rebuilds the lists whenever a group
 * has started or half of the flows are complete. */
static int list_flows(mrail_fluid_t *fluid)
{
    size_t total = 0;

    if (fluid->on_link != NULL && 2 * fluid->num_flowing > fluid->listed) {
        return 0;
    }
    for (uint32_t i = 0; i < fluid->num_links; ++i) {
        fluid->links[i].end = 0;
    }
    for (uint32_t a = 0; a < fluid->num_active; ++a) {
        const fluid_group_t *group = &fluid->groups[fluid->active[a]];

        for (uint32_t f = group->first; f < group->first + group->num; ++f) {
            for (uint32_t i = 0; i < fluid->flows[f].num; ++i) {
                ++fluid->links[fluid->flows[f].links[i]].end;
                ++total;
            }
        }
    }
    free(fluid->on_link);
    fluid->on_link = malloc((total + 1) * sizeof(*fluid->on_link));
    if (fluid->on_link == NULL) {
        return -ENOMEM;
    }
    total = 0;
    for (uint32_t i = 0; i < fluid->num_links; ++i) {
        fluid_link_t *link = &fluid->links[i];

        link->first = (uint32_t)total;
        total += link->end;
        link->end = link->first;
    }
    for (uint32_t a = 0; a < fluid->num_active; ++a) {
        const fluid_group_t *group = &fluid->groups[fluid->active[a]];

        for (uint32_t f = group->first; f < group->first + group->num; ++f) {
            for (uint32_t i = 0; i < fluid->flows[f].num; ++i) {
                fluid_link_t *link = &fluid->links[fluid->flows[f].links[i]];

                fluid->on_link[link->end++] = f;
            }
        }
    }
    fluid->listed = fluid->num_flowing;
    return 0;
}

/* ---- Progressive filling ---- */

static void heap_push(mrail_fluid_t *fluid, double share, uint32_t link)
{
    uint32_t i = fluid->heap_num++;

    while (i > 0 && fluid->heap[(i - 1) / 2].share > share) {
        fluid->heap[i] = fluid->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    fluid->heap[i] = (fluid_heap_item_t){.share = share, .link = link};
}

static fluid_heap_item_t heap_pop(mrail_fluid_t *fluid)
{
    fluid_heap_item_t top = fluid->heap[0];
    fluid_heap_item_t last = fluid->heap[--fluid->heap_num];
    uint32_t i = 0;

    for (;;) {
        uint32_t child = 2 * i + 1;

        if (child >= fluid->heap_num) {
            break;
        }
        if (child + 1 < fluid->heap_num &&
            fluid->heap[child + 1].share < fluid->heap[child].share) {
            ++child;
        }
        if (fluid->heap[child].share >= last.share) {
            break;
        }
        fluid->heap[i] = fluid->heap[child];
        i = child;
    }
    fluid->heap[i] = last;
    return top;
}

static void fill_begin(mrail_fluid_t *fluid)
{
    for (uint32_t i = 0; i < fluid->num_links; ++i) {
        fluid->links[i].left = fluid->links[i].capacity;
        fluid->links[i].num = 0;
    }
    for (uint32_t a = 0; a < fluid->num_active; ++a) {
        fluid_group_t *group = &fluid->groups[fluid->active[a]];

        group->rate = 0;
        for (uint32_t f = group->first; f < group->first + group->num; ++f) {
            fluid_flow_t *flow = &fluid->flows[f];

            flow->rate = -1;
            for (uint32_t i = 0; i < flow->num; ++i) {
                ++fluid->links[flow->links[i]].num;
            }
        }
    }
    fluid->heap_num = 0;
    for (uint32_t i = 0; i < fluid->num_links; ++i) {
        const fluid_link_t *link = &fluid->links[i];

        if (link->num != 0) {
            heap_push(fluid, link->left / link->num, i);
        }
    }
}

/* Assigns equal shares of a bottleneck link to its flows without a rate. */
static void fill_link(mrail_fluid_t *fluid, uint32_t l, double share)
{
    const fluid_link_t *link = &fluid->links[l];

    for (uint32_t at = link->first; at < link->end; ++at) {
        fluid_flow_t *flow = &fluid->flows[fluid->on_link[at]];

        if (flow->rate >= 0 || fluid->groups[flow->group].remaining == 0) {
            continue;
        }
        flow->rate = share;
        fluid->groups[flow->group].rate += share;
        for (uint32_t i = 0; i < flow->num; ++i) {
            fluid->links[flow->links[i]].left -= share;
            --fluid->links[flow->links[i]].num;
        }
    }
}

/* Computes the rates. Filling a link can only increase the shares of other
 * links. An outdated heap key is therefore too small, and is corrected when it
 * reaches the top. */
static void fill(mrail_fluid_t *fluid)
{
    ++fluid->num_fills;
    fill_begin(fluid);
    while (fluid->heap_num != 0) {
        fluid_heap_item_t item = heap_pop(fluid);
        const fluid_link_t *link = &fluid->links[item.link];
        double share;

        if (link->num == 0) {
            continue;
        }
        share = MRAIL_MAX(link->left, 0) / link->num;
        if (share > item.share * (1 + 1e-12) && fluid->heap_num != 0 &&
            share > fluid->heap[0].share) {
            heap_push(fluid, share, item.link);
        } else {
            fill_link(fluid, item.link, share);
        }
    }
}

/* ---- Time ---- */

/* Returns the time from now to the next start or end of a group. */
static double next_change(const mrail_fluid_t *fluid)
{
    double dt_s = INFINITY;

    if (fluid->num_waiting != 0) {
        uint32_t next = fluid->waiting[fluid->num_waiting - 1];

        dt_s = fluid->groups[next].start_s - fluid->now_s;
    }
    for (uint32_t a = 0; a < fluid->num_active; ++a) {
        const fluid_group_t *group = &fluid->groups[fluid->active[a]];

        dt_s = MRAIL_MIN(dt_s, group->remaining / group->rate);
    }
    return dt_s;
}

/* Advances a group by dt_s: its flows carry bytes in proportion to their
 * rates. */
static void carry(mrail_fluid_t *fluid, fluid_group_t *group, double dt_s)
{
    double sent_s = MRAIL_MIN(dt_s, group->remaining / group->rate);

    for (uint32_t f = group->first; f < group->first + group->num; ++f) {
        const fluid_flow_t *flow = &fluid->flows[f];

        for (uint32_t i = 0; i < flow->num; ++i) {
            fluid->links[flow->links[i]].bytes += flow->rate * sent_s;
        }
    }
    group->remaining -= group->rate * sent_s;
    if (group->remaining <= DONE_TOLERANCE * group->bytes) {
        group->remaining = 0;
        group->end_s = fluid->now_s + sent_s;
        fluid->makespan_s = MRAIL_MAX(fluid->makespan_s, group->end_s);
        fluid->num_flowing -= group->num;
    }
}

static void advance(mrail_fluid_t *fluid, double dt_s)
{
    uint32_t kept = 0;

    for (uint32_t a = 0; a < fluid->num_active; ++a) {
        fluid_group_t *group = &fluid->groups[fluid->active[a]];

        carry(fluid, group, dt_s);
        if (group->remaining > 0) {
            fluid->active[kept++] = fluid->active[a];
        }
    }
    fluid->num_active = kept;
    fluid->now_s += dt_s;
}

typedef struct fluid_start {
    double start_s;
    uint32_t group;
} fluid_start_t;

/* Orders starts from the last one to the first, then by descending group. */
static int compare_starts(const void *left, const void *right)
{
    const fluid_start_t *a = left, *b = right;

    if (a->start_s != b->start_s) {
        return (a->start_s > b->start_s) ? -1 : 1;
    }
    return (a->group > b->group) ? -1 : 1;
}

static int list_waiting(mrail_fluid_t *fluid)
{
    fluid_start_t *starts = malloc((fluid->num_groups + 1) * sizeof(*starts));
    uint32_t num = 0;

    if (starts == NULL) {
        return -ENOMEM;
    }
    for (uint32_t g = 0; g < fluid->num_groups; ++g) {
        if (fluid->groups[g].remaining > 0) {
            starts[num++] = (fluid_start_t){.start_s = fluid->groups[g].start_s,
                                            .group = g};
        }
    }
    qsort(starts, num, sizeof(*starts), compare_starts);
    for (uint32_t i = 0; i < num; ++i) {
        fluid->waiting[i] = starts[i].group;
    }
    fluid->num_waiting = num;
    free(starts);
    return 0;
}

static int run_begin(mrail_fluid_t *fluid)
{
    size_t allocated = (size_t)fluid->num_groups + 1;

    free(fluid->active);
    free(fluid->waiting);
    fluid->active = malloc(allocated * sizeof(*fluid->active));
    fluid->waiting = malloc(allocated * sizeof(*fluid->waiting));
    fluid->num_active = fluid->num_waiting = fluid->num_flowing = 0;
    if (fluid->active == NULL || fluid->waiting == NULL) {
        return -ENOMEM;
    }
    for (uint32_t g = 0; g < fluid->num_groups; ++g) {
        if (fluid->groups[g].num == 0) {
            return -EDEADLK;
        }
    }
    return list_waiting(fluid);
}

/* Starts the groups whose start time is no later than slack_s from now. */
static void start_groups(mrail_fluid_t *fluid, double slack_s)
{
    uint32_t before = fluid->num_active;

    while (fluid->num_waiting != 0) {
        uint32_t next = fluid->waiting[fluid->num_waiting - 1];

        if (fluid->groups[next].start_s > fluid->now_s + slack_s) {
            break;
        }
        --fluid->num_waiting;
        fluid->active[fluid->num_active++] = next;
        fluid->num_flowing += fluid->groups[next].num;
    }
    if (fluid->num_active != before) {
        free(fluid->on_link);
        fluid->on_link = NULL; /* list_flows() must list the new flows */
    }
}

int mrail_fluid_run(mrail_fluid_t *fluid, double until_s, double quantum_s)
{
    int ret = run_begin(fluid);

    while (ret == 0 && mrail_fluid_num_left(fluid) != 0 &&
           fluid->now_s < until_s) {
        double dt_s;

        start_groups(fluid, quantum_s / 2);
        ret = list_flows(fluid);
        if (ret == 0) {
            fill(fluid);
            dt_s = MRAIL_MAX(next_change(fluid), quantum_s);
            advance(fluid, MRAIL_MIN(dt_s, until_s - fluid->now_s));
        }
    }
    return ret;
}

/* ---- Results ---- */

double mrail_fluid_end(const mrail_fluid_t *fluid, uint32_t group)
{
    return fluid->groups[group].end_s;
}

double mrail_fluid_makespan(const mrail_fluid_t *fluid)
{
    return fluid->makespan_s;
}

double mrail_fluid_link_bytes(const mrail_fluid_t *fluid, uint32_t link)
{
    return fluid->links[link].bytes;
}

double mrail_fluid_remaining(const mrail_fluid_t *fluid, uint32_t group)
{
    return fluid->groups[group].remaining;
}

double mrail_fluid_rate(const mrail_fluid_t *fluid, uint32_t flow)
{
    return fluid->flows[flow].rate;
}

uint64_t mrail_fluid_num_fills(const mrail_fluid_t *fluid)
{
    return fluid->num_fills;
}

uint32_t mrail_fluid_num_groups(const mrail_fluid_t *fluid)
{
    return fluid->num_groups;
}

uint32_t mrail_fluid_num_left(const mrail_fluid_t *fluid)
{
    return fluid->num_active + fluid->num_waiting;
}
