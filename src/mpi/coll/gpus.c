#include "config.h"
#include "mpi/coll/gpus.h"

#include "base/util.h"

#include <errno.h>
#include <stdlib.h>

int mca_coll_mrail_gpus_create(uint32_t num_ranks, uint32_t num_nodes,
                               const uint32_t *node_of,
                               const mrail_plan_topo_t *file,
                               const uint32_t *world,
                               mca_coll_mrail_gpus_t **gpus_p)
{
    mca_coll_mrail_gpus_t *gpus = calloc(1, sizeof(*gpus));

    if (gpus == NULL) {
        return -ENOMEM;
    }
    gpus->num_ranks = num_ranks;
    gpus->num_nodes = num_nodes;
    gpus->node_of = node_of;
    gpus->file = file;
    gpus->world = world;
    gpus->entries = calloc(num_ranks, sizeof(*gpus->entries));
    gpus->links = calloc(num_nodes, sizeof(*gpus->links));
    if (gpus->entries == NULL || gpus->links == NULL) {
        mca_coll_mrail_gpus_destroy(gpus);
        return -ENOMEM;
    }
    *gpus_p = gpus;
    return 0;
}

void mca_coll_mrail_gpus_destroy(mca_coll_mrail_gpus_t *gpus)
{
    if (gpus != NULL) {
        free(gpus->entries);
        free(gpus->links);
        free(gpus);
    }
}

/* ---- rates, in bytes per second; 0 if there is no known link ---- */

static double limited(double rate)
{
    return MRAIL_MIN(rate, MRAIL_PLAN_MAX_CAPACITY);
}

/* Returns 1 if the topology file states the GPU links of this rank's node. */
static int is_in_file(const mca_coll_mrail_gpus_t *gpus, uint32_t rank)
{
    const mrail_topo_node_t *node;

    if (gpus->file == NULL) {
        return 0;
    }
    node = &gpus->file->nodes[gpus->file->ranks[gpus->world[rank]].node];
    return node->is_pairwise || node->is_switched;
}

static double pair_rate(const mca_coll_mrail_gpus_t *gpus, uint32_t from,
                        uint32_t to)
{
    const mrail_cuda_links_t *entry = &gpus->entries[from];

    if (is_in_file(gpus, from)) {
        return mrail_topo_pairwise(gpus->file, gpus->world[from],
                                   gpus->world[to]);
    }
    for (uint64_t i = 0; i < entry->num_peers; ++i) {
        if (entry->peers[i].pci == gpus->entries[to].pci) {
            return limited((double)entry->peers[i].rate);
        }
    }
    return 0;
}

static mrail_topo_port_t switch_rates(const mca_coll_mrail_gpus_t *gpus,
                                      uint32_t rank)
{
    mrail_topo_port_t port;

    if (is_in_file(gpus, rank)) {
        const mrail_topo_rank_t *file = &gpus->file->ranks[gpus->world[rank]];

        port = (mrail_topo_port_t){.out = file->up, .in = file->down};
    } else {
        port.out = port.in = limited((double)gpus->entries[rank].switch_rate);
    }
    return port;
}

/* ---- nodes ---- */

/* Returns the kind of links between two ranks of a node. */
static mca_coll_mrail_gpu_links_t pair_links(const mca_coll_mrail_gpus_t *gpus,
                                             uint32_t a, uint32_t b)
{
    if (gpus->entries[a].pci == gpus->entries[b].pci) {
        return MCA_COLL_MRAIL_LINKS_UNKNOWN;
    }
    if (pair_rate(gpus, a, b) > 0 && pair_rate(gpus, b, a) > 0) {
        return MCA_COLL_MRAIL_LINKS_PAIRWISE;
    }
    return (switch_rates(gpus, a).out > 0 && switch_rates(gpus, b).in > 0)
               ? MCA_COLL_MRAIL_LINKS_SWITCH
               : MCA_COLL_MRAIL_LINKS_UNKNOWN;
}

/* Returns the kind of links that all pairs of a node have in common. Returns
 * UNKNOWN if the kinds differ, or the node has too many ranks for pairwise
 * links. */
static mca_coll_mrail_gpu_links_t node_links(const mca_coll_mrail_gpus_t *gpus,
                                             uint32_t node)
{
    mca_coll_mrail_gpu_links_t links = MCA_COLL_MRAIL_LINKS_UNKNOWN;
    uint32_t count = 0, pairs = 0;

    for (uint32_t a = 0; a < gpus->num_ranks; ++a) {
        count += gpus->node_of[a] == node;
        for (uint32_t b = 0; b < gpus->num_ranks; ++b) {
            mca_coll_mrail_gpu_links_t now;

            if (a == b || gpus->node_of[a] != node ||
                gpus->node_of[b] != node) {
                continue;
            }
            now = pair_links(gpus, a, b);
            if (now == MCA_COLL_MRAIL_LINKS_UNKNOWN ||
                (pairs++ > 0 && now != links)) {
                return MCA_COLL_MRAIL_LINKS_UNKNOWN;
            }
            links = now;
        }
    }
    return (links == MCA_COLL_MRAIL_LINKS_PAIRWISE &&
            count > MRAIL_PLAN_MAX_PAIRWISE)
               ? MCA_COLL_MRAIL_LINKS_UNKNOWN
               : links;
}

void mca_coll_mrail_gpus_set(mca_coll_mrail_gpus_t *gpus)
{
    gpus->has_all = 1;
    gpus->any_pairwise = 0;
    for (uint32_t i = 0; i < gpus->num_ranks; ++i) {
        mrail_cuda_links_t *entry = &gpus->entries[i];

        gpus->has_all &= entry->pci != 0;
        /* Entries come from other processes, so limit their counts. */
        entry->num_peers = MRAIL_MIN(entry->num_peers, MRAIL_CUDA_MAX_PEERS);
    }
    for (uint32_t node = 0; node < gpus->num_nodes; ++node) {
        gpus->links[node] = (uint8_t)node_links(gpus, node);
        gpus->any_pairwise |=
            gpus->links[node] == MCA_COLL_MRAIL_LINKS_PAIRWISE;
    }
    gpus->is_known = 1;
}

int mca_coll_mrail_gpus_add(const mca_coll_mrail_gpus_t *gpus, uint32_t rank,
                            double other, mrail_plan_topo_t *topo)
{
    uint32_t node = gpus->node_of[rank];
    mrail_topo_port_t port = {.out = other, .in = other};
    int ret = 0;

    if (gpus->links[node] != MCA_COLL_MRAIL_LINKS_PAIRWISE) {
        if (gpus->links[node] == MCA_COLL_MRAIL_LINKS_SWITCH) {
            port = switch_rates(gpus, rank);
        }
        return mrail_plan_topo_set_switch(topo, rank, port.out, port.in);
    }
    for (uint32_t to = 0; to < gpus->num_ranks && ret == 0; ++to) {
        if (to != rank && gpus->node_of[to] == node) {
            ret = mrail_plan_topo_set_link(topo, rank, to,
                                           pair_rate(gpus, rank, to));
        }
    }
    return ret;
}

int mca_coll_mrail_gpus_serve(const mca_coll_mrail_records_t *records)
{
    size_t count = 0;

    for (uint32_t i = 0; i < records->num_ranks; ++i) {
        const uint64_t *record = mca_coll_mrail_records_get(records, i);
        unsigned flags = mca_coll_mrail_record_flags(record);
        size_t num = mca_coll_mrail_record_num_demands(record);

        count += num;
        if ((flags & MCA_COLL_MRAIL_NO_PEER) != 0 ||
            (num > 0 && (flags & MCA_COLL_MRAIL_DEVICE_OUT) == 0)) {
            return 0;
        }
        for (size_t k = 0; k < num; ++k) {
            const uint64_t *to = mca_coll_mrail_records_get(
                records, mca_coll_mrail_record_to(record, k));

            if ((mca_coll_mrail_record_flags(to) & MCA_COLL_MRAIL_DEVICE_IN) ==
                0) {
                return 0;
            }
        }
    }
    return count > 0;
}
