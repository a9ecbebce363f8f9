/*
 * The topology of a communicator: its nodes, rails and ranks, derived from one
 * entry per rank. This code does not use MPI; the caller exchanges the entries.
 */
#ifndef MRAIL_MPI_COLL_TOPOLOGY_H
#define MRAIL_MPI_COLL_TOPOLOGY_H

#include "mpi/coll/gpus.h"
#include "orchestrator/plan.h"
#include "orchestrator/topo.h"
#include "uct/mrail_direct.h"
#include "uct/mrail_rails.h"

#include <stddef.h>
#include <stdint.h>

/* Parameters. Rank 0's values apply to the whole communicator. */
typedef struct mca_coll_mrail_params {
    uint64_t relay_threshold;  /* bytes; larger demands may take relays */
    uint64_t relay_chunk_size; /* bytes per relay buffer */
    uint64_t relay_buffers;    /* egress relay buffers per rank */
    uint64_t relay_memory;   /* maximum bytes of all relay buffers, per rank */
    uint64_t copy_bandwidth; /* bytes per second between ranks of a node */
    /* 1 if rails on different leaf switches reach each other */
    uint64_t cross_rail;
    uint64_t inflight_us; /* microseconds; see inflight.h */
    /* 1 if a plan must save more time than making it costs */
    uint64_t plan_budget;
} mca_coll_mrail_params_t;

/* The entry of a rank, which is exchanged as raw bytes. */
typedef struct mca_coll_mrail_rank_entry {
    uint64_t version; /* software version, equal on all ranks; or see below */
    uint64_t node;    /* hash, equal on one host or one emulated node */
    /* 1 if emulated; ranks of different nodes must not share memory */
    uint64_t is_soft;
    uint64_t num_rails;
    uint64_t speed; /* sum of the rates of its rails, bytes per second */
    uint64_t leaf[UCT_MRAIL_MAX_RAILS]; /* ascending */
    uint64_t address_length;            /* 0 if RDMA READs are not available */
    uint8_t address[UCT_MRAIL_DIRECT_ADDRESS_MAX]; /* see mrail_direct.h */
    /* bytes per second of each rail's port; 0 if unknown */
    uint64_t rates[UCT_MRAIL_MAX_RAILS];
    uct_mrail_direct_lanes_t lanes;
    uint64_t has_gpu;   /* 1 if the process has loaded a GPU driver */
    uint64_t topo_file; /* hash of the topology file; special values below */
    mca_coll_mrail_params_t params;
} mca_coll_mrail_rank_entry_t;

/*
 * Without a topology file, a rail is a leaf, and rails are numbered by
 * ascending leaf. If a rank has several rails on a leaf, they have different
 * numbers. With a topology file, rails have the numbers of the file. The rails
 * in a rank's entry correspond, in ascending order, to those that the file
 * lists for the rank.
 */
typedef struct mca_coll_mrail_topology {
    unsigned num_ranks, num_nodes, num_rails;
    unsigned max_rails; /* largest number of rails of a rank */
    uint32_t *node_of;  /* indexed by rank */
    uint32_t *rails_of; /* by rank: the rails that it reaches, as bits */
    /* the topology file, and the number of each rank in it; NULL if there is no
     * file */
    const mrail_plan_topo_t *file;
    const uint32_t *world;
    uint32_t *local; /* ranks of this rank's node, ascending */
    unsigned num_local;
    unsigned max_local; /* number of ranks on the largest node */
    unsigned min_local; /* number of ranks on the smallest node */
    /* lowest rate of a port, bytes per second; 0 if a rate is unknown */
    uint64_t least_rate;
    uint32_t self;
    int is_soft;
    /* 1 if plans cannot help, but some rank has a GPU. Agreement rounds then
     * determine whether buffers are in device memory. */
    int is_for_devices;
    int refuses_plans; /* 1 if the info of a rank's communicator disables
                        * plans */
    int has_gpus;      /* 1 if some rank has loaded a GPU driver */
    mca_coll_mrail_gpus_t *gpus; /* owned; NULL if none so far */
    int has_reads; /* 1 if all ranks can READ and be READ from (direct.h) */
    /* by rail of this rank's entry: the limit that the file states for it, or
     * this rank's equal part of the uplinks, if that is lower; infinite if the
     * file states neither */
    mrail_topo_port_t limits[UCT_MRAIL_MAX_RAILS];
    mca_coll_mrail_params_t params;
} mca_coll_mrail_topology_t;

/* Special values of `version`. */
#define MCA_COLL_MRAIL_NO_VERSION 0u /* the rank was out of memory */
#define MCA_COLL_MRAIL_ABSENT 1u     /* the process does not load coll/mrail */
#define MCA_COLL_MRAIL_FOREIGN 2u    /* the process belongs to another job */

/* Special values of `topo_file`, which is otherwise the hash of a file. */
#define MCA_COLL_MRAIL_NO_FILE 0u  /* the user has not set a file */
#define MCA_COLL_MRAIL_BAD_FILE 1u /* the process cannot read it */

/* Fills in the entry of this process, except for version, address,
 * topo_file and params. `rails` are the num_rails rails that
 * uct_mrail_rails() returned. */
void mca_coll_mrail_rank_entry_fill(mca_coll_mrail_rank_entry_t *entry,
                                    const uct_mrail_rail_t *rails,
                                    unsigned num_rails);

#define MCA_COLL_MRAIL_NO_MEMORY "a rank is out of memory"

/* Returns the reason why a communicator with this rank is not planned, or NULL
 * if there is none. */
const char *
mca_coll_mrail_rank_entry_refusal(const mca_coll_mrail_rank_entry_t *entry);

/* Returns the reason why these ranks cannot have an agreement round, or NULL if
 * they can. The function reads all entries and does not allocate memory, so the
 * result is the same on all ranks. */
const char *
mca_coll_mrail_rank_entries_differ(const mca_coll_mrail_rank_entry_t *entries,
                                   unsigned num_ranks);

/*
 * Creates the topology. Requires that mca_coll_mrail_rank_entries_differ()
 * returned NULL. Returns 0 with the topology if plans may help, or if a rank
 * has a GPU. Otherwise, returns 1, and *why_p is the reason, a static string
 * that is equal on all ranks. Returns -ENOMEM if memory runs out.
 *
 * `file` is the content of a topology file, and `world` the number of each rank
 * in it. Both may be NULL. mca_coll_mrail_topo_file_check() must have accepted
 * them. The caller keeps both.
 */
int mca_coll_mrail_topology_create(const mca_coll_mrail_rank_entry_t *entries,
                                   unsigned num_ranks, unsigned self,
                                   const mrail_plan_topo_t *file,
                                   const uint32_t *world,
                                   mca_coll_mrail_topology_t **topology_p,
                                   const char **reason_p);
void mca_coll_mrail_topology_destroy(mca_coll_mrail_topology_t *topology);

/* Returns the number of rails of a rank. */
static inline unsigned
mca_coll_mrail_topology_num_rails(const mca_coll_mrail_topology_t *topology,
                                  uint32_t rank)
{
    return (unsigned)__builtin_popcount(topology->rails_of[rank]);
}

/* Returns the number of rail k of a rank's entry, which lists its rails in
 * ascending order. */
static inline unsigned
mca_coll_mrail_topology_rail(const mca_coll_mrail_topology_t *topology,
                             uint32_t rank, unsigned k)
{
    uint32_t left = topology->rails_of[rank];

    while (k-- > 0) {
        left &= left - 1;
    }
    return (unsigned)__builtin_ctz(left);
}

/* Returns the index of a rail in the rank's entry, which is also its index in
 * the rank's list of uct_mrail_rails(); -1 if the rank does not reach the
 * rail. */
static inline int
mca_coll_mrail_topology_place(const mca_coll_mrail_topology_t *topology,
                              uint32_t rank, unsigned rail)
{
    uint32_t rails = topology->rails_of[rank];

    return ((rails >> rail & 1) != 0)
               ? __builtin_popcount(rails & ((1u << rail) - 1))
               : -1;
}

static inline int
mca_coll_mrail_topology_own_rail(const mca_coll_mrail_topology_t *topology,
                                 unsigned rail)
{
    return mca_coll_mrail_topology_place(topology, topology->self, rail);
}

/* Writes the capacity of each path through the uplinks from one rank to another
 * on a rail that both reach. Returns the number of paths, or 0 if they are
 * unknown or the ranks are in one leaf group. */
unsigned
mca_coll_mrail_topology_uplinks(const mca_coll_mrail_topology_t *topology,
                                uint32_t from, uint32_t to, unsigned rail,
                                double paths[MRAIL_PLAN_MAX_UPLINKS]);

/* Returns 1 if ranks without a common rail reach each other through spines. */
int mca_coll_mrail_topology_has_cross_rail(
    const mca_coll_mrail_topology_t *topology);

#endif
