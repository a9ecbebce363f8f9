/*
 * The least congestion of an exchange, and the least that must be relayed
 * within a congestion, as linear programs that GLPK solves.
 *
 * GLPK's word is not taken for it (its floating-point simplex has been 0.1 %
 * off): a division that it names is made to add up, and what that comes to is
 * no less than the optimum; its dual values give what no division is below.
 * Both hold whatever GLPK did; how near they are to each other says whether it
 * did it well.
 */
#ifndef MRAIL_TEST_PLAN_LP_H
#define MRAIL_TEST_PLAN_LP_H

#include "plan_paths.h"

/* What is to be divided: the bytes from one rank to another one, those of small
 * demands for themselves, with their paths. */
typedef struct lp_problem {
    const world_t *world;
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
lp_problem_t *lp_create(const world_t *world, unsigned max_columns);
void lp_destroy(lp_problem_t *problem);

/* Seconds. */
lp_range_t lp_congestion(const lp_problem_t *problem);
/* Bytes times relays, with a congestion of `limit`, which is not below
 * lp_congestion().most. */
lp_range_t lp_relayed(const lp_problem_t *problem, double limit);

#endif
