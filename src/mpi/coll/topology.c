#include "config.h"
#include "mpi/coll/topology.h"

#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text != '\0'; ++text) {
        hash = mrail_mix64(hash ^ (uint8_t)*text);
    }
    return mrail_mix64(hash ^ 0x100);
}

/* Adds the boot id to the hash. Two hosts may have the same name, and
 * containers on one host may have different names. */
static uint64_t hash_boot(uint64_t hash)
{
    char text[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        ssize_t length = read(fd, text, sizeof(text) - 1);

        text[MRAIL_MAX(length, 0)] = '\0';
        close(fd);
    }
    return hash_text(hash, text);
}

void mca_coll_mrail_rank_entry_fill(mca_coll_mrail_rank_entry_t *entry,
                                    const uct_mrail_rail_t *rails,
                                    unsigned num_rails)
{
    const char *session = getenv("MRAIL_SOFT");
    const char *node = getenv("MRAIL_SOFT_NODE");
    char host[256] = "";

    (void)gethostname(host, sizeof(host) - 1);
    entry->node = hash_boot(hash_text(1, host));
    entry->is_soft = session != NULL && node != NULL;
    if (entry->is_soft) {
        entry->node = hash_text(hash_text(entry->node, session), node);
    }
    entry->num_rails = MRAIL_MIN(num_rails, UCT_MRAIL_MAX_RAILS);
    entry->speed = 0;
    memset(entry->leaf, 0, sizeof(entry->leaf));
    memset(entry->rates, 0, sizeof(entry->rates));
    for (unsigned i = 0; i < entry->num_rails; ++i) {
        entry->leaf[i] = rails[i].subnet;
        entry->rates[i] = (uint64_t)rails[i].speed;
        entry->speed += (uint64_t)rails[i].speed;
    }
}

/* ---- rank entries ---- */

static void number_nodes(const mca_coll_mrail_rank_entry_t *entries,
                         mca_coll_mrail_topology_t *topology)
{
    unsigned self = topology->self;
    /* first rank of each node; overwritten later by the list of ranks */
    uint32_t *first = topology->local;

    for (unsigned i = 0; i < topology->num_ranks; ++i) {
        unsigned node = 0;

        while (node < topology->num_nodes &&
               entries[first[node]].node != entries[i].node) {
            ++node;
        }
        if (node == topology->num_nodes) {
            first[topology->num_nodes++] = i;
        }
        topology->node_of[i] = node;
    }
    for (unsigned node = 0; node < topology->num_nodes; ++node) {
        unsigned count = 0;

        for (unsigned i = 0; i < topology->num_ranks; ++i) {
            count += topology->node_of[i] == node;
        }
        topology->max_local = MRAIL_MAX(topology->max_local, count);
        topology->min_local =
            (node == 0) ? count : MRAIL_MIN(topology->min_local, count);
    }
    for (unsigned i = 0; i < topology->num_ranks; ++i) {
        if (topology->node_of[i] == topology->node_of[self]) {
            topology->local[topology->num_local++] = i;
        }
    }
}

/* The sort key for the number of a rail: its leaf, and its index among the
 * rails of a rank on this leaf. */
typedef struct place {
    uint64_t leaf;
    unsigned index;
} place_t;

static place_t place_of(const mca_coll_mrail_rank_entry_t *entry, unsigned k)
{
    place_t place = {.leaf = entry->leaf[k]};

    while (place.index < k && entry->leaf[k - place.index - 1] == place.leaf) {
        ++place.index;
    }
    return place;
}

static int compare_places(const place_t *a, const place_t *b)
{
    return (a->leaf != b->leaf) ? ((a->leaf < b->leaf) ? -1 : 1)
                                : (int)a->index - (int)b->index;
}

/* Inserts a key in an ascending list. Returns 0 if the list is full. */
static int add_place(place_t *places, unsigned *count_p, const place_t *place)
{
    unsigned at = 0;

    while (at < *count_p && compare_places(&places[at], place) < 0) {
        ++at;
    }
    if (at < *count_p && compare_places(&places[at], place) == 0) {
        return 1;
    }
    if (*count_p == UCT_MRAIL_MAX_RAILS) {
        return 0;
    }
    memmove(places + at + 1, places + at, (*count_p - at) * sizeof(*places));
    places[at] = *place;
    ++*count_p;
    return 1;
}

/* Numbers the rails by ascending leaf. Returns 0 if there are too many
 * rails. */
static int number_rails(const mca_coll_mrail_rank_entry_t *entries,
                        mca_coll_mrail_topology_t *topology)
{
    place_t places[UCT_MRAIL_MAX_RAILS], place;
    unsigned count = 0;

    for (unsigned i = 0; i < topology->num_ranks; ++i) {
        for (unsigned k = 0; k < entries[i].num_rails; ++k) {
            place = place_of(&entries[i], k);
            if (!add_place(places, &count, &place)) {
                return 0;
            }
        }
    }
    topology->num_rails = count;
    for (unsigned i = 0; i < topology->num_ranks; ++i) {
        unsigned rail = 0;

        for (unsigned k = 0; k < entries[i].num_rails; ++k, ++rail) {
            place = place_of(&entries[i], k);
            while (compare_places(&places[rail], &place) != 0) {
                ++rail;
            }
            topology->rails_of[i] |= 1u << rail;
        }
    }
    return 1;
}

/* Numbers the rails of each rank as in the topology file. */
static void take_rails(mca_coll_mrail_topology_t *topology)
{
    topology->num_rails = mrail_plan_topo_num_rails(topology->file);
    for (unsigned i = 0; i < topology->num_ranks; ++i) {
        topology->rails_of[i] =
            mrail_plan_topo_rails_of(topology->file, topology->world[i]);
    }
}

/* ---- benefit of a plan ---- */

/* Rates count as equal if their relative difference is below this value. */
#define SAME_RATE 0.01

/* Returns 1 if the rail rates of both ranks have the same proportions. */
static int same_proportions(const mca_coll_mrail_rank_entry_t *a,
                            const mca_coll_mrail_rank_entry_t *b)
{
    for (unsigned k = 0; k < MRAIL_MIN(a->num_rails, b->num_rails); ++k) {
        double left = (double)a->rates[k] * (double)b->rates[0];
        double right = (double)b->rates[k] * (double)a->rates[0];
        double change = (left > right) ? left - right : right - left;

        if (change > SAME_RATE * MRAIL_MAX(left, right)) {
            return 0;
        }
    }
    return 1;
}

/* Returns 1 if both ranks reach the same rails. */
static int same_rails(const mca_coll_mrail_rank_entry_t *a,
                      const mca_coll_mrail_rank_entry_t *b)
{
    return a->num_rails == b->num_rails &&
           memcmp(a->leaf, b->leaf, sizeof(a->leaf)) == 0;
}

/* Returns 1 if the file states limits of a rank in addition to its ports. */
static int is_limited(const mrail_plan_topo_t *file, uint32_t rank)
{
    for (unsigned rail = 0; rail < mrail_plan_topo_num_rails(file); ++rail) {
        if ((mrail_plan_topo_rails_of(file, rank) >> rail & 1) != 0 &&
            mrail_topo_is_limited(file, rank, rail)) {
            return 1;
        }
    }
    return 0;
}

/* Returns 1 if, according to the file, the two ranks reach different rails, the
 * first one has limits in addition to its ports, or there are uplinks between
 * them. */
static int differs_in_file(const mrail_plan_topo_t *file, uint32_t rank,
                           uint32_t other)
{
    return mrail_plan_topo_rails_of(file, rank) !=
               mrail_plan_topo_rails_of(file, other) ||
           is_limited(file, rank) ||
           (file->num_leaf_groups > 0 && mrail_topo_group_of(file, rank) !=
                                             mrail_topo_group_of(file, other));
}

/*
 * Returns 1 if no plan can improve on the lanes of the transport, which load
 * each rail in proportion to its rate. This is the case if all ranks reach the
 * same rails, the rates of all nodes are in the same proportion, and there are
 * no further limits. All rails of a node then finish at the same time. The time
 * of the busiest node is its bytes divided by the sum of its rates, and no plan
 * can be faster (decision 0032).
 */
static int is_balanced(const mca_coll_mrail_rank_entry_t *entries,
                       unsigned num_ranks, const mrail_plan_topo_t *file,
                       const uint32_t *world)
{
    for (unsigned i = 0; i < num_ranks; ++i) {
        if (!same_proportions(&entries[i], &entries[0]) ||
            (file == NULL && !same_rails(&entries[i], &entries[0])) ||
            (file != NULL && differs_in_file(file, world[i], world[0]))) {
            return 0;
        }
    }
    return entries[0].num_rails > 1;
}

const char *
mca_coll_mrail_rank_entry_refusal(const mca_coll_mrail_rank_entry_t *entry)
{
    if (entry->version == MCA_COLL_MRAIL_NO_VERSION) {
        return MCA_COLL_MRAIL_NO_MEMORY;
    }
    if (entry->version == MCA_COLL_MRAIL_FOREIGN) {
        return "the processes belong to several jobs";
    }
    if (entry->version == MCA_COLL_MRAIL_ABSENT || entry->num_rails == 0) {
        return "a rank does not use mrail";
    }
    return NULL;
}

const char *
mca_coll_mrail_rank_entries_differ(const mca_coll_mrail_rank_entry_t *entries,
                                   unsigned num_ranks)
{
    const char *reason = NULL;

    for (unsigned i = 0; i < num_ranks; ++i) {
        if (entries[i].version <= MCA_COLL_MRAIL_FOREIGN) {
            return mca_coll_mrail_rank_entry_refusal(&entries[i]);
        }
        if (entries[i].version != entries[0].version) {
            reason = "ranks have different versions of mrail";
        }
    }
    return reason;
}

/* Returns the reason why these ranks are not planned, or NULL if they are. */
static const char *refuse(const mca_coll_mrail_rank_entry_t *entries,
                          unsigned num_ranks)
{
    for (unsigned i = 0; i < num_ranks; ++i) {
        const char *reason = mca_coll_mrail_rank_entry_refusal(&entries[i]);

        if (reason != NULL) {
            return reason;
        }
        if (entries[i].is_soft != entries[0].is_soft) {
            return "some nodes are emulated, others are not";
        }
    }
    return NULL;
}

static int topology_allocate(mca_coll_mrail_topology_t *topology)
{
    size_t num_ranks = topology->num_ranks;

    topology->node_of = calloc(num_ranks, sizeof(*topology->node_of));
    topology->rails_of = calloc(num_ranks, sizeof(*topology->rails_of));
    topology->local = calloc(num_ranks, sizeof(*topology->local));
    return (topology->node_of != NULL && topology->rails_of != NULL &&
            topology->local != NULL)
               ? 0
               : -ENOMEM;
}

/* Fills in nodes and rails. Returns NULL, or the reason if this fails. */
static const char *topology_fill(mca_coll_mrail_topology_t *topology,
                                 const mca_coll_mrail_rank_entry_t *entries)
{
    topology->is_soft = entries[0].is_soft != 0;
    topology->params = entries[0].params;
    topology->has_reads = 1;
    for (unsigned i = 0; i < topology->num_ranks; ++i) {
        topology->has_reads &= entries[i].address_length > 0;
        topology->max_rails =
            MRAIL_MAX(topology->max_rails, (unsigned)entries[i].num_rails);
    }
    if (topology->file != NULL) {
        take_rails(topology);
    } else if (!number_rails(entries, topology)) {
        return "there are more rails than coll/mrail supports";
    }
    number_nodes(entries, topology);
    return NULL;
}

static int any_gpu(const mca_coll_mrail_rank_entry_t *entries,
                   unsigned num_ranks)
{
    for (unsigned i = 0; i < num_ranks; ++i) {
        if (entries[i].has_gpu) {
            return 1;
        }
    }
    return 0;
}

/* Returns the reason why plans cannot help, or NULL. */
static const char *helpless(const mca_coll_mrail_topology_t *topology)
{
    return (topology->num_ranks < 3)   ? "there are fewer than three ranks"
           : (topology->num_nodes < 2) ? "all ranks are on one node"
           : (topology->num_rails < 2) ? "there is only one rail"
           : (topology->max_local < 2 && topology->max_rails < 2)
               ? "no node has two ranks"
               : NULL;
}

/* ---- limits of the topology file ---- */

/* Returns the lower of two rates. A negative rate means unlimited. */
static double lower(double a, double b)
{
    return (b < 0) ? a : MRAIL_MIN(a, b);
}

/* Returns each rank's part of the uplinks of its group's leaf on a rail. */
static double uplink_part(const mca_coll_mrail_topology_t *topology,
                          uint32_t group, unsigned rail)
{
    mrail_topo_port_t uplinks = mrail_topo_uplinks(topology->file, group, rail);
    unsigned count = 0;

    for (uint32_t i = 0; i < topology->num_ranks; ++i) {
        count +=
            (topology->rails_of[i] >> rail & 1) != 0 &&
            mrail_topo_group_of(topology->file, topology->world[i]) == group;
    }
    return (count > 0) ? lower(uplinks.out, uplinks.in) / count
                       : MRAIL_PLAN_UNLIMITED;
}

/* Sets the limits of this rank's rails from the topology file. The bytes of a
 * rail cross the uplinks of both leaves, so the leaf with the smallest part
 * determines the limit. */
static void set_limits(mca_coll_mrail_topology_t *topology)
{
    const mrail_plan_topo_t *file = topology->file;
    unsigned count =
        mca_coll_mrail_topology_num_rails(topology, topology->self);

    for (unsigned k = 0; k < UCT_MRAIL_MAX_RAILS; ++k) {
        mrail_topo_port_t *limit = &topology->limits[k], reach;
        unsigned rail;

        limit->out = limit->in = INFINITY;
        if (file == NULL || k >= count) {
            continue;
        }
        rail = mca_coll_mrail_topology_rail(topology, topology->self, k);
        reach = mrail_topo_reach(file, topology->world[topology->self], rail);
        for (uint32_t group = 0; group < file->num_leaf_groups; ++group) {
            limit->out = lower(limit->out, uplink_part(topology, group, rail));
        }
        limit->in = lower(limit->out, reach.in);
        limit->out = lower(limit->out, reach.out);
    }
}

static uint64_t least_rate(const mca_coll_mrail_rank_entry_t *entries,
                           unsigned num_ranks)
{
    uint64_t least = UINT64_MAX;

    for (unsigned i = 0; i < num_ranks; ++i) {
        for (unsigned k = 0; k < entries[i].num_rails; ++k) {
            least = MRAIL_MIN(least, entries[i].rates[k]);
        }
    }
    return least;
}

int mca_coll_mrail_topology_create(const mca_coll_mrail_rank_entry_t *entries,
                                   unsigned num_ranks, unsigned self,
                                   const mrail_plan_topo_t *file,
                                   const uint32_t *world,
                                   mca_coll_mrail_topology_t **topology_p,
                                   const char **reason_p)
{
    const char *no_help = NULL;
    mca_coll_mrail_topology_t *topology;
    int ret;

    *reason_p = refuse(entries, num_ranks);
    if (*reason_p == NULL && is_balanced(entries, num_ranks, file, world)) {
        no_help = "ranks use several rails each, which the transport balances "
                  "without a plan";
        *reason_p = any_gpu(entries, num_ranks) ? NULL : no_help;
    }
    if (*reason_p != NULL) {
        return 1;
    }
    topology = calloc(1, sizeof(*topology));
    if (topology == NULL) {
        return -ENOMEM;
    }
    topology->num_ranks = num_ranks;
    topology->self = self;
    topology->file = file;
    topology->world = world;
    topology->least_rate = least_rate(entries, num_ranks);
    ret = topology_allocate(topology);
    if (ret == 0) {
        *reason_p = topology_fill(topology, entries);
        if (*reason_p == NULL) {
            if (no_help == NULL) {
                no_help = helpless(topology);
            }
            topology->is_for_devices = no_help != NULL;
            topology->has_gpus = any_gpu(entries, num_ranks);
            *reason_p = topology->has_gpus ? NULL : no_help;
        }
        ret = *reason_p != NULL;
    }
    if (ret == 0) {
        set_limits(topology);
        *topology_p = topology;
    } else {
        mca_coll_mrail_topology_destroy(topology);
    }
    return ret;
}

void mca_coll_mrail_topology_destroy(mca_coll_mrail_topology_t *topology)
{
    if (topology != NULL) {
        free(topology->node_of);
        free(topology->rails_of);
        free(topology->local);
        mca_coll_mrail_gpus_destroy(topology->gpus);
        free(topology);
    }
}

int mca_coll_mrail_topology_has_cross_rail(
    const mca_coll_mrail_topology_t *topology)
{
    return (topology->file != NULL) ? topology->file->has_cross_rail
                                    : topology->params.cross_rail != 0;
}

unsigned
mca_coll_mrail_topology_uplinks(const mca_coll_mrail_topology_t *topology,
                                uint32_t from, uint32_t to, unsigned rail,
                                double paths[MRAIL_PLAN_MAX_UPLINKS])
{
    const mrail_plan_topo_t *file = topology->file;
    uint32_t from_group, to_group;

    if (file == NULL) {
        return 0;
    }
    from_group = mrail_topo_group_of(file, topology->world[from]);
    to_group = mrail_topo_group_of(file, topology->world[to]);
    return (from_group != to_group)
               ? mrail_topo_uplink_paths(file, from_group, to_group, rail,
                                         paths)
               : 0;
}
