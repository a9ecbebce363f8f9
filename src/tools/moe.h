/*
 * Routes the tokens of the moe benchmark, which models a Mixture-of-Experts
 * layer, to experts. The functions are deterministic: every rank computes the
 * same routing.
 */
#ifndef MRAIL_TOOLS_MOE_H
#define MRAIL_TOOLS_MOE_H

#include <stdint.h>

#define MRAIL_MOE_MAX_EXPERTS 65536u

typedef struct mrail_moe {
    uint64_t tokens; /* total tokens of all ranks */
    unsigned ranks;
    unsigned experts; /* a multiple of `ranks`; rank r hosts the r-th block of
                       * experts */
    unsigned top_k;   /* experts per token, 1 to `experts` */
    /* probability in millionths, below 1,000,000, that the first expert of a
     * token is expert 0; otherwise all experts are equally likely */
    uint32_t skew_ppm;
    double capacity; /* limit of an expert's tokens as a multiple of an even
                      * share; 0 for no limit */
    uint64_t seed;
} mrail_moe_t;

/* Returns the number of tokens that an expert accepts, or UINT64_MAX for no
 * limit. */
uint64_t mrail_moe_limit(const mrail_moe_t *moe);

/* Returns the number of tokens that a rank has. If `tokens` is not a multiple
 * of `ranks`, the first ranks have one token more. */
uint64_t mrail_moe_tokens(const mrail_moe_t *moe, unsigned rank);

/*
 * Chooses random experts for each token of a step. Each token goes to `top_k`
 * different experts: the first is expert 0 with probability `skew_ppm`, and all
 * other choices are equally likely. An expert that has reached its limit drops
 * further tokens. Tokens are processed in the order of their ranks.
 *
 * Sets copies[from * ranks + to] to the number of tokens that rank `from` sends
 * to the experts of rank `to`; a token for two of them counts twice. `load` is
 * an array of 2 * experts values, of which the first half receives the tokens
 * of each expert. Returns the number of dropped copies.
 */
uint64_t mrail_moe_route(const mrail_moe_t *moe, uint64_t step,
                         uint64_t *copies, uint64_t *load);

#endif
