/*
 * Decides which calls on a communicator have an agreement round about their
 * demands. A round costs an allgather, so most small exchanges skip it. Each
 * round decides for its own call and for the calls until the next round. All
 * ranks pass through the same states, because they see the same votes. The
 * functions are pure.
 */
#ifndef MRAIL_MPI_COLL_MODE_H
#define MRAIL_MPI_COLL_MODE_H

/* Number of calls after a planned one that have a round even if there is
 * nothing to plan. Programs often alternate exchanges of data with small
 * exchanges of counts. */
#define MCA_COLL_MRAIL_GRACE_CALLS 8u
/* Upper bound of the back-off: 1 call skips the round, then 2, 4 and so on, up
 * to this many. During back-off, each round starts with a vote of one word. The
 * vote takes log2 P messages, and an alltoallv P - 1, so the overhead is below
 * 1/65. */
#define MCA_COLL_MRAIL_MAX_PERIOD 64u

typedef struct mca_coll_mrail_mode {
    /* number of further calls that have a round even if there is nothing to
     * plan */
    unsigned grace_calls;
    unsigned period; /* calls to skip between rounds; 0 if none */
    unsigned left;   /* calls left to skip */
    /* 1 if this rank has had a demand worth planning since the last round */
    int wanted;
} mca_coll_mrail_mode_t;

/* Initialises the mode. The first call on a communicator has a round. If rounds
 * find no demands, the mode soon backs off. */
static inline void mca_coll_mrail_mode_init(mca_coll_mrail_mode_t *mode)
{
    *mode = (mca_coll_mrail_mode_t){0};
}

/* Starts a call. `is_large` is 1 if this rank has a demand worth planning.
 * Returns 1 if the call has a round, after which mca_coll_mrail_mode_vote()
 * must be called. */
static inline int mca_coll_mrail_mode_call(mca_coll_mrail_mode_t *mode,
                                           int is_large)
{
    mode->wanted |= is_large;
    if (mode->left == 0) {
        return 1;
    }
    --mode->left;
    return 0;
}

/* Returns 1 if the mode has backed off, because rounds are unlikely to find
 * demands to plan. */
static inline int
mca_coll_mrail_mode_is_backed_off(const mca_coll_mrail_mode_t *mode)
{
    return mode->period > 0;
}

/* Processes the result of the vote. `any_wanted` is 1 if some rank has had a
 * demand worth planning since the last round. */
static inline void mca_coll_mrail_mode_vote(mca_coll_mrail_mode_t *mode,
                                            int any_wanted)
{
    mode->wanted = 0;
    if (any_wanted) {
        mode->grace_calls = MCA_COLL_MRAIL_GRACE_CALLS;
        mode->period = 0;
    } else if (mode->grace_calls > 0) {
        --mode->grace_calls;
    } else if (mode->period < MCA_COLL_MRAIL_MAX_PERIOD) {
        mode->period = (mode->period == 0) ? 1 : 2 * mode->period;
    }
    mode->left = mode->period;
}

#endif
