/*
 * The topology of a communicator: nodes, rails and ranks, from one rank entry
 * of each rank. No MPI here: the caller exchanges the entries.
 */
#ifndef MRAIL_MPI_COLL_TOPOLOGY_H
#define MRAIL_MPI_COLL_TOPOLOGY_H

#include "uct/mrail_rails.h"

#include <stddef.h>
#include <stdint.h>

/* Parameters of rank 0, valid for the whole communicator. */
typedef struct mca_coll_mrail_params {
    uint64_t relay_threshold;  /* bytes: a larger demand may take relays */
    uint64_t relay_chunk_size; /* bytes of a relay buffer */
    uint64_t relay_buffers;    /* egress relay buffers of each rank */
    uint64_t relay_memory;   /* maximum bytes of all relay buffers of a rank */
    uint64_t copy_bandwidth; /* bytes per second between ranks of a node */
    uint64_t cross_rail;     /* 1: rails of different leaf switches reach each
                           * other */
    uint64_t inflight_us;    /* microseconds: see inflight.h */
} mca_coll_mrail_params_t;

/* The entry of a rank, exchanged as bytes. */
typedef struct mca_coll_mrail_rank_entry {
    uint64_t
        version;   /* of this software, equal at all ranks; 0: the rank was out
                    * of memory */
    uint64_t node; /* equal values: the same machine, or the same emulated
                    * node */
    uint64_t is_soft; /* emulated: the ranks must not use shared memory between
                       * nodes */
    uint64_t has_devices; /* the process has loaded a GPU driver */
    uint64_t num_rails;
    uint64_t speed;                     /* bytes per second of all its rails */
    uint64_t leaf[UCT_MRAIL_MAX_RAILS]; /* ascending */
    mca_coll_mrail_params_t params;
} mca_coll_mrail_rank_entry_t;

typedef struct mca_coll_mrail_topology {
    unsigned num_ranks, num_nodes, num_rails;
    uint32_t *node_of; /* by rank */
    uint32_t *rail_of;
    uint32_t *local; /* ranks of this rank's node, ascending */
    unsigned num_local;
    unsigned max_local; /* ranks of the largest node */
    uint32_t self;
    int is_soft;
    mca_coll_mrail_params_t params;
} mca_coll_mrail_topology_t;

/* Fills in the entry of this process, except version, has_devices and params,
 * from num_rails rails of uct_mrail_rails(). */
void mca_coll_mrail_rank_entry_fill(mca_coll_mrail_rank_entry_t *entry,
                                    const uct_mrail_rail_t *rails,
                                    unsigned num_rails);

#define MCA_COLL_MRAIL_NO_MEMORY "a rank has no memory"

/* The reason why these ranks cannot hold an agreement round; NULL: they can.
 * Reads all entries and allocates nothing, so all ranks get the same result. */
const char *
mca_coll_mrail_rank_entries_differ(const mca_coll_mrail_rank_entry_t *entries,
                                   unsigned num_ranks);

/*
 * Requires that mca_coll_mrail_rank_entries_differ() returned NULL. 0: relays
 * may help, and *topology_p is the topology. 1: they cannot help, and *why_p
 * (static) is the reason, equal at all ranks. -ENOMEM.
 */
int mca_coll_mrail_topology_create(const mca_coll_mrail_rank_entry_t *entries,
                                   unsigned num_ranks, unsigned self,
                                   mca_coll_mrail_topology_t **topology_p,
                                   const char **why_p);
void mca_coll_mrail_topology_destroy(mca_coll_mrail_topology_t *topology);

#endif
