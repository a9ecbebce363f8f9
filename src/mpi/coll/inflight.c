#include "config.h"
#include "mpi/coll/inflight.h"

#include "base/util.h"

/* In windows.  What a long exchange would gain is little, and the engine balances best
 * what it has all of (decision 0012). */
#define LONG 10u

uint64_t
mca_coll_mrail_inflight_bytes(const mca_coll_mrail_rank_entry_t *members,
                              unsigned num_ranks, unsigned self)
{
    const mca_coll_mrail_rank_entry_t *mine = &members[self];
    uint64_t inflight_us = members[0].params.pace, sharers = 0;
    double bytes;

    for (unsigned i = 0; i < num_ranks; ++i) {
        if (members[i].num_rails == 0 || members[i].has_devices) {
            return 0;
        }
        sharers += members[i].node == mine->node;
    }
    if (inflight_us == 0 || sharers == num_ranks) {
        return 0;
    }
    bytes = (double)mine->speed * (double)inflight_us / 1e6 / (double)sharers;
    return (bytes < 1) ? 1 : (bytes < 1e18) ? (uint64_t)bytes : (uint64_t)1e18;
}

/* Others would wait for a message of more than twice the mean. */
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
