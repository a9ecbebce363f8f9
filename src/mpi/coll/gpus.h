/*
 * The GPUs of all ranks and their links, which the plan of an exchange between
 * device memory uses. All ranks of a communicator have the same data. This code
 * does not use MPI; the caller exchanges the entries.
 */
#ifndef MRAIL_MPI_COLL_GPUS_H
#define MRAIL_MPI_COLL_GPUS_H

#include "cuda/links.h"
#include "mpi/coll/record.h"
#include "orchestrator/plan.h"
#include "orchestrator/topo.h"

#include <stdint.h>

/* The links between the GPUs of a node. They count as unknown if ranks of the
 * node share a GPU, or a pair of GPUs has no link. */
typedef enum mca_coll_mrail_gpu_links {
    MCA_COLL_MRAIL_LINKS_UNKNOWN,
    MCA_COLL_MRAIL_LINKS_PAIRWISE, /* each pair of GPUs has a link */
    MCA_COLL_MRAIL_LINKS_SWITCH,
} mca_coll_mrail_gpu_links_t;

typedef struct mca_coll_mrail_gpus {
    uint32_t num_ranks, num_nodes;
    const uint32_t *node_of; /* by rank */
    /* the topology file, and the number of each rank in it; NULL if there is no
     * file */
    const mrail_plan_topo_t *file;
    const uint32_t *world;
    mrail_cuda_links_t *entries; /* by rank */
    uint8_t *links;              /* by node: mca_coll_mrail_gpu_links_t */
    int is_known;                /* 1 if the entries have been exchanged */
    int has_all;                 /* 1 if every rank has a GPU */
    int any_pairwise;
    int is_refused; /* 1 if relay slots cannot be in device memory */
} mca_coll_mrail_gpus_t;

/* The caller owns the arrays, which must outlive the object. Returns 0 or
 * -ENOMEM. */
int mca_coll_mrail_gpus_create(uint32_t num_ranks, uint32_t num_nodes,
                               const uint32_t *node_of,
                               const mrail_plan_topo_t *file,
                               const uint32_t *world,
                               mca_coll_mrail_gpus_t **gpus_p);
void mca_coll_mrail_gpus_destroy(mca_coll_mrail_gpus_t *gpus);

/* Evaluates `entries`, which the caller has filled in for all ranks. */
void mca_coll_mrail_gpus_set(mca_coll_mrail_gpus_t *gpus);

/* Adds the links of a rank's GPU to the topology of a plan, which already has
 * all ranks. If the links of the node are unknown, their rate is `other`.
 * Returns 0 or -errno. */
int mca_coll_mrail_gpus_add(const mca_coll_mrail_gpus_t *gpus, uint32_t rank,
                            double other, mrail_plan_topo_t *topo);

/* Returns 1 if the records contain at least one demand, and each demand is from
 * one device buffer to another. Other processes of the node can copy these
 * buffers. */
int mca_coll_mrail_gpus_serve(const mca_coll_mrail_records_t *records);

#endif
