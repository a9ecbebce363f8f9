/*
 * Counters of the component coll/mrail, read through MPI_T.
 */
#ifndef MRAIL_TOOLS_BENCH_COLL_H
#define MRAIL_TOOLS_BENCH_COLL_H

#include <mpi.h>
#include <stdint.h>

/* Of this rank, since MPI_Init; never fewer. */
typedef enum mrail_bench_coll_counter {
    MRAIL_BENCH_COLL_CALLS,         /* that were agreed on */
    MRAIL_BENCH_COLL_PLANNED_CALLS, /* of those */
    MRAIL_BENCH_COLL_BYTES,         /* sent to others in CALLS */
    MRAIL_BENCH_COLL_PLANNED_BYTES, /* in PLANNED_CALLS */
    MRAIL_BENCH_COLL_RELAYED_BYTES, /* of those, through a relay or more */
    MRAIL_BENCH_COLL_AGREE_NS,    /* wall time until an exchange, or a pass, */
    MRAIL_BENCH_COLL_PLAN_NS,     /* of that in planning, */
    MRAIL_BENCH_COLL_EXCHANGE_NS, /* in the exchange */
    MRAIL_BENCH_COLL_LIMITED_CALLS, /* without a plan, some messages held back */
    MRAIL_BENCH_COLL_NUM
} mrail_bench_coll_counter_t;

typedef struct mrail_bench_coll {
    int present; /* all of them are there */
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handles[MRAIL_BENCH_COLL_NUM];
} mrail_bench_coll_t;

/*
 * Finds the counters by name. Call it after MPI_Init, and _close before
 * MPI_Finalize. The caller owns the memory and calls from one thread at a time.
 * Source: MPI 3.1, section 14.3.
 */
void mrail_bench_coll_open(mrail_bench_coll_t *coll);
void mrail_bench_coll_close(mrail_bench_coll_t *coll);

/* Reads all counters; zeros if the component is not loaded. */
void mrail_bench_coll_read(const mrail_bench_coll_t *coll,
                           uint64_t values[MRAIL_BENCH_COLL_NUM]);

#endif
