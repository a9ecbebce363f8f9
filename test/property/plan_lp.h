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

/* The bytes between each pair of ranks and their paths. Small demands are
 * separate. */
typedef struct lp_problem {
    const machine_t *machine;
    unsigned num_flows, num_columns;
    double *bytes;   /* by flow */
    unsigned *first; /* by flow, and the end: index of its first path */
    path_t *path;
} lp_problem_t;

/* Interval that contains the optimum. */
typedef struct lp_range {
    double least, most;
    int exact; /* exact arithmetic was necessary */
} lp_range_t;

/* NULL: more than max_columns paths. Each demand has a path, or is not
 * planned. */
lp_problem_t *lp_create(const machine_t *machine, unsigned max_columns);
void lp_destroy(lp_problem_t *problem);

/* Seconds. */
lp_range_t lp_congestion(const lp_problem_t *problem);
/* Minimum of bytes times relays, with a congestion of at most `limit`. The
 * limit is not below lp_congestion().most. */
lp_range_t lp_relayed(const lp_problem_t *problem, double limit);

#endif
