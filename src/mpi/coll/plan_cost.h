/*
 * The time that a plan takes for each large demand, on which the ranks agree.
 * Each rank announces the time of its last plan in its record. The largest
 * value counts, because all ranks wait for the slowest one. The functions are
 * pure.
 *
 * The announced values are levels: 1/4, 1, 4 us and so on, up to 1 ms. Level 0
 * means that the plans of the rank were short. A change of level makes the
 * ranks exchange records again, so a small change of the time keeps the old
 * level.
 */
#ifndef MRAIL_MPI_COLL_PLAN_COST_H
#define MRAIL_MPI_COLL_PLAN_COST_H

#define MCA_COLL_MRAIL_PLAN_COST_LEVELS 8u
#define MCA_COLL_MRAIL_PLAN_COST_FIRST_NS 250.0
#define MCA_COLL_MRAIL_PLAN_COST_FACTOR 4.0
/* Level whose cost is assumed while the level is 0. */
#define MCA_COLL_MRAIL_PLAN_COST_UNKNOWN 2u

/* Returns nanoseconds per demand. */
static inline double mca_coll_mrail_plan_cost_ns(unsigned level)
{
    double ns = MCA_COLL_MRAIL_PLAN_COST_FIRST_NS;

    level = (level == 0) ? MCA_COLL_MRAIL_PLAN_COST_UNKNOWN : level;
    for (unsigned i = 1; i < level; ++i) {
        ns *= MCA_COLL_MRAIL_PLAN_COST_FACTOR;
    }
    return ns;
}

/* Returns the level to announce after a plan that took `ns` per demand. `last`
 * is the level announced before. */
static inline unsigned mca_coll_mrail_plan_cost_level(unsigned last, double ns)
{
    unsigned level = 1;

    if (last > 0 &&
        ns < MCA_COLL_MRAIL_PLAN_COST_FACTOR *
                 mca_coll_mrail_plan_cost_ns(last) &&
        ns > mca_coll_mrail_plan_cost_ns(last) /
                 MCA_COLL_MRAIL_PLAN_COST_FACTOR) {
        return last;
    }
    while (level + 1 < MCA_COLL_MRAIL_PLAN_COST_LEVELS &&
           ns > 2 * mca_coll_mrail_plan_cost_ns(level)) {
        ++level;
    }
    return level;
}

#endif
