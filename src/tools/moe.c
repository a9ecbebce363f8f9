#include "config.h"
#include "tools/moe.h"

#include "base/rng.h"

#include <math.h>
#include <string.h>

uint64_t mrail_moe_limit(const mrail_moe_t *moe)
{
    double even = (double)moe->tokens * moe->top_k / moe->experts;

    return (moe->capacity > 0) ? (uint64_t)ceil(moe->capacity * even)
                               : UINT64_MAX;
}

uint64_t mrail_moe_tokens(const mrail_moe_t *moe, unsigned rank)
{
    return moe->tokens / moe->ranks + (rank < moe->tokens % moe->ranks);
}

/* Chooses a random expert that was not yet chosen for this token. */
static unsigned draw(const mrail_moe_t *moe, mrail_rng_t *rng,
                     const uint64_t *last, uint64_t token)
{
    unsigned expert;

    do {
        expert = mrail_rng_below(rng, moe->experts);
    } while (last[expert] == token);
    return expert;
}

uint64_t mrail_moe_route(const mrail_moe_t *moe, uint64_t step,
                         uint64_t *copies, uint64_t *load)
{
    uint64_t limit = mrail_moe_limit(moe), dropped = 0, token = 0;
    unsigned per_rank = moe->experts / moe->ranks;
    uint64_t *last = load + moe->experts; /* the last token of each expert */
    mrail_rng_t rng;

    mrail_rng_init(&rng, mrail_mix64(mrail_mix64(moe->seed) + step));
    memset(copies, 0, (size_t)moe->ranks * moe->ranks * sizeof(*copies));
    memset(load, 0, 2 * (size_t)moe->experts * sizeof(*load));
    for (unsigned from = 0; from < moe->ranks; ++from) {
        for (uint64_t i = mrail_moe_tokens(moe, from); i > 0; --i) {
            ++token;
            for (unsigned k = 0; k < moe->top_k; ++k) {
                unsigned expert = (k == 0 && mrail_rng_hit(&rng, moe->skew_ppm))
                                      ? 0
                                      : draw(moe, &rng, last, token);

                last[expert] = token;
                if (load[expert] == limit) {
                    ++dropped;
                    continue;
                }
                ++load[expert];
                ++copies[(size_t)from * moe->ranks + expert / per_rank];
            }
        }
    }
    return dropped;
}
