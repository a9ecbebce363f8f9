/*
 * Computes the minimum congestion of an exchange, and the fewest relayed bytes
 * within a given congestion, with linear programs for GLPK.
 *
 * GLPK's result is not trusted, because its floating-point simplex has been
 * wrong by 0.1 %. The split that it returns is completed to a valid one, whose
 * value is never below the optimum. Its dual values give a lower bound. Both
 * hold for any result of GLPK, and the distance between the two shows GLPK's
 * accuracy.
 */
#ifndef MRAIL_TEST_PLAN_LP_H
#define MRAIL_TEST_PLAN_LP_H

#include "plan_paths.h"

/* The flows and their paths. A flow is the sum of all demands with the same
 * endpoints and paths. */
typedef struct lp_problem {
    const machine_t *machine;
    unsigned num_flows, num_columns;
    double *bytes; /* bytes by flow */
    /* index of each flow's first path, plus one entry for the end */
    unsigned *first;
    path_t *path;
} lp_problem_t;

/* An interval that contains the optimum. */
typedef struct lp_range {
    double least, most;
    int exact; /* 1 if exact arithmetic was needed */
} lp_range_t;

/* Returns NULL if there are more than max_columns paths. Each demand must
 * either have a path or need no plan. */
lp_problem_t *lp_create(const machine_t *machine, unsigned max_columns);
void lp_destroy(lp_problem_t *problem);

/* Returns the minimum congestion, in seconds. */
lp_range_t lp_congestion(const lp_problem_t *problem);
/* Returns the fewest relayed bytes, each counted once per relay, at a
 * congestion of at most `limit`, which must not be below
 * lp_congestion().most. */
lp_range_t lp_relayed(const lp_problem_t *problem, double limit);

#endif
