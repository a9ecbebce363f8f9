/*
 * Shared by the areas of mrail bench. Each area is an MPI program that checks
 * every byte of every iteration, outside the timed part.
 */
#ifndef MRAIL_TOOLS_BENCH_H
#define MRAIL_TOOLS_BENCH_H

#include "base/json.h"
#include "tools/bench_buffer.h"
#include "tools/demand.h"

#include <stddef.h>
#include <stdint.h>

#define MRAIL_BENCH_MAX_SIZES 256
#define MRAIL_BENCH_MAX_SKEWS 32

/* In the order of the values of --plan. */
typedef enum mrail_bench_plan {
    MRAIL_BENCH_PLAN_BOTH, /* moe only */
    MRAIL_BENCH_PLAN_YES,
    MRAIL_BENCH_PLAN_NO,
    MRAIL_BENCH_PLAN_UNSET
} mrail_bench_plan_t;

typedef struct mrail_bench_skew {
    uint32_t hotspot_ppm; /* MRAIL_DEMAND_UNIFORM for no hotspot */
    mrail_demand_pattern_t pattern;
} mrail_bench_skew_t;

typedef struct mrail_bench_options {
    uint64_t sizes[MRAIL_BENCH_MAX_SIZES]; /* bytes */
    unsigned num_sizes;
    unsigned iterations;
    /* iterations for sizes up to MRAIL_BENCH_SMALL; 0 for `iterations` */
    unsigned small_iterations;
    /* minimum number of iterations before the timed ones; MRAIL_BENCH_AUTO for
     * 2 */
    unsigned warmup;
    /* minimum time of these iterations in seconds; if negative, `warmup` and
     * `explain` determine it */
    double warmup_s;
    /* alltoallv: the skews to measure, one after the other */
    mrail_bench_skew_t skews[MRAIL_BENCH_MAX_SKEWS];
    unsigned num_skews;
    unsigned window;             /* p2p: messages in flight */
    int bidirectional;           /* p2p: 1 for a stream in both directions */
    mrail_bench_memory_t memory; /* kind of memory of the buffers */
    /* moe: `sizes` are tokens */
    uint32_t moe_skews[MRAIL_BENCH_MAX_SKEWS]; /* millionths */
    unsigned num_moe_skews;
    unsigned hidden;   /* 2-byte elements per token */
    unsigned experts;  /* 0 for one expert per rank */
    unsigned top_k;    /* experts of a token */
    double capacity;   /* see tools/moe.h */
    unsigned token_ns; /* time of an expert per token */
    uint64_t seed;
    unsigned plan; /* alltoallv, moe: mrail_bench_plan_t */
    int json;
    int explain; /* 1 if coll/mrail prints its forecasts */
    int corrupt; /* 1 to flip a byte after the exchange, which tests the
                  * check */
} mrail_bench_options_t;

/* Returns 1 if another iteration must precede the timed ones. `done` iterations
 * took `warm_s` seconds in total. Ranks that pass the same values get the same
 * result. */
static inline int mrail_bench_is_cold(const mrail_bench_options_t *options,
                                      unsigned done, double warm_s)
{
    return (done < options->warmup) || (warm_s < options->warmup_s);
}

#define MRAIL_BENCH_AUTO ((unsigned)-1)
#define MRAIL_BENCH_SMALL 8192u /* bytes, as in the OSU micro-benchmarks */

static inline unsigned
mrail_bench_iterations(const mrail_bench_options_t *options, uint64_t size)
{
    return (options->small_iterations != 0 && size <= MRAIL_BENCH_SMALL)
               ? options->small_iterations
               : options->iterations;
}

/* Returns the name of the kind of buffer memory. */
static inline const char *
mrail_bench_memory(const mrail_bench_options_t *options)
{
    static const char *const names[] = {"host", "device", "managed"};

    return names[options->memory];
}

/* Formats a fraction for a table column, or "-" if it is negative (unknown). */
const char *mrail_bench_share_text(double share, char text[16]);
/* Writes the fraction, or null if it is negative. */
void mrail_bench_share_json(mrail_json_t *json, const char *key, double share);

/* On rank 0, prints the number of the next iteration to stderr every 10 s. */
void mrail_bench_progress(int rank, unsigned done, unsigned total);

/* Prints ", median of ..." for the header of a table. */
void mrail_bench_print_iterations(const mrail_bench_options_t *options);

/* Results of one size for all ranks. */
typedef struct mrail_bench_result {
    double *times_s; /* slowest rank's time per iteration; sorted at the end */
    unsigned num_times;
    double warm_s; /* sum of the slowest rank's times before the timed ones */
    double cpu_s;  /* CPU time of all ranks in the timed parts */
    double wall_s; /* sum of times_s */
    int data_ok;
} mrail_bench_result_t;

/* Like malloc(3), but exits if memory runs out. */
void *mrail_bench_allocate(size_t size);

/* Sorts the values and returns the median: the middle value, or the mean of the
 * two middle values. count >= 1. */
double mrail_bench_median(double *values, unsigned count);

/* Sorts the values and returns the smallest value v such that at least
 * `percent` (1 to 100) percent of the values are <= v: the nearest-rank method.
 * count >= 1. */
double mrail_bench_percentile(double *values, unsigned count, unsigned percent);

/* Fills a message with the pattern of the kernels (kernels/args.h).
 * mrail_bench_check() returns the offset of the first wrong byte, or `length`
 * if there is none. */
void mrail_bench_fill(void *buffer, size_t length, uint64_t seed);
size_t mrail_bench_check(const void *buffer, size_t length, uint64_t seed);

/* Returns the seed of the message from rank `from` to rank `to` in an
 * iteration. */
uint64_t mrail_bench_seed(unsigned from, unsigned to, uint64_t iteration);

/* Returns the CPU time of this process in seconds. */
double mrail_bench_cpu_now(void);

/* Returns the fraction (0 to 1) of this machine's processors that the run kept
 * busy, assuming that all ranks ran on this machine. */
double mrail_bench_load(const mrail_bench_result_t *result);

/* Writes the name of the transport that carries messages, according to the
 * environment of an Open MPI rank: "mrail", "ucx:<UCX_TLS>" or "ompi:<pml>". */
void mrail_bench_transport(char *name, size_t size);

/* The areas. All ranks call them between MPI_Init and MPI_Finalize. They return
 * 0, or 1 if any data was wrong. */
int mrail_bench_alltoallv(const mrail_bench_options_t *options);
int mrail_bench_p2p(const mrail_bench_options_t *options);
int mrail_bench_moe(const mrail_bench_options_t *options);

/* Returns the reason why these experts cannot be distributed to the ranks, or
 * NULL. */
const char *mrail_bench_moe_refusal(unsigned experts, unsigned top_k,
                                    unsigned ranks);

#endif
