/*
 * Reports the bytes of each uplink: the bytes that plans of coll/mrail assign
 * to it and, in a lab, the bytes that the link carried.
 */
#ifndef MRAIL_TOOLS_BENCH_UPLINKS_H
#define MRAIL_TOOLS_BENCH_UPLINKS_H

#include "tools/bench_coll.h"

typedef struct mrail_bench_uplinks mrail_bench_uplinks_t;

/* All ranks must call both functions. Only rank 0 reads the lab and prints.
 * _begin returns the current state of the counters. _end prints the increase
 * since then, and frees the state. */
mrail_bench_uplinks_t *
mrail_bench_uplinks_begin(const mrail_bench_coll_t *coll);
void mrail_bench_uplinks_end(const mrail_bench_coll_t *coll,
                             mrail_bench_uplinks_t *before, int json);

#endif
