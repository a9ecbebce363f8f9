/*
 * Computes the number and size of the parallel flowlets that a flow needs, by
 * the method of ParaLet. Source: [ParaLet] 4.1 and 5.2.
 *
 * Each of N senders chooses one of N paths at random for each of its m
 * flowlets. If the fullest path receives X of the N m flowlets, the slowdown is
 * X/m. Equation (1) approximates it by 1 + z/sqrt(m), with z = Phi^-1(1 - 1/N).
 *
 * The functions have no state, and any thread may call them.
 */
#ifndef MRAIL_FABRIC_FLOWLETS_H
#define MRAIL_FABRIC_FLOWLETS_H

#include <stdint.h>

/* Returns the quantile of the standard normal distribution for 0 < p < 1, with
 * a relative error below 1e-9. */
double mrail_flowlets_normal_quantile(double p);

/* Returns Phi^-1(1 - 1/n) for n > 1. Computes it from 1/n, to be accurate for
 * large n. */
double mrail_flowlets_extreme(double n);

/* Returns 1/(1 - Phi(z)), the number of nodes whose extreme is z. */
double mrail_flowlets_nodes(double z);

/* Equation (1): returns the slowdown of n nodes with m flowlets each. n > 1, m
 * >= 1. */
double mrail_flowlets_slowdown(double n, unsigned m);

/* Returns the smallest m >= 1 for which equation (1) gives a slowdown of at
 * most `slowdown` (> 1), or UINT32_MAX if m does not fit in 32 bits. */
uint32_t mrail_flowlets_count(double n, double slowdown);

/* Returns the flowlet size in bytes: 4 BDP/m, clamped to [min, max]. */
uint64_t mrail_flowlets_size(uint64_t bdp, uint32_t m, uint64_t min,
                             uint64_t max);

/*
 * Returns the exact mean slowdown, E(fullest)/m, of n m balls thrown into n
 * bins, for n m up to 65536. It sums the probabilities that all bins stay
 * within each limit. The relative error is below 1e-9. Returns NAN if memory
 * runs out.
 */
double mrail_flowlets_slowdown_exact(unsigned n, unsigned m);

#endif
