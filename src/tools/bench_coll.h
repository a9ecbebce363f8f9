/* Reads the counters of the component coll/mrail through MPI_T. */
#ifndef MRAIL_TOOLS_BENCH_COLL_H
#define MRAIL_TOOLS_BENCH_COLL_H

#include <mpi.h>
#include <stdint.h>

/* Counters of this rank since MPI_Init, which never decrease. */
typedef enum mrail_bench_coll_counter {
    MRAIL_BENCH_COLL_CALLS,         /* calls with an agreement round */
    MRAIL_BENCH_COLL_PLANNED_CALLS, /* calls that were planned */
    MRAIL_BENCH_COLL_BYTES,         /* bytes sent to other ranks in CALLS */
    /* bytes sent to other ranks in PLANNED_CALLS */
    MRAIL_BENCH_COLL_PLANNED_BYTES,
    MRAIL_BENCH_COLL_RELAYED_BYTES, /* planned bytes sent through relays */
    /* wall time in agreement rounds, including planning */
    MRAIL_BENCH_COLL_AGREE_NS,
    MRAIL_BENCH_COLL_PLAN_NS,     /* wall time in the planner */
    MRAIL_BENCH_COLL_EXCHANGE_NS, /* wall time in planned exchanges */
    /* unplanned calls in which messages were held back */
    MRAIL_BENCH_COLL_LIMITED_CALLS,
    MRAIL_BENCH_COLL_UNCHANGED_CALLS, /* CALLS whose records had not changed */
    /* nonblocking calls that coll/mrail handled itself */
    MRAIL_BENCH_COLL_NONBLOCKING_CALLS,
    MRAIL_BENCH_COLL_PEER_BYTES, /* bytes copied between GPUs of a node */
    /* bytes of messages that move between device memories through host
     * memory */
    MRAIL_BENCH_COLL_STAGED_BYTES,
    MRAIL_BENCH_COLL_NUM
} mrail_bench_coll_counter_t;

#define MRAIL_BENCH_COLL_RAILS 16

/* Bytes of RDMA READs over each rail of this process. */
typedef struct mrail_bench_coll_rails {
    uint64_t planned[MRAIL_BENCH_COLL_RAILS];
    uint64_t carried[MRAIL_BENCH_COLL_RAILS];
} mrail_bench_coll_rails_t;

#define MRAIL_BENCH_COLL_UPLINKS_PER_RAIL 64
#define MRAIL_BENCH_COLL_UPLINKS                                               \
    (MRAIL_BENCH_COLL_RAILS * MRAIL_BENCH_COLL_UPLINKS_PER_RAIL)

/* Bytes that plans send up and receive down between leaf switches, by rail of
 * this process and uplink of its leaf. */
typedef struct mrail_bench_coll_uplinks {
    uint64_t up[MRAIL_BENCH_COLL_UPLINKS];
    uint64_t down[MRAIL_BENCH_COLL_UPLINKS];
} mrail_bench_coll_uplinks_t;

typedef struct mrail_bench_coll {
    int present; /* 1 if all counters were found */
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handles[MRAIL_BENCH_COLL_NUM];
    /* rails: planned, carried; uplinks: up, down */
    MPI_T_pvar_handle arrays[4];
} mrail_bench_coll_t;

/*
 * Finds the counters by name. Call _open after MPI_Init and _close before
 * MPI_Finalize, from one thread at a time. The caller owns the memory. Source:
 * MPI 3.1, section 14.3.
 */
void mrail_bench_coll_open(mrail_bench_coll_t *coll);
void mrail_bench_coll_close(mrail_bench_coll_t *coll);

/* Returns a duplicate of MPI_COMM_WORLD on which coll/mrail makes no plans. All
 * ranks must call it. The caller frees the communicator. */
MPI_Comm mrail_bench_coll_unplanned(void);

/* Reads all counters, or returns zeros if the component is not loaded. */
void mrail_bench_coll_read(const mrail_bench_coll_t *coll,
                           uint64_t values[MRAIL_BENCH_COLL_NUM]);
/* Like mrail_bench_coll_read(), for the counters of each rail. */
void mrail_bench_coll_read_rails(const mrail_bench_coll_t *coll,
                                 mrail_bench_coll_rails_t *rails);
/* Like mrail_bench_coll_read(), for the counters of each uplink. */
void mrail_bench_coll_read_uplinks(const mrail_bench_coll_t *coll,
                                   mrail_bench_coll_uplinks_t *uplinks);

#endif
