#include "config.h"
#include "mpi/coll/inflight.h"

#include "base/util.h"

/* An exchange of more than this number of windows has no limit. A limit would
 * save little time, and the engine balances best when it has all messages
 * (decision 0012). */
#define LONG 10u

uint64_t
mca_coll_mrail_inflight_bytes(const mca_coll_mrail_rank_entry_t *entries,
                              unsigned num_ranks, unsigned self)
{
    const mca_coll_mrail_rank_entry_t *mine = &entries[self];
    uint64_t inflight_us = entries[0].params.inflight_us, sharers = 0;
    double bytes;

    for (unsigned i = 0; i < num_ranks; ++i) {
        if (entries[i].num_rails == 0) {
            return 0;
        }
        sharers += entries[i].node == mine->node;
    }
    if (inflight_us == 0 || sharers == num_ranks) {
        return 0;
    }
    bytes = (double)mine->speed * (double)inflight_us / 1e6 / (double)sharers;
    return (bytes < 1) ? 1 : (bytes < 1e18) ? (uint64_t)bytes : (uint64_t)1e18;
}

/* Returns 1 if a message is longer than twice the mean. A limit would let long
 * messages delay shorter ones. */
static int is_skewed(const mca_coll_mrail_load_t *load)
{
    return load->largest / 2 > load->sum / load->count;
}

uint64_t mca_coll_mrail_inflight_window(uint64_t inflight_bytes,
                                        const mca_coll_mrail_load_t *out,
                                        const mca_coll_mrail_load_t *in)
{
    uint64_t least = MRAIL_MIN(out->sum, in->sum);
    uint64_t most = MRAIL_MAX(out->sum, in->sum);

    if (most / LONG > inflight_bytes || most / 2 > least || is_skewed(out) ||
        is_skewed(in)) {
        return UINT64_MAX;
    }
    return inflight_bytes;
}
