#include "config.h"
#include "plan_paths.h"

#include <assert.h>

/* Returns the first index of each kind of link, in the order of
 * mrail_plan_link_kind_t. */
static uint32_t first_of(const machine_t *w, unsigned kind)
{
    const uint32_t count[] = {w->num_nodes * w->num_rails,
                              w->num_nodes * w->num_rails,
                              w->num_leaf_groups * w->num_rails,
                              w->num_leaf_groups * w->num_rails,
                              w->num_ranks * w->num_ranks,
                              w->num_ranks,
                              w->num_ranks};
    uint32_t first = 0;

    for (unsigned i = 0; i < kind; ++i) {
        first += count[i];
    }
    return first;
}

uint32_t paths_num_links(const machine_t *w)
{
    return first_of(w, MRAIL_PLAN_SWITCH_DOWN + 1);
}

uint32_t paths_link(const machine_t *w, mrail_plan_link_kind_t kind, unsigned a,
                    unsigned b)
{
    unsigned width = (kind == MRAIL_PLAN_GPU_LINK)    ? w->num_ranks
                     : (kind >= MRAIL_PLAN_SWITCH_UP) ? 1
                                                      : w->num_rails;

    return first_of(w, kind) + a * width + b;
}

double paths_capacity(const machine_t *w, uint32_t link)
{
    unsigned kind = MRAIL_PLAN_SWITCH_DOWN, rails = w->num_rails;

    while (first_of(w, kind) > link) {
        --kind;
    }
    link -= first_of(w, kind);
    switch (kind) {
    case MRAIL_PLAN_RAIL_OUT:
        return w->out[link / rails][link % rails];
    case MRAIL_PLAN_RAIL_IN:
        return w->in[link / rails][link % rails];
    case MRAIL_PLAN_UPLINK_UP:
        return w->uplink_up[link / rails][link % rails];
    case MRAIL_PLAN_UPLINK_DOWN:
        return w->uplink_down[link / rails][link % rails];
    case MRAIL_PLAN_GPU_LINK:
        return w->link[link / w->num_ranks][link % w->num_ranks];
    case MRAIL_PLAN_SWITCH_UP:
        return w->up[link];
    default:
        return w->down[link];
    }
}

/* Adds a link to the path. Returns 0 if the link does not exist or is down. */
static int take(const machine_t *w, path_t *path, mrail_plan_link_kind_t kind,
                unsigned a, unsigned b)
{
    uint32_t link = paths_link(w, kind, a, b);

    assert(path->num_links < PATH_MAX_LINKS);
    path->link[path->num_links++] = link;
    return paths_capacity(w, link) > 0;
}

static int are_linked(const machine_t *w, unsigned from, unsigned to)
{
    return (w->node[from] == w->node[to]) &&
           ((w->link[from][to] > 0) || ((w->up[from] > 0) && (w->up[to] > 0)));
}

/* Adds the links from one GPU in a node to another. */
static int hop(const machine_t *w, path_t *path, unsigned from, unsigned to)
{
    if (!are_linked(w, from, to)) {
        return 0;
    }
    if (w->link[from][to] > 0) {
        return take(w, path, MRAIL_PLAN_GPU_LINK, from, to);
    }
    return take(w, path, MRAIL_PLAN_SWITCH_UP, from, 0) &&
           take(w, path, MRAIL_PLAN_SWITCH_DOWN, to, 0);
}

static path_t no_path(void)
{
    return (path_t){.relay_out = MRAIL_PLAN_NONE,
                    .relay_in = MRAIL_PLAN_NONE,
                    .rail_out = MRAIL_PLAN_NONE,
                    .rail_in = MRAIL_PLAN_NONE};
}

/* Returns the rank at the rail's port, which is this rank, a relay, or none. */
static unsigned port_of(const machine_t *w, unsigned rank, unsigned rail)
{
    if ((w->rail[rank] == MRAIL_PLAN_NONE) || (w->rail[rank] == rail)) {
        return rank;
    }
    for (unsigned i = 0; i < w->num_ranks; ++i) {
        if ((w->node[i] == w->node[rank]) && (w->rail[i] == rail)) {
            return i;
        }
    }
    return MRAIL_PLAN_NONE;
}

static int through_fabric(const machine_t *w, path_t *path, unsigned from,
                          unsigned to)
{
    unsigned a = w->leaf_group[from], b = w->leaf_group[to];
    int spine = (a != b) || (path->rail_out != path->rail_in);

    return take(w, path, MRAIL_PLAN_RAIL_OUT, from, path->rail_out) &&
           (!spine || !w->has_uplinks[a][path->rail_out] ||
            take(w, path, MRAIL_PLAN_UPLINK_UP, a, path->rail_out)) &&
           (!spine || !w->has_uplinks[b][path->rail_in] ||
            take(w, path, MRAIL_PLAN_UPLINK_DOWN, b, path->rail_in)) &&
           take(w, path, MRAIL_PLAN_RAIL_IN, to, path->rail_in);
}

static int by_rail(const machine_t *w, const mrail_plan_demand_t *d,
                   unsigned rail, path_t *path)
{
    unsigned out = port_of(w, d->from, rail), in = port_of(w, d->to, rail);

    *path = no_path();
    if ((out == MRAIL_PLAN_NONE) || (in == MRAIL_PLAN_NONE)) {
        return 0;
    }
    path->rail_out = path->rail_in = rail;
    if (out != d->from) {
        path->relay_out = out;
        ++path->num_relays;
    }
    if (in != d->to) {
        path->relay_in = in;
        ++path->num_relays;
    }
    return ((out == d->from) || hop(w, path, d->from, out)) &&
           through_fabric(w, path, w->node[d->from], w->node[d->to]) &&
           ((in == d->to) || hop(w, path, in, d->to));
}

static int by_spine(const machine_t *w, const mrail_plan_demand_t *d,
                    path_t *path)
{
    *path = no_path();
    path->rail_out = w->rail[d->from];
    path->rail_in = w->rail[d->to];
    return w->cross_rail && (path->rail_out != MRAIL_PLAN_NONE) &&
           (path->rail_in != MRAIL_PLAN_NONE) &&
           (path->rail_out != path->rail_in) &&
           through_fabric(w, path, w->node[d->from], w->node[d->to]);
}

static unsigned over_rails(const machine_t *w, const mrail_plan_demand_t *d,
                           path_t *paths)
{
    unsigned count = 0;

    for (unsigned rail = 0; rail < w->num_rails; ++rail) {
        count += (unsigned)by_rail(w, d, rail, &paths[count]);
    }
    return count + (unsigned)by_spine(w, d, &paths[count]);
}

/* Adds the direct link, if there is one, and the paths over relays. */
static unsigned within_node(const machine_t *w, const mrail_plan_demand_t *d,
                            path_t *paths)
{
    unsigned count = 0;

    paths[0] = no_path();
    count += (unsigned)hop(w, &paths[0], d->from, d->to);
    for (unsigned k = 0; k < w->num_ranks; ++k) {
        if ((w->link[d->from][k] > 0) && (w->link[k][d->to] > 0)) {
            paths[count] = no_path();
            paths[count].relay_out = k;
            paths[count].num_relays = 1;
            (void)hop(w, &paths[count], d->from, k);
            (void)hop(w, &paths[count], k, d->to);
            ++count;
        }
    }
    return count;
}

static void fewest_first(path_t *paths, unsigned count)
{
    for (unsigned i = 1; i < count; ++i) {
        path_t path = paths[i];
        unsigned k = i;

        for (; (k > 0) && (paths[k - 1].num_relays > path.num_relays); --k) {
            paths[k] = paths[k - 1];
        }
        paths[k] = path;
    }
}

uint64_t paths_relay_threshold(const machine_t *w)
{
    return (w->options.relay_threshold == UINT64_MAX)
               ? 1000000
               : w->options.relay_threshold;
}

int paths_of(const machine_t *w, const mrail_plan_demand_t *d, path_t *paths)
{
    unsigned count, few = 0;

    if ((d->from == d->to) || (d->bytes == 0)) {
        return PATHS_NOT_PLANNED;
    }
    if ((w->node[d->from] != w->node[d->to]) ||
        (w->hairpin && !are_linked(w, d->from, d->to))) {
        count = over_rails(w, d, paths);
    } else {
        count = within_node(w, d, paths);
        if (count == 0) {
            return PATHS_NOT_PLANNED;
        }
    }
    fewest_first(paths, count);
    if (d->bytes > paths_relay_threshold(w)) {
        return (int)count;
    }
    while ((few < count) && (paths[few].num_relays == paths[0].num_relays)) {
        ++few;
    }
    return (int)few;
}

int paths_alone(const machine_t *w, const mrail_plan_demand_t *d,
                const path_t *paths, int count)
{
    int few = 0, own = -1;

    while ((few < count) && (paths[few].num_relays == paths[0].num_relays)) {
        if ((paths[few].rail_out != MRAIL_PLAN_NONE) &&
            (paths[few].rail_out == w->rail[d->from])) {
            own = few;
        }
        ++few;
    }
    return (own >= 0) ? own : (int)((d->from + d->to) % (unsigned)few);
}
