/*
 * mrail bench: shared by its areas. The areas are MPI programs that check every
 * byte of every iteration, outside the timed part.
 */
#ifndef MRAIL_TOOLS_BENCH_H
#define MRAIL_TOOLS_BENCH_H

#include "tools/demand.h"

#include <stddef.h>
#include <stdint.h>

#define MRAIL_BENCH_MAX_SIZES 256
#define MRAIL_BENCH_MAX_SKEWS 32

typedef struct mrail_bench_skew {
    uint32_t hotspot_ppm; /* or MRAIL_DEMAND_UNIFORM */
    mrail_demand_pattern_t pattern;
} mrail_bench_skew_t;

typedef struct mrail_bench_options {
    uint64_t sizes[MRAIL_BENCH_MAX_SIZES]; /* bytes */
    unsigned num_sizes;
    unsigned iterations;
    unsigned
        small_iterations; /* of sizes up to MRAIL_BENCH_SMALL; 0: as others */
    unsigned warmup;
    mrail_bench_skew_t skews[MRAIL_BENCH_MAX_SKEWS]; /* alltoallv; in turn */
    unsigned num_skews;
    unsigned window;   /* messages in flight; p2p */
    int bidirectional; /* the stream goes both ways; p2p */
    int json;
    int corrupt; /* 1: flip a byte after the exchange, to test the check */
} mrail_bench_options_t;

#define MRAIL_BENCH_SMALL 8192u /* bytes; as in the OSU micro-benchmarks */

static inline unsigned
mrail_bench_iterations(const mrail_bench_options_t *options, uint64_t size)
{
    return (options->small_iterations != 0 && size <= MRAIL_BENCH_SMALL)
               ? options->small_iterations
               : options->iterations;
}

/* ", median of ..." of a table. */
void mrail_bench_print_iterations(const mrail_bench_options_t *options);

/* Results of one size, over all ranks. */
typedef struct mrail_bench_result {
    double
        *times_s; /* of each iteration, the slowest rank's; sorted at the end */
    unsigned num_times;
    double cpu_s;  /* processor time of all ranks in the timed parts */
    double wall_s; /* sum of times_s */
    int data_ok;
} mrail_bench_result_t;

/* malloc(), or ends the process. */
void *mrail_bench_allocate(size_t size);

/* Middle of the values (mean of the two middle ones); sorts them.
 * count >= 1. */
double mrail_bench_median(double *values, unsigned count);

/* The smallest value that at least `percent` (1 to 100) of all values do not
 * exceed: the nearest-rank method. Sorts them. count >= 1. */
double mrail_bench_percentile(double *values, unsigned count, unsigned percent);

/* The bytes of one message, different for every (seed, offset): length bytes.
 * check: offset of the first wrong byte, or length. */
void mrail_bench_fill(void *buffer, size_t length, uint64_t seed);
size_t mrail_bench_check(const void *buffer, size_t length, uint64_t seed);

/* Seed for the message from rank `from` to rank `to` in an iteration. */
uint64_t mrail_bench_seed(unsigned from, unsigned to, uint64_t iteration);

/* Processor time of this process, seconds. */
double mrail_bench_cpu_now(void);

/* Fraction of this machine's processors that a result kept busy, 0 to 1. All
 * ranks count as running on this machine. */
double mrail_bench_load(const mrail_bench_result_t *result);

/* The transport that carries messages, by the environment of an Open MPI rank:
 * "mrail", "ucx:<UCX_TLS>", or "ompi:<pml>". */
void mrail_bench_transport(char *name, size_t size);

/* The areas. Call them on all ranks between MPI_Init and MPI_Finalize. 0, or 1
 * if data was wrong. */
int mrail_bench_alltoallv(const mrail_bench_options_t *options);
int mrail_bench_p2p(const mrail_bench_options_t *options);

#endif
