/* Shared by the files of mrail bench moe. */
#ifndef MRAIL_TOOLS_BENCH_MOE_H
#define MRAIL_TOOLS_BENCH_MOE_H

#include "tools/bench.h"
#include "tools/bench_coll.h"
#include "tools/moe.h"

#include <mpi.h>

enum { MRAIL_MOE_UNPLANNED, MRAIL_MOE_PLANNED, MRAIL_MOE_NUM_MODES };
/* The first two are exchanges. */
enum {
    MRAIL_MOE_DISPATCH,
    MRAIL_MOE_COMBINE,
    MRAIL_MOE_COMPUTE,
    MRAIL_MOE_BLOCK,
    MRAIL_MOE_NUM_PHASES
};
#define MRAIL_MOE_NUM_EXCHANGES 2

/* One end of both exchanges: a message for each rank, one after the other. */
typedef struct mrail_moe_side {
    int *counts, *offsets; /* tokens */
    uint64_t tokens;
    mrail_bench_buffer_t buffers[MRAIL_MOE_NUM_EXCHANGES];
} mrail_moe_side_t;

typedef struct mrail_moe_layer {
    mrail_moe_t moe;
    int ranks, rank;
    size_t token_bytes;
    uint64_t *copies, *load; /* results of mrail_moe_route() */
    MPI_Datatype token;
    /* Dispatch sends tokens from `owners` to `experts`, and combine sends them
     * back. */
    mrail_moe_side_t owners, experts;
} mrail_moe_layer_t;

/* Measurements of one mode. */
typedef struct mrail_moe_mode {
    MPI_Comm comm;
    double *times_s[MRAIL_MOE_NUM_PHASES];  /* times of the slowest rank, by
                                             * step */
    double *rates[MRAIL_MOE_NUM_EXCHANGES]; /* bytes/s of all ranks together,
                                             * by step */
    double bytes, planned_bytes, relayed_bytes; /* sums over all ranks */
    int is_used;
} mrail_moe_mode_t;

typedef struct mrail_moe_run {
    const mrail_bench_options_t *options;
    mrail_bench_coll_t coll;
    mrail_moe_layer_t layer;
    mrail_moe_mode_t modes[MRAIL_MOE_NUM_MODES];
    unsigned num_steps;      /* number of timed steps */
    double dropped, hottest; /* fractions of all copies; sums over steps */
    int data_ok;
} mrail_moe_run_t;

/* Returns 1 if a kernel replaces the computation of the experts, and 0 if the
 * host waits. Needs the buffers. */
int mrail_bench_moe_has_kernel(const mrail_moe_layer_t *layer);

/* Prints the rows or objects of the modes. Sorts their times. */
void mrail_bench_moe_show(mrail_moe_run_t *run);
void mrail_bench_moe_show_header(const mrail_moe_run_t *run);

#endif
