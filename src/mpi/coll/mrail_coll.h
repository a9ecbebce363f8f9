/*
 * Open MPI coll component "mrail": plans MPI_Alltoallv, MPI_Alltoall,
 * MPI_Alltoallw, with their nonblocking and persistent forms, MPI_Allgatherv,
 * and blocking neighbourhood collectives. Plans use relays, and the rails of
 * multi-rail ranks.
 *
 *   component  parameters, counters, Open MPI's version  mrail_coll_component.c
 *   entries    the rails of all processes                modex.c
 *   module     one for each communicator                 mrail_coll_module.c
 *   functions  of MPI, and of the previous modules       mrail_coll_functions.c
 *   call       one call: as an op, or without            mrail_coll_call.c
 *   persistent requests                                  mrail_coll_persistent.c
 *   neighbours of a communicator with a topology         neighbors.c
 *   allgatherv as two exchanges, if contributions are    mrail_coll_allgatherv.c
 *              skewed
 *   arguments  one form for all MPI functions            args.c
 *   shadow     host memory in place of device memory     shadow.c, copy.c
 *   op         one call in progress, step by step        mrail_coll_op.c,
 *                                                        mrail_coll_op_post.c
 *   steps      agreement before the first byte moves     mrail_coll_setup.c,
 *                                                        mrail_coll_records.c,
 *                                                        mrail_coll_agree.c
 *   relays     their buffers in host or device memory,   mrail_coll_pool.c,
 *              and their READs between nodes             relay_net.c,
 *                                                        relay_net_message.c
 *   GPUs       of all ranks, with their links            mrail_coll_gpus.c
 *   exchange   the bytes of a call                       mrail_coll_exchange.c
 *   direct     its direct messages as RDMA READs, or as  direct.c, direct_ep.c,
 *              copies between GPUs                       peer.c
 *   staged     messages between device memory            staged.c
 *   pairwise   unplanned exchanges, in-flight limit      mrail_coll_pairwise.c
 *   plan       made by a thread if it takes long         mrail_coll_plan.c
 *   explain    verbose mode                              mrail_coll_explain.c
 *   export     forecasts for reports                     mrail_coll_export.c
 *
 * All ranks of a communicator make the same decision about a call and its plan,
 * because they base it on the records that they have exchanged. A rank
 * therefore never waits for a rank that decided otherwise. Calls without a plan
 * go to the previous module, which Open MPI would use if this one did not
 * exist. The exception is MPI_Alltoallv of ranks that need no plan
 * (inflight.h).
 *
 * When a communicator is created, the entries of its processes (modex.h) show
 * whether its calls can be planned. If they cannot, most of its calls need no
 * op.
 *
 * Order: the agreement rounds of a communicator's ops follow one another in
 * call order. A planned exchange also delays the next op, because a
 * communicator has only one schedule and one relay. Exchanges without a plan
 * may overlap.
 *
 * Locking: threads that wait in MPI, and those that make progress, advance the
 * ops. module->is_busy limits the progress of a communicator to one thread at a
 * time.
 */
#ifndef MRAIL_MPI_COLL_H
#define MRAIL_MPI_COLL_H

#include "mpi/coll/args.h"
#include "mpi/coll/gather.h"
#include "mpi/coll/dt_segment.h"
#include "mpi/coll/shadow.h"

#include "base/clock.h"
#include "base/list.h"
#include "mpi/coll/mode.h"
#include "mpi/coll/modex.h"
#include "mpi/coll/inflight.h"
#include "mpi/coll/neighbors.h"
#include "mpi/coll/pool_shape.h"
#include "mpi/coll/relay_net.h"
#include "mpi/coll/schedule.h"
#include "mpi/coll/topo_file.h"
#include "mpi/coll/topology.h"
#include "mpi/coll/uplinks.h"
#include "relay/memory.h"
#include "relay/relay.h"
#include "telemetry/plans.h"

#include "ompi/mca/coll/base/coll_base_util.h"
#include "ompi/mca/coll/coll.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>

/* ---- component ---- */

/* How relays with buffers on GPUs copy. */
typedef enum mca_coll_mrail_gpu {
    MCA_COLL_MRAIL_GPU_AUTO, /* as copy: it leaves all multiprocessors to
                              * the application */
    MCA_COLL_MRAIL_GPU_COPY,
    MCA_COLL_MRAIL_GPU_KERNEL
} mca_coll_mrail_gpu_t;

typedef struct mca_coll_mrail_settings {
    int priority;
    int verbose;
    int gpu; /* mca_coll_mrail_gpu_t */
    unsigned long long relay_threshold, relay_chunk_size, relay_buffers;
    unsigned long long relay_memory, copy_bandwidth, rail_bandwidth,
        inflight_us;
    bool cross_rail, plan_budget;
    char *topology; /* path of the topology file; NULL or empty if none */
} mca_coll_mrail_settings_t;
extern mca_coll_mrail_settings_t mca_coll_mrail_settings;

/* MPI_T performance variables. They cover the whole process. */
typedef struct mca_coll_mrail_counters {
    unsigned long long calls, planned_calls;
    unsigned long long bytes, planned_bytes, relayed_bytes;
    unsigned long long agreement_ns, plan_ns, exchange_ns;
    unsigned long long limited_calls, nonblocking_calls, unchanged_calls;
    unsigned long long peer_bytes, staged_bytes;
    /* bytes of direct and relayed READs, by the index of the rail in the list
     * of uct_mrail_rails() */
    unsigned long long rail_planned_bytes[UCT_MRAIL_MAX_RAILS];
    unsigned long long rail_carried_bytes[UCT_MRAIL_MAX_RAILS];
    mca_coll_mrail_uplinks_t uplinks; /* only with verbose 3 */
} mca_coll_mrail_counters_t;
extern mca_coll_mrail_counters_t mca_coll_mrail_counters;

/* Threads of a process may use different communicators, but share the
 * counters. */
#define MCA_COLL_MRAIL_COUNT(counter, value)                                   \
    ((void)__atomic_fetch_add(&mca_coll_mrail_counters.counter, value,         \
                              __ATOMIC_RELAXED))

/* Writes the rails of this process to `rails`. Returns their number, or 0 if
 * the process does not use mrail. */
unsigned mca_coll_mrail_rails(uct_mrail_rail_t *rails);

/* Returns the topology file of this process, or NULL if the user has not set
 * one. */
const mca_coll_mrail_topo_file_t *mca_coll_mrail_topo_file(void);

/* ---- module ---- */

/* The MPI functions that this component implements: X(name, type of the
 * function). */
#define MCA_COLL_MRAIL_FUNCTIONS(X)                                            \
    X(alltoall, alltoall)                                                      \
    X(alltoallv, alltoallv)                                                    \
    X(alltoallw, alltoallw)                                                    \
    X(ialltoall, ialltoall)                                                    \
    X(ialltoallv, ialltoallv)                                                  \
    X(ialltoallw, ialltoallw)                                                  \
    X(alltoall_init, alltoall_init)                                            \
    X(alltoallv_init, alltoallv_init)                                          \
    X(alltoallw_init, alltoallw_init)                                          \
    X(allgatherv, allgatherv)                                                  \
    X(neighbor_allgather, allgather)                                           \
    X(neighbor_allgatherv, allgatherv)                                         \
    X(neighbor_alltoall, alltoall)                                             \
    X(neighbor_alltoallv, alltoallv)                                           \
    X(neighbor_alltoallw, neighbor_alltoallw)

/* A function of the previous module. */
#define MCA_COLL_MRAIL_PREVIOUS(name, type)                                    \
    mca_coll_base_module_##type##_fn_t name;                                   \
    mca_coll_base_module_t *name##_module;

typedef struct mca_coll_mrail_op mca_coll_mrail_op_t;
typedef struct mca_coll_mrail_direct mca_coll_mrail_direct_t;
typedef struct mca_coll_mrail_staged mca_coll_mrail_staged_t;

/* Summary of the records of all ranks, equal on all of them. */
typedef struct mca_coll_mrail_agreement {
    int any_cannot, any_wanted, any_broken, any_new_gpu;
    uint64_t largest;  /* largest demand that any rank announces */
    int is_mismatched; /* 1 if a receiver expects more or fewer bytes than are
                        * sent */
} mca_coll_mrail_agreement_t;

/* Relay buffers in one kind of memory. */
typedef struct mca_coll_mrail_pool {
    mrail_relay_shape_t shape;    /* shape of `memory`, or of the next memory */
    mrail_relay_memory_t *memory; /* NULL if none so far */
    mrail_relay_t *relay;         /* NULL if no plan has needed it so far */
    mca_coll_mrail_net_t *net;    /* NULL if there are no READs between nodes */
} mca_coll_mrail_pool_t;

struct mca_coll_mrail_module {
    mca_coll_base_module_t super;
    /* NULL if the previous modules do not have the function */
    MCA_COLL_MRAIL_FUNCTIONS(MCA_COLL_MRAIL_PREVIOUS)
    struct ompi_communicator_t *comm;
    /* modes of blocking calls, one for each MPI function */
    mca_coll_mrail_mode_t modes[MCA_COLL_MRAIL_NUM_FUNCS];
    mca_coll_mrail_neighbors_t neighbors; /* unknown before the first call */
    /* bytes; rank 0's value once the topology is known */
    uint64_t relay_threshold;
    /* reason why later calls are not planned; NULL if they may be planned */
    const char *away;
    /* `away` as of the last agreement round of a blocking call. It is equal on
     * all ranks, whereas `away` may not be equal yet. */
    const char *agreed_away;
    /* the text of `away`, if it contains names */
    char reason[MCA_COLL_MRAIL_REASON_SIZE];
    int is_logged;     /* 1 if the reason has been printed */
    int is_multi_rail; /* 1 if plans are possible, and ranks have several
                        * rails */
    /* 1 if the ranks have decided about pairwise exchanges */
    int is_pairwise_known;
    uint64_t inflight_bytes; /* see inflight.h; 0 for no pairwise exchanges */
    /* used by mrail_coll_pairwise.c if inflight_bytes is not 0 */
    ompi_request_t **requests;
    int num_nonblocking; /* number of nonblocking ops; atomic */
    mrail_list_t active; /* node of the list in mrail_coll_op.c */
    int pins;            /* number of threads that advance `ops` */
    int first_tag;       /* first tag of the ops; 0 if there are no ops */
    unsigned num_ops;
    mca_coll_mrail_op_t
        *spare; /* op for blocking calls; NULL if in use, or not created yet */
    int posted_lock;        /* locks `posted`; held for a few instructions */
    mrail_list_t posted;    /* new ops, in call order */
    int is_busy;            /* locks all fields below */
    mrail_list_t ops;       /* started ops, in call order */
    unsigned num_exchanges; /* number of ops in an exchange without a plan */
    mca_coll_mrail_op_t *relaying; /* the op with a planned exchange, or NULL */

    /* state of the steps: */
    int is_agreed; /* 1 if all ranks have the memory for agreement rounds */
    int is_ready;  /* 1 if this rank has the memory that the next steps need */
    /* NULL if the communicator never had plans. It stays if `away` is set
     * later, because ranks learn of that at different times. */
    mca_coll_mrail_topology_t *topology;
    /* by rank: its rank in MPI_COMM_WORLD; NULL if there is no topology file */
    uint32_t *world;
    mca_coll_mrail_schedule_t *schedule;
    mrail_plans_comm_t *plans; /* where forecasts are exported; NULL if they are
                                * not exported */
    int has_no_place;          /* 1 if all slots of the file were in use */
    /* last agreement records of all ranks, and those that are arriving */
    mca_coll_mrail_records_t records, incoming;
    mca_coll_mrail_agreement_t agreement; /* summary of `records` */
    /* 1 if these records equal the previous ones, so the next ones probably
     * do */
    int is_steady;
    mca_coll_mrail_gather_t gather;
    mca_coll_mrail_rail_rate_t rails[UCT_MRAIL_MAX_RAILS]; /* last announced */
    unsigned num_rails;
    unsigned plan_cost_level; /* level to announce; see plan_cost.h */
    pthread_t planner; /* thread that makes a plan; see mrail_coll_plan.c */
    int has_planner;
    int is_planning; /* atomic; 1 until the thread is done */
    uint64_t *own;   /* record of this rank, while it is being written */
    size_t own_words;
    /* in words, and equal on all ranks: `capacity` is the total record length
     * for which each rank has memory; `block` is the length of the part of each
     * record that the first round carries. A second round carries the rest. */
    size_t capacity, block;
    size_t *starts; /* positions for the second round; see gather.h */
    mrail_relay_memory_t host_memory;
    mca_coll_mrail_pool_t host_pool, device_pool;
    int gpu; /* ordinal of the GPU that other ranks know; -1 if none */
    mca_coll_mrail_direct_t *direct; /* NULL if no plan has had READs so far */
    /* 1 if a copy from the device memory of another process has failed */
    int is_peer_refused;
};
OBJ_CLASS_DECLARATION(mca_coll_mrail_module_t);

int mca_coll_mrail_init_query(bool progress_threads, bool mpi_threads);
mca_coll_base_module_t *
mca_coll_mrail_comm_query(struct ompi_communicator_t *comm, int *priority);

/* Fills in the entry of this process, which the modex distributes. */
void mca_coll_mrail_entry_fill(mca_coll_mrail_rank_entry_t *entry);

/* Logs one line about this communicator, on rank 0 only. */
void mca_coll_mrail_log(const mca_coll_mrail_module_t *module, const char *what,
                        const char *reason);
/* In verbose mode, logs once the reason why calls on the communicator are not
 * planned. */
void mca_coll_mrail_log_away(mca_coll_mrail_module_t *module);

/* Returns the value of a Boolean key in the info of a communicator, or
 * `default_value` if the info does not have it. */
int mca_coll_mrail_comm_info(const struct ompi_communicator_t *comm,
                             const char *key, int default_value);

/* ---- calls ---- */

/* Saves the functions of the previous modules, and replaces them in the module.
 * Until Open MPI installs this module, the communicator holds these
 * functions. */
void mca_coll_mrail_functions_enable(mca_coll_mrail_module_t *module,
                                     const struct ompi_communicator_t *comm);
void mca_coll_mrail_functions_cleanup(mca_coll_mrail_module_t *module);
/* Call the function of the previous module. */
int mca_coll_mrail_previous(const mca_coll_mrail_module_t *module,
                            const mca_coll_mrail_args_t *args);
int mca_coll_mrail_previous_later(const mca_coll_mrail_module_t *module,
                                  const mca_coll_mrail_args_t *args,
                                  ompi_request_t **request_p);

/* Perform a blocking call, and start a nonblocking one. They may change
 * `args`. */
int mca_coll_mrail_call(mca_coll_mrail_module_t *module,
                        mca_coll_mrail_args_t *args);
int mca_coll_mrail_call_later(mca_coll_mrail_module_t *module,
                              mca_coll_mrail_args_t *args,
                              ompi_request_t **request_p);
/* Performs the call as an op if the call has an agreement round. `error` is not
 * OMPI_SUCCESS if this rank cannot take part in the exchange. Returns
 * OMPI_SUCCESS, an error, or MCA_COLL_MRAIL_PASS. The decision depends only on
 * state that is equal on all ranks.
 *
 * After MPI_ERR_NO_MEM, the other ranks wait for this rank in the round, so the
 * default error handler aborts the job. With MPI_ERRORS_RETURN, the program
 * must abort the job itself, as after any error of a collective. */
int mca_coll_mrail_serve(mca_coll_mrail_module_t *module,
                         const mca_coll_mrail_args_t *args, int error,
                         mca_coll_mrail_shadows_t *shadows);
/* Starts a persistent call. `request` completes when the call does. */
int mca_coll_mrail_call_started(mca_coll_mrail_module_t *module,
                                mca_coll_mrail_args_t *args,
                                ompi_request_t *request);

/* Performs MPI_Allgatherv. `args` may have MPI_IN_PLACE as its send buffer. */
int mca_coll_mrail_allgatherv(mca_coll_mrail_module_t *module,
                              const mca_coll_mrail_args_t *args);

/* Waits until all ranks have called this function. Sets *all_p to 1 if `is_ok`
 * is 1 on all of them. Returns OMPI_SUCCESS or an error, after which the other
 * ranks may wait for this rank; see mca_coll_mrail_serve(). */
int mca_coll_mrail_check_all(mca_coll_mrail_module_t *module, int is_ok,
                             int *all_p);

/* Creates a persistent request for calls with these arguments. Returns
 * MCA_COLL_MRAIL_PASS if the previous module must create it, on all ranks. */
int mca_coll_mrail_persistent_create(mca_coll_mrail_module_t *module,
                                     mca_coll_mrail_args_t *args,
                                     ompi_request_t **request_p);

/* ---- ops ---- */

/* Result code in addition to Open MPI's codes: the call goes to the previous
 * module. */
#define MCA_COLL_MRAIL_PASS INT_MAX

/* State of an op. All states except the last four are a gather or a
 * reduction. */
typedef enum mca_coll_mrail_step {
    /* check that all ranks have memory for the next steps */
    MCA_COLL_MRAIL_READY,
    MCA_COLL_MRAIL_VOTE,    /* vote on whether any rank has a large demand */
    MCA_COLL_MRAIL_SAME,    /* vote on whether any rank's record has changed */
    MCA_COLL_MRAIL_RECORD,  /* exchange the records (agreement round) */
    MCA_COLL_MRAIL_RESERVE, /* check that all ranks have memory for them */
    MCA_COLL_MRAIL_REST,    /* exchange the rest of long records */
    MCA_COLL_MRAIL_GPUS,    /* exchange the GPUs of the ranks */
    MCA_COLL_MRAIL_AGREE,   /* check that all ranks have the same plan */
    /* exchange the names of the nodes' shared-memory pools */
    MCA_COLL_MRAIL_NAME,
    MCA_COLL_MRAIL_SHARED,   /* check that all ranks have attached their pool */
    MCA_COLL_MRAIL_PLAN,     /* make a plan; AGREE follows */
    MCA_COLL_MRAIL_EXCHANGE, /* move the bytes */
    MCA_COLL_MRAIL_FOLLOW,   /* wait for a request of the previous module */
    MCA_COLL_MRAIL_DONE,
} mca_coll_mrail_step_t;

struct mca_coll_mrail_op {
    ompi_coll_base_nbc_request_t request; /* request of a nonblocking call */
    mrail_list_t node;                    /* node of module->ops */
    mca_coll_mrail_module_t *module;
    mca_coll_mrail_step_t step;
    int is_started; /* 0 if the op waits for earlier ops */
    int is_blocking;
    mca_coll_mrail_func_t func;
    /* atomic; 1 if the waiting thread of a blocking op may return */
    int is_finished;
    int tag;        /* the op owns this tag and the six below */
    unsigned flags; /* MCA_COLL_MRAIL_* flags of record.h */
    /* indexed by rank */
    mca_coll_mrail_dt_segment_t *sends, *recvs;
    mca_coll_mrail_dt_cursors_t cursors; /* of flows, during an exchange */
    /* copy of the receive buffer for MPI_IN_PLACE; otherwise NULL */
    char *copy;
    /* NULL if all buffers are host memory. Nonblocking ops own the shadows. */
    mca_coll_mrail_shadows_t *shadows;
    mca_coll_mrail_staged_t *staged; /* NULL if not needed so far */
    ompi_request_t *previous; /* request of the previous module; NULL if none */
    /* the request to complete instead of `request`; NULL if none */
    ompi_request_t *persistent;
    ompi_request_t **requests;
    unsigned num_requests; /* at most one to each rank and one from it */
    int is_planned;        /* 1 if module->schedule is valid for this op */
    /* 1 if the op also sends empty messages, because receivers may expect
     * more */
    int is_mismatched;
    int is_relaying;
    mrail_ns_t from_ns; /* start of the step or of the exchange */
    int ret;            /* the first error */
    /* the reason for MCA_COLL_MRAIL_BROKEN; otherwise unused */
    int error;
};
OBJ_CLASS_DECLARATION(mca_coll_mrail_op_t);

/* Number of tags per op. */
#define MCA_COLL_MRAIL_TAGS 7
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
static inline int mca_coll_mrail_op_tag_offer(const mca_coll_mrail_op_t *op)
{
    return op->tag - 3;
}
static inline int mca_coll_mrail_op_tag_answer(const mca_coll_mrail_op_t *op)
{
    return op->tag - 4;
}
static inline int
mca_coll_mrail_op_tag_chunk_answer(const mca_coll_mrail_op_t *op)
{
    return op->tag - 5;
}
static inline int
mca_coll_mrail_op_tag_chunk_message(const mca_coll_mrail_op_t *op)
{
    return op->tag - 6;
}

/* Allocates an op for a call with an agreement round. Returns NULL if memory
 * runs out. */
mca_coll_mrail_op_t *mca_coll_mrail_op_get(mca_coll_mrail_module_t *module,
                                           mca_coll_mrail_func_t func,
                                           int is_blocking);
/* Starts an op. `error` is OMPI_SUCCESS, or an error that prevents this rank
 * from taking part; the call then fails on all ranks. Returns OMPI_SUCCESS, or
 * an error, in which case the op is freed. */
int mca_coll_mrail_op_post(mca_coll_mrail_op_t *op,
                           const mca_coll_mrail_args_t *args, int error);
/* Starts a nonblocking op that ends after op->previous. */
void mca_coll_mrail_op_follow(mca_coll_mrail_op_t *op);
/* Reserves the tags of all ops of a new communicator that has agreement
 * rounds. */
void mca_coll_mrail_tags_reserve(mca_coll_mrail_module_t *module);
/* Passes a new op to the thread that makes progress. */
void mca_coll_mrail_op_append(mca_coll_mrail_op_t *op);
/* Waits for a blocking op and releases it. Returns OMPI_SUCCESS, an error, or
 * MCA_COLL_MRAIL_PASS. */
int mca_coll_mrail_op_wait(mca_coll_mrail_op_t *op);

/* Removes a module that is being destroyed from the list of the process. All
 * its ops must be complete. */
void mca_coll_mrail_ops_free(mca_coll_mrail_module_t *module);
/* Stops the progress of nonblocking ops when the component closes. */
void mca_coll_mrail_ops_close(void);

/* ---- steps ---- */

/* Callbacks of a step. A gather step has the size of a block or the positions
 * of all blocks, a function that fills in this rank's block, and one that
 * returns the next step. A step without sizes is a reduction, for which `mine`
 * is module->gather.words. */
typedef struct mca_coll_mrail_step_ops {
    size_t (*size)(const mca_coll_mrail_op_t *op);
    const size_t *(*starts)(const mca_coll_mrail_op_t *op);
    void (*fill)(mca_coll_mrail_op_t *op, void *mine);
    mca_coll_mrail_step_t (*take)(mca_coll_mrail_op_t *op);
    int is_sparing; /* 1 to prefer few messages over few rounds */
} mca_coll_mrail_step_ops_t;

extern const mca_coll_mrail_step_ops_t mca_coll_mrail_step_ready;
extern const mca_coll_mrail_step_ops_t mca_coll_mrail_step_vote;
extern const mca_coll_mrail_step_ops_t mca_coll_mrail_step_same;
extern const mca_coll_mrail_step_ops_t mca_coll_mrail_step_record;
extern const mca_coll_mrail_step_ops_t mca_coll_mrail_step_reserve;
extern const mca_coll_mrail_step_ops_t mca_coll_mrail_step_rest;
extern const mca_coll_mrail_step_ops_t mca_coll_mrail_step_name;
extern const mca_coll_mrail_step_ops_t mca_coll_mrail_step_shared;
extern const mca_coll_mrail_step_ops_t mca_coll_mrail_step_gpus;
extern const mca_coll_mrail_step_ops_t mca_coll_mrail_step_agree;

/* Determines whether calls on a new communicator can be planned, and sets
 * module->topology, or module->away and agreed_away. Returns 0 or -ENOMEM. */
int mca_coll_mrail_setup_topology(mca_coll_mrail_module_t *module,
                                  struct ompi_communicator_t *comm);
/* Allocates the memory for the steps. Later calls have no effect. Returns 0 or
 * -ENOMEM. */
int mca_coll_mrail_setup_init(mca_coll_mrail_module_t *module);
void mca_coll_mrail_setup_cleanup(mca_coll_mrail_module_t *module);

/* These functions set the operand, and return the result, of a reduction that
 * determines whether a condition holds on all ranks. */
static inline void mca_coll_mrail_set_ok(mca_coll_mrail_gather_t *gather,
                                         int is_ok)
{
    gather->words[0] = gather->words[1] = is_ok ? UINT64_MAX : 0;
}
static inline int mca_coll_mrail_all_ok(const mca_coll_mrail_gather_t *gather)
{
    return gather->words[0] != 0;
}

/* Allocates the memory for the exchange of records. Returns 0 or -ENOMEM. */
int mca_coll_mrail_record_buffers_init(mca_coll_mrail_module_t *module);
void mca_coll_mrail_record_buffers_cleanup(mca_coll_mrail_module_t *module);

/* Ends the agreement time of an op, which includes planning and setting up
 * relays. */
void mca_coll_mrail_agreed(mca_coll_mrail_op_t *op);

/* The first function leaves this op unplanned. The second function also leaves
 * all later ops unplanned, for `reason`. */
mca_coll_mrail_step_t mca_coll_mrail_pass(mca_coll_mrail_op_t *op);
mca_coll_mrail_step_t mca_coll_mrail_step_back_off(mca_coll_mrail_op_t *op,
                                                   const char *reason);

/* Returns the number of bytes that this rank sends to other ranks. */
uint64_t mca_coll_mrail_bytes_for_others(const mca_coll_mrail_op_t *op);

/* Decides about a call from module->agreement. */
mca_coll_mrail_step_t mca_coll_mrail_decide(mca_coll_mrail_op_t *op);

/* Executes the plan on which all ranks have agreed. */
mca_coll_mrail_step_t mca_coll_mrail_go(mca_coll_mrail_op_t *op);

/* These functions make the plan for module->records. _progress returns 1 once
 * it is made. */
void mca_coll_mrail_plan_start(mca_coll_mrail_op_t *op);
int mca_coll_mrail_plan_progress(mca_coll_mrail_op_t *op);

/* At verbosity 2 or higher, rank 0 prints the forecast of the schedule, and
 * whether it is executed. At verbosity 3, it also prints the load of each link,
 * and every process counts its uplinks. */
void mca_coll_mrail_explain(const mca_coll_mrail_module_t *module);

/* Rank 0 exports the forecast of a new schedule to the telemetry files. */
void mca_coll_mrail_export(mca_coll_mrail_module_t *module);
/* Frees the slot of this communicator in the file. */
void mca_coll_mrail_export_free(const mca_coll_mrail_module_t *module);
void mca_coll_mrail_export_close(void);

/* Decides about a large call: executes its schedule, or makes one. */
mca_coll_mrail_step_t mca_coll_mrail_need_plan(mca_coll_mrail_op_t *op);

/* ---- relay buffers ---- */

/* Returns the step that follows the agreement on a schedule: the exchange, or
 * the steps before it that allocate relay buffers. */
mca_coll_mrail_step_t mca_coll_mrail_need_pool(mca_coll_mrail_op_t *op);

/* Returns the relay buffers of the schedule. */
static inline mca_coll_mrail_pool_t *
mca_coll_mrail_pool(mca_coll_mrail_module_t *module)
{
    return module->schedule->is_on_devices ? &module->device_pool
                                           : &module->host_pool;
}

/* Allocates memory for the exchange of handles. Returns 0 or -ENOMEM. */
int mca_coll_mrail_pools_reserve(mca_coll_mrail_module_t *module);
void mca_coll_mrail_pools_cleanup(mca_coll_mrail_module_t *module);
/* Releases the slots on GPUs. All ranks call it at the same agreement round. */
void mca_coll_mrail_pools_release_device(mca_coll_mrail_module_t *module);

/* ---- GPUs ---- */

/* Allocates memory for the exchange of GPUs. Returns 0 or -ENOMEM. */
int mca_coll_mrail_gpus_reserve(mca_coll_mrail_module_t *module);
/* Returns 1 if the buffers of the call are on a GPU other than the one that the
 * ranks know. */
int mca_coll_mrail_gpu_is_new(const mca_coll_mrail_op_t *op);

/* ---- exchange ---- */

/* Adds the planned and the carried bytes of each rail to the counters. */
void mca_coll_mrail_count_rails(const uint64_t *planned,
                                const uint64_t *carried);

/* Converts a result of mca_coll_mrail_dt_segment_copy() into an MPI code. */
static inline int mca_coll_mrail_copy_code(int ret)
{
    return (ret == 0)           ? OMPI_SUCCESS
           : (ret == -EMSGSIZE) ? MPI_ERR_TRUNCATE
                                : OMPI_ERROR;
}

/* Post one message of a schedule. Errors are stored in op->ret. */
void mca_coll_mrail_post_recv(mca_coll_mrail_op_t *op,
                              const mca_coll_mrail_schedule_entry_t *entry);
void mca_coll_mrail_post_send(mca_coll_mrail_op_t *op,
                              const mca_coll_mrail_schedule_entry_t *entry);

/* Posts the schedule if op->is_planned, or else all messages. */
void mca_coll_mrail_exchange_start(mca_coll_mrail_op_t *op);
/* Returns 1 if the exchange is complete; op->ret is then the result. */
int mca_coll_mrail_exchange_progress(mca_coll_mrail_op_t *op);

/* Relay operations whose network hops are messages or READs, respectively.
 * Their `arg` is the module. */
extern const mrail_relay_ops_t mca_coll_mrail_relay_ops;
extern const mrail_relay_ops_t mca_coll_mrail_read_relay_ops;

/* The send or receive side of an MPI_Alltoallv call. */
typedef struct mca_coll_mrail_side {
    char *buffer;
    /* indexed by rank; displacements are in extents */
    const int *counts, *disps;
    ompi_datatype_t *type;
    ptrdiff_t extent; /* bytes */
    size_t size;      /* bytes of data in an element */
} mca_coll_mrail_side_t;

/* The first blocking call on a communicator without plans calls this function.
 * The ranks agree on whether MPI_Alltoallv uses pairwise exchanges, and
 * module->inflight_bytes receives the result. Returns OMPI_SUCCESS or an
 * error. */
int mca_coll_mrail_pairwise_agree(mca_coll_mrail_module_t *module);
/* Performs an exchange without a plan or an agreement round, under the
 * in-flight limit. module->inflight_bytes must not be 0 on any rank. Returns
 * OMPI_SUCCESS or the first error. */
int mca_coll_mrail_pairwise(mca_coll_mrail_module_t *module,
                            const mca_coll_mrail_side_t *out,
                            const mca_coll_mrail_side_t *in);

#endif
