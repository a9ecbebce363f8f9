#include "config.h"
#include "mpi/coll/topology.h"

#include "base/util.h"

#include <errno.h>
#include <fcntl.h>
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

/* Adds the boot id to the hash, because two machines may have the same name,
 * and containers on one machine may have different names. */
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
    for (unsigned i = 0; i < entry->num_rails; ++i) {
        entry->leaf[i] = rails[i].subnet;
        entry->speed += (uint64_t)rails[i].speed;
    }
}

/* ---- rank entries ---- */

static void number_nodes(const mca_coll_mrail_rank_entry_t *entries,
                         mca_coll_mrail_topology_t *topology)
{
    unsigned self = topology->self;
    /* first rank of each node; later the list of ranks */
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
    }
    for (unsigned i = 0; i < topology->num_ranks; ++i) {
        if (topology->node_of[i] == topology->node_of[self]) {
            topology->local[topology->num_local++] = i;
        }
    }
}

/* Numbers the rails by ascending leaf. Returns 0 if there are too many
 * rails. */
static int number_rails(const mca_coll_mrail_rank_entry_t *entries,
                        mca_coll_mrail_topology_t *topology)
{
    uint64_t leaves[UCT_MRAIL_MAX_RAILS];
    unsigned count = 0;

    for (unsigned i = 0; i < topology->num_ranks; ++i) {
        uint64_t leaf = entries[i].leaf[0];
        unsigned at = 0;

        while (at < count && leaves[at] < leaf) {
            ++at;
        }
        if (at < count && leaves[at] == leaf) {
            continue;
        }
        if (count == UCT_MRAIL_MAX_RAILS) {
            return 0;
        }
        memmove(leaves + at + 1, leaves + at, (count - at) * sizeof(*leaves));
        leaves[at] = leaf;
        ++count;
    }
    topology->num_rails = count;
    for (unsigned i = 0; i < topology->num_ranks; ++i) {
        while (leaves[topology->rail_of[i]] != entries[i].leaf[0]) {
            ++topology->rail_of[i];
        }
    }
    return 1;
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
    if (entry->num_rails > 1) {
        return "ranks use several rails each: the transport balances them "
               "without a plan";
    }
    return NULL;
}

const char *
mca_coll_mrail_rank_entries_differ(const mca_coll_mrail_rank_entry_t *entries,
                                   unsigned num_ranks)
{
    const char *why = NULL;

    for (unsigned i = 0; i < num_ranks; ++i) {
        if (entries[i].version <= MCA_COLL_MRAIL_FOREIGN) {
            return mca_coll_mrail_rank_entry_refusal(&entries[i]);
        }
        if (entries[i].version != entries[0].version) {
            why = "ranks have different versions of mrail";
        }
    }
    return why;
}

/* Returns the reason why these ranks are not planned, or NULL if they are. */
static const char *refuse(const mca_coll_mrail_rank_entry_t *entries,
                          unsigned num_ranks)
{
    for (unsigned i = 0; i < num_ranks; ++i) {
        const char *why = mca_coll_mrail_rank_entry_refusal(&entries[i]);

        if (why != NULL) {
            return why;
        }
        if (entries[i].is_soft != entries[0].is_soft) {
            return "some nodes are emulated, some are not";
        }
    }
    return NULL;
}

static int topology_fill(mca_coll_mrail_topology_t *topology,
                         const mca_coll_mrail_rank_entry_t *entries)
{
    size_t num_ranks = topology->num_ranks;

    topology->node_of = calloc(num_ranks, sizeof(*topology->node_of));
    topology->rail_of = calloc(num_ranks, sizeof(*topology->rail_of));
    topology->local = calloc(num_ranks, sizeof(*topology->local));
    if (topology->node_of == NULL || topology->rail_of == NULL ||
        topology->local == NULL) {
        return -ENOMEM;
    }
    topology->is_soft = entries[0].is_soft != 0;
    topology->params = entries[0].params;
    topology->has_reads = 1;
    for (size_t i = 0; i < num_ranks; ++i) {
        topology->has_reads &= entries[i].address_length > 0;
    }
    number_nodes(entries, topology);
    return 0;
}

int mca_coll_mrail_topology_create(const mca_coll_mrail_rank_entry_t *entries,
                                   unsigned num_ranks, unsigned self,
                                   mca_coll_mrail_topology_t **topology_p,
                                   const char **why_p)
{
    mca_coll_mrail_topology_t *topology;
    int ret = 1;

    *why_p = refuse(entries, num_ranks);
    if (*why_p != NULL) {
        return 1;
    }
    topology = calloc(1, sizeof(*topology));
    if (topology == NULL) {
        return -ENOMEM;
    }
    topology->num_ranks = num_ranks;
    topology->self = self;
    ret = topology_fill(topology, entries);
    if (ret < 0) {
        goto err_topology;
    }
    ret = 1;
    if (topology->num_nodes < 2) {
        *why_p = "all ranks are on one node";
    } else if (!number_rails(entries, topology)) {
        *why_p = "there are more rails than are supported";
    } else if (topology->num_rails < 2) {
        *why_p = "there is one rail";
    } else if (topology->max_local < 2) {
        *why_p = "no node has two ranks";
    } else {
        *topology_p = topology;
        return 0;
    }
err_topology:
    mca_coll_mrail_topology_destroy(topology);
    return ret;
}

void mca_coll_mrail_topology_destroy(mca_coll_mrail_topology_t *topology)
{
    if (topology != NULL) {
        free(topology->node_of);
        free(topology->rail_of);
        free(topology->local);
        free(topology);
    }
}
