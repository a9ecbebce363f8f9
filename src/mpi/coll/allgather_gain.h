/*
 * Decides when MPI_Allgatherv gains from two exchanges (mrail_coll_allgatherv.c)
 * instead of an algorithm that passes whole blocks from rank to rank. All ranks
 * know the sizes of all blocks, so they decide alike without messages.
 */
#ifndef MRAIL_MPI_COLL_ALLGATHER_GAIN_H
#define MRAIL_MPI_COLL_ALLGATHER_GAIN_H

#include <stdint.h>

/* The terms of the decision. Sizes are in bytes, rates in bytes per
 * second. */
typedef struct mca_coll_mrail_allgather {
    uint64_t largest, total; /* sizes of the largest block, and of all blocks */
    unsigned num_ranks, num_nodes;
    unsigned least_local; /* smallest number of ranks on a node */
    uint64_t rail_rate;   /* of a rank; 0 if unknown */
    uint64_t copy_rate;   /* between ranks of a node */
} mca_coll_mrail_allgather_t;

/* Returns the number of steps in which a block reaches `num` ranks, if each rank
 * that has it sends it to another one. */
static inline unsigned mca_coll_mrail_allgather_steps(unsigned num)
{
    unsigned steps = 0;

    for (unsigned reached = 1; reached < num; reached *= 2) {
        ++steps;
    }
    return steps;
}

/*
 * Returns 1 if two exchanges are faster than all algorithms of Open MPI.
 *
 * These algorithms send whole blocks. The fastest one for a large block (Bruck)
 * doubles the number of ranks that have it in each step. If all nodes have the
 * same number of ranks, at least log2(N) of its log2(P) steps take a rail each.
 * The other steps take a rail or a copy.
 *
 * In the first exchange, the most loaded node sends at most all blocks to each
 * other node, over the rails of all of its ranks. Each of the two exchanges
 * copies at most all blocks within a node.
 */
static inline int
mca_coll_mrail_allgather_gains(const mca_coll_mrail_allgather_t *all)
{
    double rail = (double)all->rail_rate, copy = (double)all->copy_rate;
    double largest = (double)all->largest, total = (double)all->total;
    unsigned across = mca_coll_mrail_allgather_steps(all->num_nodes);
    unsigned steps = mca_coll_mrail_allgather_steps(all->num_ranks);
    double whole_s, divided_s;

    if (all->num_nodes < 2 || all->rail_rate == 0 || all->copy_rate == 0) {
        return 0;
    }
    whole_s = largest *
              (across / rail + (steps - across) / (rail > copy ? rail : copy));
    divided_s =
        total * ((all->num_nodes - 1) / (all->least_local * rail) + 2 / copy);
    return divided_s < whole_s;
}

/* Returns the offset of part `part` of a block that is divided into `num` parts
 * of equal size. */
static inline uint64_t
mca_coll_mrail_allgather_offset(uint64_t bytes, unsigned part, unsigned num)
{
    return bytes / num * part + bytes % num * part / num;
}

#endif
