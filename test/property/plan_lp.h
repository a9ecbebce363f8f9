/*
 * The least congestion of an exchange, and the least relayed bytes within a
 * congestion, as linear programs for GLPK.
 *
 * GLPK's result is not trusted: its floating-point simplex was off by 0.1 %.
 * The division that it returns is completed to a valid one, whose value is not
 * below the optimum. Its dual values give a lower bound. Both hold whatever
 * GLPK computed; their distance shows its accuracy.
 */
#ifndef MRAIL_TEST_PLAN_LP_H
#define MRAIL_TEST_PLAN_LP_H

#include "plan_paths.h"

/* The bytes between each pair of ranks, with small demands separate, and their
 * paths. */
typedef struct lp_problem {
    const machine_t *machine;
    unsigned num_flows, num_columns;
    double *bytes;   /* of each flow */
    unsigned *first; /* its first path; num_flows + 1 of them */
    path_t *path;
} lp_problem_t;

/* Where the optimum is. */
typedef struct lp_range {
    double least, most;
    int exact; /* exact arithmetic was needed */
} lp_range_t;

/* NULL: there are more than max_columns paths.  All demands have one at least,
 * or are not planned. */
lp_problem_t *lp_create(const machine_t *machine, unsigned max_columns);
void lp_destroy(lp_problem_t *problem);

/* Seconds. */
lp_range_t lp_congestion(const lp_problem_t *problem);
/* Bytes times relays, with a congestion of `limit`, which is not below
 * lp_congestion().most. */
lp_range_t lp_relayed(const lp_problem_t *problem, double limit);

#endif
