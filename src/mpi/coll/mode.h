/*
 * Which calls on a communicator ask all ranks what there is to send.  Asking costs
 * an allgather, so exchanges that were small go without, most of them: a call that
 * asks decides for itself and about the next ones.  All ranks go through the same
 * states, since they see the same answers.  Pure.
 */
#ifndef MRAIL_MPI_COLL_MODE_H
#define MRAIL_MPI_COLL_MODE_H

/* Calls that are nothing to plan and ask all the same, after one that was: exchanges
 * of data come in turn with small ones of counts. */
#define MCA_COLL_MRAIL_PATIENCE 8u
/* Then 1 call goes without asking, 2, 4, ... this many.  Such a call asks for one word
 * first, which takes log2 P messages of an alltoallv's P - 1, so that is less than 1 in
 * 65 more. */
#define MCA_COLL_MRAIL_MAX_PERIOD 64u

typedef struct mca_coll_mrail_mode {
    unsigned patience; /* calls that still ask if nothing is to be planned */
    unsigned period;   /* calls that went without asking last; 0: none */
    unsigned left;     /* of them */
    int wanted;        /* this rank's own: there was something to plan since the
                          last call that asked */
} mca_coll_mrail_mode_t;

/* A new communicator's first call asks; so do no more of them than necessary, if it
 * was nothing. */
static inline void mca_coll_mrail_mode_init(mca_coll_mrail_mode_t *mode)
{
    *mode = (mca_coll_mrail_mode_t){0};
}

/* A call begins, in which this rank has something worth planning, or not.  1: it
 * asks; mca_coll_mrail_mode_vote() comes next. */
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

/* 1: there was nothing for long: who asks is likely to hear that there is nothing. */
static inline int
mca_coll_mrail_mode_is_backed_off(const mca_coll_mrail_mode_t *mode)
{
    return mode->period > 0;
}

/* What all have said: somebody has wanted something since they were asked last. */
static inline void mca_coll_mrail_mode_vote(mca_coll_mrail_mode_t *mode,
                                            int any_wanted)
{
    mode->wanted = 0;
    if (any_wanted) {
        mode->patience = MCA_COLL_MRAIL_PATIENCE;
        mode->period = 0;
    } else if (mode->patience > 0) {
        --mode->patience;
    } else if (mode->period < MCA_COLL_MRAIL_MAX_PERIOD) {
        mode->period = (mode->period == 0) ? 1 : 2 * mode->period;
    }
    mode->left = mode->period;
}

#endif
