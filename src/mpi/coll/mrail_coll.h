/*
 * Open MPI coll component "mrail": MPI_Alltoallv, MPI_Alltoall and MPI_Alltoallw by a
 * plan, where ranks that are bound to a rail each can relay for one another.
 *
 *     component   parameters, counters, which communicators          mrail_coll_component.c
 *     module      one per communicator: calls, and who serves them   mrail_coll_module.c
 *     setup       who is where, the node's shared memory             mrail_coll_setup.c
 *     ask         what all ranks have to send, the plan              mrail_coll_ask.c
 *     exchange    the bytes                                          mrail_coll_exchange.c
 *
 * Every decision is taken alike by all ranks of a communicator, from what all have
 * told each other, so no rank waits for another that went a different way.  Whatever
 * cannot be planned is served by the module that Open MPI had chosen before.
 */
#ifndef MRAIL_MPI_COLL_H
#define MRAIL_MPI_COLL_H

#include "mpi/coll/parts.h"

#include "mpi/coll/mode.h"
#include "mpi/coll/slices.h"
#include "mpi/coll/world.h"
#include "relay/arena.h"
#include "relay/relay.h"

#include "ompi/mca/coll/coll.h"
#include "ompi/request/request.h"

#include <stdint.h>

/* Names of functions of the previous module that are called. */
#define MCA_COLL_MRAIL_PREVIOUS(name)                                         \
    mca_coll_base_module_##name##_fn_t name;                                  \
    mca_coll_base_module_t *name##_module

typedef struct mca_coll_mrail_module {
    mca_coll_base_module_t super;
    MCA_COLL_MRAIL_PREVIOUS(alltoall);
    MCA_COLL_MRAIL_PREVIOUS(alltoallv);
    MCA_COLL_MRAIL_PREVIOUS(alltoallw);
    mca_coll_mrail_mode_t mode;
    int is_set_up;
    const char *away;     /* why it never serves this communicator; NULL: it may */
    mca_coll_mrail_world_t *world;
    mca_coll_mrail_slices_t *slices;
    uint64_t *words;      /* of all ranks, as slices.h has them */
    mca_coll_mrail_part_t *sends, *recvs; /* by rank */
    ompi_request_t **requests;
    uint64_t relay_above; /* bytes; from setup on that of rank 0 */
    int has_arena;        /* relays were asked for: the arena is there */
    mrail_relay_arena_t arena;
    mrail_relay_t *relay;
    struct mca_coll_mrail_port *port; /* the relay's */
    uint64_t capacity;    /* bytes per second of this rank's rail, as last told */
} mca_coll_mrail_module_t;
OBJ_CLASS_DECLARATION(mca_coll_mrail_module_t);

/* ---- component ------------------------------------------------------------- */

typedef struct mca_coll_mrail_settings {
    int priority;
    int verbose;
    unsigned long long relay_above, chunk, slots, memory, copy_rate, capacity;
    bool cross;
} mca_coll_mrail_settings_t;
extern mca_coll_mrail_settings_t mca_coll_mrail_settings;

/* MPI_T performance variables, of the process. */
typedef struct mca_coll_mrail_counters {
    unsigned long long calls, planned_calls;
    unsigned long long bytes, planned_bytes, relayed_bytes;
    unsigned long long agree_ns, plan_ns, exchange_ns;
} mca_coll_mrail_counters_t;
extern mca_coll_mrail_counters_t mca_coll_mrail_counters;

/* Threads of the process have communicators of their own, and count together. */
#define MCA_COLL_MRAIL_COUNT(counter, value)                                  \
    ((void)__atomic_fetch_add(&mca_coll_mrail_counters.counter, value,        \
                              __ATOMIC_RELAXED))

/* The rails of this process now; 0: it does not use mrail. */
unsigned mca_coll_mrail_rails(uct_mrail_rail_t *rails);

/* ---- module ---------------------------------------------------------------- */

int mca_coll_mrail_init_query(bool progress_threads, bool mpi_threads);
mca_coll_base_module_t *
mca_coll_mrail_comm_query(struct ompi_communicator_t *comm, int *priority);

/* One line about this communicator from its rank 0, if anybody wants to know. */
void mca_coll_mrail_tell(const mca_coll_mrail_module_t *module,
                         struct ompi_communicator_t *comm,
                         const char *what, const char *why);

/* ---- setup ------------------------------------------------------------------ */

/* The first call on a communicator: by all ranks.  OMPI_SUCCESS, then module->away
 * tells; or what the previous allgather returned. */
int mca_coll_mrail_setup(mca_coll_mrail_module_t *module,
                         struct ompi_communicator_t *comm);

/* The first call that is worth a plan: the node's memory, by all ranks.  Likewise. */
int mca_coll_mrail_setup_relay(mca_coll_mrail_module_t *module,
                               struct ompi_communicator_t *comm);

void mca_coll_mrail_setup_cleanup(mca_coll_mrail_module_t *module);

/* ---- ask -------------------------------------------------------------------- */

/* By all ranks, with their parts in module->sends and ->recvs.  *planned_p: 1: do
 * what module->slices says, the relay has begun; 0: the previous module's turn. */
int mca_coll_mrail_ask(mca_coll_mrail_module_t *module,
                       struct ompi_communicator_t *comm, uint64_t flags,
                       int *planned_p);

/* ---- exchange ---------------------------------------------------------------- */

/* Does what was planned. */
int mca_coll_mrail_exchange(mca_coll_mrail_module_t *module,
                            struct ompi_communicator_t *comm);

/* What relays do with the network: arg is an mca_coll_mrail_port_t. */
typedef struct mca_coll_mrail_port {
    mca_coll_mrail_module_t *module;
    struct ompi_communicator_t *comm;
} mca_coll_mrail_port_t;
extern const mrail_relay_ops_t mca_coll_mrail_relay_ops;

/* -errno -> OMPI_ERR_... */
int mca_coll_mrail_error(int ret);

#endif
