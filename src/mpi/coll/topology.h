/*
 * Who is where: nodes, rails and ranks of a communicator, from what each rank tells
 * once.  No MPI in here: the caller carries the bytes.
 */
#ifndef MRAIL_MPI_COLL_TOPOLOGY_H
#define MRAIL_MPI_COLL_TOPOLOGY_H

#include "uct/mrail_rails.h"

#include <stddef.h>
#include <stdint.h>

/* What rank 0 of a communicator says holds for all. */
typedef struct mca_coll_mrail_params {
    uint64_t relay_above; /* bytes: a demand of more may take relays */
    uint64_t chunk;       /* bytes of a relay's slot */
    uint64_t slots;       /* of each rank, on the way out */
    uint64_t memory;      /* bytes of all slots of a rank at most */
    uint64_t copy_rate;   /* bytes per second between the ranks of a node */
    uint64_t cross;       /* 1: rails of different leaves reach each other */
    uint64_t pace;        /* microseconds: pace.h */
} mca_coll_mrail_params_t;

/* What a rank tells, as bytes. */
typedef struct mca_coll_mrail_rank_entry {
    uint64_t
        version;   /* of this software; all have to be of one.  0: there was no
                           memory to tell */
    uint64_t node; /* equal: the same machine, or emulated node */
    uint64_t is_soft; /* emulated: its ranks must not meet in shared memory */
    uint64_t has_devices; /* the driver of GPUs is in the process */
    uint64_t num_rails;
    uint64_t speed;                     /* of all its rails, bytes per second */
    uint64_t leaf[UCT_MRAIL_MAX_RAILS]; /* rising */
    mca_coll_mrail_params_t params;
} mca_coll_mrail_rank_entry_t;

typedef struct mca_coll_mrail_topology {
    unsigned num_ranks, num_nodes, num_rails;
    uint32_t *node_of; /* by rank */
    uint32_t *rail_of;
    uint32_t *local; /* ranks of this rank's node, rising */
    unsigned num_local;
    unsigned max_local; /* ranks of the largest node */
    uint32_t self;
    int is_soft;
    mca_coll_mrail_params_t params;
} mca_coll_mrail_topology_t;

/* What this process tells, but for version, has_devices and params.  num_rails rails as
 * uct_mrail_rails() has them. */
void mca_coll_mrail_rank_entry_fill(mca_coll_mrail_rank_entry_t *member,
                                    const uct_mrail_rail_t *rails,
                                    unsigned num_rails);

#define MCA_COLL_MRAIL_NO_MEMORY "a rank has no memory"

/* Why these cannot even agree on what they need; NULL: they can.  All members read,
 * nothing allocated: the same answer at all ranks. */
const char *
mca_coll_mrail_rank_entries_differ(const mca_coll_mrail_rank_entry_t *members,
                                   unsigned num_ranks);

/*
 * Members that do not differ.  0: relays may help among these ranks, and *topology_p is
 * who they are.  1: they cannot, and *why_p (static) says why not, the same at all
 * ranks.  -ENOMEM.
 */
int mca_coll_mrail_topology_create(const mca_coll_mrail_rank_entry_t *members,
                                   unsigned num_ranks, unsigned self,
                                   mca_coll_mrail_topology_t **topology_p,
                                   const char **why_p);
void mca_coll_mrail_topology_destroy(mca_coll_mrail_topology_t *topology);

#endif
