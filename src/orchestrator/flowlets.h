/*
 * How many parallel flowlets a flow needs, and how long they are: ParaLet.
 * Source: [ParaLet] 4.1 and 5.2.
 *
 * N senders choose one of N paths at random for each of their m flowlets. The
 * fullest path has X of the N m flowlets, and the slowdown is X/m. Equation (1)
 * approximates it by 1 + z/sqrt(m), z = Phi^-1(1 - 1/N).
 *
 * Pure, any thread.
 */
#ifndef MRAIL_ORCHESTRATOR_FLOWLETS_H
#define MRAIL_ORCHESTRATOR_FLOWLETS_H

#include <stdint.h>

/* Quantile of the standard normal distribution, 0 < p < 1; relative error below
 * 1e-9. */
double mrail_flowlets_normal_quantile(double p);

/* Phi^-1(1 - 1/n), computed from 1/n, so that it is exact for large n; n > 1. */
double mrail_flowlets_extreme(double n);

/* 1/(1 - Phi(z)): the number of nodes whose extreme is z. */
double mrail_flowlets_nodes(double z);

/* Equation (1): slowdown of n nodes with m flowlets each; n > 1, m >= 1. */
double mrail_flowlets_slowdown(double n, unsigned m);

/* The least m with a slowdown of at most `slowdown` (> 1), by equation (1). At
 * least 1; UINT32_MAX if there is no such 32-bit number. */
uint32_t mrail_flowlets_count(double n, double slowdown);

/* Size of a flowlet in bytes, 4 BDP/m, kept in [min, max]. */
uint64_t mrail_flowlets_size(uint64_t bdp, uint32_t m, uint64_t min,
                             uint64_t max);

/*
 * The exact mean slowdown, E(fullest)/m, of m n balls in n bins, for n m up to
 * 65536. Counts the ways to fill the bins up to a limit. The relative error is
 * below 1e-9. NAN if out of memory.
 */
double mrail_flowlets_slowdown_exact(unsigned n, unsigned m);

#endif
