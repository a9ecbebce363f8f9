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
                              w->num_ranks,
                              w->num_ranks * w->num_rails,
                              w->num_ranks * w->num_rails};
    uint32_t first = 0;

    for (unsigned i = 0; i < kind; ++i) {
        first += count[i];
    }
    return first;
}

uint32_t paths_num_links(const machine_t *w)
{
    return first_of(w, MRAIL_PLAN_REACH_IN + 1);
}

uint32_t paths_link(const machine_t *w, mrail_plan_link_kind_t kind, unsigned a,
                    unsigned b)
{
    int is_switch =
        (kind == MRAIL_PLAN_SWITCH_UP) || (kind == MRAIL_PLAN_SWITCH_DOWN);
    unsigned width = (kind == MRAIL_PLAN_GPU_LINK) ? w->num_ranks
                     : is_switch                   ? 1
                                                   : w->num_rails;

    return first_of(w, kind) + a * width + b;
}

double paths_capacity(const machine_t *w, uint32_t link)
{
    unsigned kind = MRAIL_PLAN_REACH_IN, rails = w->num_rails;

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
    case MRAIL_PLAN_SWITCH_DOWN:
        return w->down[link];
    case MRAIL_PLAN_REACH_OUT:
        return MRAIL_MAX(w->reach_out[link / rails][link % rails], 0);
    default:
        return MRAIL_MAX(w->reach_in[link / rails][link % rails], 0);
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

static int reaches(const machine_t *w, unsigned rank, unsigned rail)
{
    return (w->rails[rank] >> rail) & 1;
}

/* Lists the ranks that may be at the rail's port: this rank, or its relays.
 * Returns their number. */
static unsigned ports_of(const machine_t *w, unsigned rank, unsigned rail,
                         unsigned *ports)
{
    unsigned all[MACHINE_MAX_PER_NODE], num = 0, count;

    if (reaches(w, rank, rail)) {
        ports[0] = rank;
        return 1;
    }
    for (unsigned i = 0; i < w->num_ranks; ++i) {
        if ((w->node[i] == w->node[rank]) && reaches(w, i, rail)) {
            all[num++] = i;
        }
    }
    count = 0;
    for (unsigned i = 0; i < num; ++i) {
        ports[count++] = all[(w->place[rank] + i) % num];
    }
    return count;
}

/* Adds the limit of a rank on a rail. */
static int reach(const machine_t *w, path_t *path, unsigned rank, unsigned rail,
                 int is_out)
{
    double limit = is_out ? w->reach_out[rank][rail] : w->reach_in[rank][rail];

    return (limit < 0) ||
           take(w, path, is_out ? MRAIL_PLAN_REACH_OUT : MRAIL_PLAN_REACH_IN,
                rank, rail);
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

/* Builds the path over a rail, with these ranks at its ports. */
static int by_rail(const machine_t *w, const mrail_plan_demand_t *d,
                   unsigned rail, unsigned out, unsigned in, path_t *path)
{
    *path = no_path();
    path->rail_out = path->rail_in = path->lane = rail;
    if (out != d->from) {
        path->relay_out = out;
        ++path->num_relays;
    }
    if (in != d->to) {
        path->relay_in = in;
        ++path->num_relays;
    }
    return ((out == d->from) || hop(w, path, d->from, out)) &&
           reach(w, path, out, rail, 1) &&
           through_fabric(w, path, w->node[d->from], w->node[d->to]) &&
           reach(w, path, in, rail, 0) &&
           ((in == d->to) || hop(w, path, in, d->to));
}

/* The first MRAIL_PLAN_MAX_RELAYS relays with links count. */
static unsigned over_rail(const machine_t *w, const mrail_plan_demand_t *d,
                          unsigned rail, path_t *paths)
{
    unsigned out[MACHINE_MAX_PER_NODE], in[MACHINE_MAX_PER_NODE];
    unsigned num_out = ports_of(w, d->from, rail, out);
    unsigned num_in = ports_of(w, d->to, rail, in), count = 0, ways = 0;

    for (unsigned i = 0; (i < num_out) && (ways < MRAIL_PLAN_MAX_RELAYS); ++i) {
        unsigned before = count, ends = 0;

        for (unsigned k = 0; (k < num_in) && (ends < MRAIL_PLAN_MAX_RELAYS);
             ++k) {
            ends += (unsigned)by_rail(w, d, rail, out[i], in[k], &paths[count]);
            count = before + ends;
        }
        ways += (ends > 0);
    }
    return count;
}

/* Returns 1 if both ends reach a rail that is up at both. */
static int has_common_rail(const machine_t *w, const mrail_plan_demand_t *d)
{
    for (unsigned rail = 0; rail < w->num_rails; ++rail) {
        if (reaches(w, d->from, rail) && reaches(w, d->to, rail) &&
            (w->out[w->node[d->from]][rail] > 0) &&
            (w->in[w->node[d->to]][rail] > 0)) {
            return 1;
        }
    }
    return 0;
}

static int by_spine(const machine_t *w, const mrail_plan_demand_t *d,
                    unsigned out, unsigned in, path_t *path)
{
    *path = no_path();
    path->rail_out = out;
    path->rail_in = in;
    path->lane = w->num_rails;
    return (out != in) && reaches(w, d->from, out) && reaches(w, d->to, in) &&
           reach(w, path, d->from, out, 1) &&
           through_fabric(w, path, w->node[d->from], w->node[d->to]) &&
           reach(w, path, d->to, in, 0);
}

static unsigned over_rails(const machine_t *w, const mrail_plan_demand_t *d,
                           path_t *paths)
{
    int has_spine = w->cross_rail && !has_common_rail(w, d);
    unsigned count = 0, rails = w->num_rails;

    for (unsigned rail = 0; rail < rails; ++rail) {
        count += over_rail(w, d, rail, &paths[count]);
    }
    for (unsigned i = 0; has_spine && (i < rails * rails); ++i) {
        count += (unsigned)by_spine(w, d, i / rails, i % rails, &paths[count]);
    }
    return count;
}

/* Adds the direct link, if there is one, and the paths over relays. */
static unsigned within_node(const machine_t *w, const mrail_plan_demand_t *d,
                            path_t *paths)
{
    unsigned count = 0;

    paths[0] = no_path();
    paths[0].lane = d->to;
    count += (unsigned)hop(w, &paths[0], d->from, d->to);
    for (unsigned k = 0; k < w->num_ranks; ++k) {
        if ((w->link[d->from][k] > 0) && (w->link[k][d->to] > 0)) {
            paths[count] = no_path();
            paths[count].relay_out = paths[count].lane = k;
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

/* Returns 1 if the path leaves by a rail that the sender reaches, and enters by
 * the same one. */
static int is_own(const machine_t *w, const mrail_plan_demand_t *d,
                  const path_t *path)
{
    return (path->rail_out != MRAIL_PLAN_NONE) &&
           (path->rail_out == path->rail_in) &&
           reaches(w, d->from, path->rail_out);
}

/* Returns the number of paths with the fewest relays, counting lanes; of the
 * lanes that the sender reaches if only these count. */
static unsigned count_lanes(const machine_t *w, const mrail_plan_demand_t *d,
                            const path_t *paths, int count, int own)
{
    unsigned lanes = 0;

    for (int i = 0; (i < count) && (paths[i].num_relays == paths[0].num_relays);
         ++i) {
        lanes += ((i == 0) || (paths[i].lane != paths[i - 1].lane)) &&
                 (!own || is_own(w, d, &paths[i]));
    }
    return lanes;
}

int paths_alone(const machine_t *w, const mrail_plan_demand_t *d,
                const path_t *paths, int count)
{
    int own = count_lanes(w, d, paths, count, 1) > 0, i = 0;
    unsigned turn = (d->from + d->to) % count_lanes(w, d, paths, count, own);

    for (;; ++i) {
        if (((i == 0) || (paths[i].lane != paths[i - 1].lane)) &&
            (!own || is_own(w, d, &paths[i])) && (turn-- == 0)) {
            return i;
        }
    }
}
