/*
 * Open MPI coll component "mrail": MPI_Alltoallv, MPI_Alltoall and MPI_Alltoallw,
 * and the nonblocking ones, by a plan, where ranks that are bound to a rail each can
 * relay for one another.
 *
 *     component   parameters, counters, which processes        mrail_coll_component.c
 *     module      one per communicator; calls of MPI           mrail_coll_module.c
 *     op          one call on its way, step by step            mrail_coll_op.c
 *     steps       what ranks tell each other before they move  mrail_coll_setup.c,
 *                 a byte, and what follows from it              mrail_coll_agree.c
 *     exchange    the bytes                                    mrail_coll_exchange.c
 *     paced       the bytes of ranks that need no plan         mrail_coll_pairwise.c
 *
 * Who serves a call, and by which plan, is decided alike by all ranks of a
 * communicator, from what all have told each other, so no rank waits for another that
 * went a different way.  What cannot be planned is left to the module that Open MPI had
 * chosen before, but for MPI_Alltoallv of ranks that need no plan (pace.h).
 *
 * Locking: a communicator's ops go one after the other, each by whoever makes
 * progress: the threads that wait in MPI.  module->is_busy keeps all but one out.
 */
#ifndef MRAIL_MPI_COLL_H
#define MRAIL_MPI_COLL_H

#include "mpi/coll/gather.h"
#include "mpi/coll/dt_segment.h"

#include "base/clock.h"
#include "base/list.h"
#include "mpi/coll/mode.h"
#include "mpi/coll/inflight.h"
#include "mpi/coll/schedule.h"
#include "mpi/coll/topology.h"
#include "relay/shm_pool.h"
#include "relay/relay.h"

#include "ompi/mca/coll/base/coll_base_util.h"
#include "ompi/mca/coll/coll.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>

/* ---- component ---- */

typedef struct mca_coll_mrail_settings {
    int priority;
    int verbose;
    unsigned long long relay_threshold, relay_chunk_size, relay_buffers;
    unsigned long long relay_memory, copy_bandwidth, rail_bandwidth,
        inflight_us;
    bool cross_rail;
} mca_coll_mrail_settings_t;
extern mca_coll_mrail_settings_t mca_coll_mrail_settings;

/* MPI_T performance variables, of the process. */
typedef struct mca_coll_mrail_counters {
    unsigned long long calls, planned_calls;
    unsigned long long bytes, planned_bytes, relayed_bytes;
    unsigned long long agreement_ns, plan_ns, exchange_ns;
    unsigned long long limited_calls;
} mca_coll_mrail_counters_t;
extern mca_coll_mrail_counters_t mca_coll_mrail_counters;

/* Threads of the process have communicators of their own, and count together. */
#define MCA_COLL_MRAIL_COUNT(counter, value)                                   \
    ((void)__atomic_fetch_add(&mca_coll_mrail_counters.counter, value,         \
                              __ATOMIC_RELAXED))

/* The rails of this process now; 0: it does not use mrail. */
unsigned mca_coll_mrail_rails(uct_mrail_rail_t *rails);

/* ---- module ---- */

/* A function of the previous module. */
#define MCA_COLL_MRAIL_PREVIOUS(name)                                          \
    mca_coll_base_module_##name##_fn_t name;                                   \
    mca_coll_base_module_t *name##_module

typedef struct mca_coll_mrail_op mca_coll_mrail_op_t;

typedef struct mca_coll_mrail_module {
    mca_coll_base_module_t super;
    MCA_COLL_MRAIL_PREVIOUS(alltoall);
    MCA_COLL_MRAIL_PREVIOUS(alltoallv);
    MCA_COLL_MRAIL_PREVIOUS(alltoallw);
    MCA_COLL_MRAIL_PREVIOUS(ialltoall);
    MCA_COLL_MRAIL_PREVIOUS(ialltoallv);
    MCA_COLL_MRAIL_PREVIOUS(ialltoallw);
    struct ompi_communicator_t *comm;
    mca_coll_mrail_mode_t mode; /* of calls that block */
    uint64_t relay_above;       /* bytes; once all are known that of rank 0 */
    const char *away; /* why no later call is served; NULL: they are */
    const char
        *settled; /* what `away` was when a call that blocks had last asked:
                             the same at all ranks, where `away` may not be yet */
    uint64_t inflight_bytes; /* pace.h; 0: not used */
    ompi_request_t *
        *requests;    /* of mrail_coll_pairwise.c, if inflight_bytes is not 0 */
    int is_busy;      /* lock: of ops and all below */
    mrail_list_t ops; /* the first one is on its way */
    int num_nonblocking; /* of them; atomic */
    mrail_list_t active; /* node: mrail_coll_op.c */
    int first_tag;       /* of those for ops; 0: none yet */
    unsigned num_ops;
    mca_coll_mrail_op_t
        *spare; /* for calls that block; NULL: in use, or none */

    /* Of the steps: */
    int is_known; /* world is, or away */
    int is_ready; /* this rank is, for what all have to be */
    mca_coll_mrail_rank_entry_t
        *members;    /* all ranks, until they are known; or NULL */
    const char *why; /* there is no world, if all are ready; NULL: there is */
    mca_coll_mrail_topology_t *topology;
    mca_coll_mrail_schedule_t *slices;
    uint64_t *words; /* of all ranks, as slices.h has them */
    mca_coll_mrail_gather_t gather;
    uint64_t rail
        [MCA_COLL_MRAIL_RECORD_WORDS]; /* what was told of this rank's last */
    int has_shm_pool;
    char shm_pool_name
        [MRAIL_RELAY_NAME_SIZE]; /* "": unlinked, or not by this rank */
    mrail_relay_shm_pool_t arena;
    mrail_relay_t *relay; /* NULL: nothing was worth relaying yet */
} mca_coll_mrail_module_t;
OBJ_CLASS_DECLARATION(mca_coll_mrail_module_t);

int mca_coll_mrail_init_query(bool progress_threads, bool mpi_threads);
mca_coll_base_module_t *
mca_coll_mrail_comm_query(struct ompi_communicator_t *comm, int *priority);

/* One line about this communicator from its rank 0. */
void mca_coll_mrail_tell(const mca_coll_mrail_module_t *module,
                         const char *what, const char *why);

/* ---- ops ---- */

/* Beside Open MPI's codes: the previous module's turn. */
#define MCA_COLL_MRAIL_PASS INT_MAX

/* What an op is at.  Each but the last two gathers a block from every rank. */
typedef enum mca_coll_mrail_step {
    MCA_COLL_MRAIL_KNOW,     /* who is where */
    MCA_COLL_MRAIL_READY,    /* all have memory for what follows */
    MCA_COLL_MRAIL_LOOK,     /* is there anything large to send? */
    MCA_COLL_MRAIL_RECORD,   /* what there is to send */
    MCA_COLL_MRAIL_NAME,     /* of the node's memory */
    MCA_COLL_MRAIL_SHARED,   /* all have it */
    MCA_COLL_MRAIL_AGREE,    /* all have the same plan */
    MCA_COLL_MRAIL_EXCHANGE, /* the bytes move */
    MCA_COLL_MRAIL_DONE,
} mca_coll_mrail_step_t;

struct mca_coll_mrail_op {
    ompi_coll_base_nbc_request_t request; /* of a call that does not block */
    mrail_list_t node;                    /* on module->ops */
    mca_coll_mrail_module_t *module;
    mca_coll_mrail_step_t step;
    int is_started; /* some step was: 0 and DONE is an op that waits for its turn */
    int is_blocking;
    int is_finished; /* atomic: to who waits for a blocking one */
    int tag;         /* and the two below it are this op's */
    uint64_t flags;  /* slices.h */
    mca_coll_mrail_dt_segment_t *sends, *recvs; /* by rank */
    char *copy; /* of what lies in the receive buffer; or NULL */
    ompi_request_t **requests;
    unsigned num_requests; /* one to and one from each rank at most */
    int is_planned;        /* module->slices say what to do */
    int is_relaying;
    mrail_ns_t from_ns; /* the step's, or the exchange's, beginning */
    int ret;            /* the first error */
};
OBJ_CLASS_DECLARATION(mca_coll_mrail_op_t);

/* Tags of an op. */
#define MCA_COLL_MRAIL_TAGS 3
static inline int mca_coll_mrail_op_tag_gather(const mca_coll_mrail_op_t *op)
{
    return op->tag;
}
static inline int mca_coll_mrail_op_tag_direct(const mca_coll_mrail_op_t *op)
{
    return op->tag - 1;
}
static inline int mca_coll_mrail_op_tag_chunk(const mca_coll_mrail_op_t *op)
{
    return op->tag - 2;
}

/* An op for a call that asks.  NULL: no memory. */
mca_coll_mrail_op_t *mca_coll_mrail_op_get(mca_coll_mrail_module_t *module,
                                           int is_blocking);
/* Its recvs are filled, and its sends unless sbuf is MPI_IN_PLACE.  OMPI_SUCCESS, or
 * an error, and the op is gone. */
int mca_coll_mrail_op_post(mca_coll_mrail_op_t *op, const void *sbuf);
/* Waits; the op is gone.  OMPI_SUCCESS, an error, or MCA_COLL_MRAIL_PASS. */
int mca_coll_mrail_op_wait(mca_coll_mrail_op_t *op);

/* The module goes; it has no op. */
void mca_coll_mrail_ops_forget(mca_coll_mrail_module_t *module);
/* The component goes. */
void mca_coll_mrail_ops_close(void);

/* ---- steps ---- */

/* A step that gathers: how much, what, and what follows. */
typedef struct mca_coll_mrail_step_ops {
    size_t (*size)(const mca_coll_mrail_op_t *op);
    void (*fill)(mca_coll_mrail_op_t *op, void *mine);
    mca_coll_mrail_step_t (*take)(mca_coll_mrail_op_t *op);
    int is_sparing; /* few messages are wanted, rather than few rounds */
} mca_coll_mrail_step_ops_t;

extern const mca_coll_mrail_step_ops_t mca_coll_mrail_step_know;
extern const mca_coll_mrail_step_ops_t mca_coll_mrail_step_ready;
extern const mca_coll_mrail_step_ops_t mca_coll_mrail_step_look;
extern const mca_coll_mrail_step_ops_t mca_coll_mrail_step_record;
extern const mca_coll_mrail_step_ops_t mca_coll_mrail_step_name;
extern const mca_coll_mrail_step_ops_t mca_coll_mrail_step_shared;
extern const mca_coll_mrail_step_ops_t mca_coll_mrail_step_agree;

/* Room for what ranks tell each other, unless it is there. */
int mca_coll_mrail_setup_init(mca_coll_mrail_module_t *module);
void mca_coll_mrail_setup_cleanup(mca_coll_mrail_module_t *module);

/* All ranks have said 1 in the block of an int. */
int mca_coll_mrail_all_fine(const mca_coll_mrail_op_t *op);

/* Its ranks know what they do: agreement ends here, planning and what relays are told
 * included. */
void mca_coll_mrail_agreed(mca_coll_mrail_op_t *op);

/* This op, and those after it, go without a plan. */
mca_coll_mrail_step_t mca_coll_mrail_pass(mca_coll_mrail_op_t *op);
mca_coll_mrail_step_t mca_coll_mrail_step_aside(mca_coll_mrail_op_t *op,
                                                const char *why);

/* The plan is there, or was before: see to it that it can be gone by. */
mca_coll_mrail_step_t mca_coll_mrail_make_plan(mca_coll_mrail_op_t *op);

/* ---- exchange ---- */

/* Of mca_coll_mrail_dt_segment_copy(), for MPI. */
static inline int mca_coll_mrail_copy_code(int ret)
{
    return (ret == 0)           ? OMPI_SUCCESS
           : (ret == -EMSGSIZE) ? MPI_ERR_TRUNCATE
                                : OMPI_ERROR;
}

/* Posts what op->is_planned, or without a plan all that there is. */
void mca_coll_mrail_exchange_start(mca_coll_mrail_op_t *op);
/* 1: it has ended; op->ret tells how. */
int mca_coll_mrail_exchange_progress(mca_coll_mrail_op_t *op);

/* What relays do with the network; arg is the module. */
extern const mrail_relay_ops_t mca_coll_mrail_relay_ops;

/* What a call of MPI_Alltoallv sends, or receives. */
typedef struct mca_coll_mrail_side {
    char *buffer;
    const int *counts, *disps; /* by rank; disps in extents */
    ompi_datatype_t *type;
    ptrdiff_t extent; /* bytes */
    size_t size;      /* of an element's data, bytes */
} mca_coll_mrail_side_t;

/* Exchanges without a plan and without asking, as far ahead at a time as pace.h says;
 * module->inflight_bytes is not 0 at any rank.  OMPI_SUCCESS or the first error. */
int mca_coll_mrail_pairwise_init(
    mca_coll_mrail_module_t *module); /* 0, -ENOMEM */
int mca_coll_mrail_pairwise(mca_coll_mrail_module_t *module,
                            const mca_coll_mrail_side_t *out,
                            const mca_coll_mrail_side_t *in);

#endif
