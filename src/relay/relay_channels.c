/* Computes the number of in-slots that each rank needs for an exchange. */
#include "config.h"
#include "relay/relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct hop {
    uint32_t to, from;
} hop_t;

static int by_ranks(const void *a, const void *b)
{
    const hop_t *x = a, *y = b;

    if (x->to != y->to) {
        return (x->to < y->to) ? -1 : 1;
    }
    return (x->from > y->from) - (x->from < y->from);
}

/* Finds the network hop of a flow. Returns 0 if there is none. */
static int find_hop(const mrail_relay_flow_t *flow, const uint32_t *nodes,
                    hop_t *hop)
{
    if ((flow->bytes == 0) || (nodes[flow->from] == nodes[flow->to])) {
        return 0;
    }
    hop->from =
        (flow->relay_out != MRAIL_RELAY_NONE) ? flow->relay_out : flow->from;
    hop->to = (flow->relay_in != MRAIL_RELAY_NONE) ? flow->relay_in : flow->to;
    return 1;
}

int mrail_relay_channels(const mrail_relay_flow_t *flows, size_t num_flows,
                         const uint32_t *nodes, uint32_t num_ranks,
                         unsigned *channels)
{
    hop_t *hops;
    size_t count = 0;

    hops = malloc((num_flows + 1) * sizeof(*hops));
    if (hops == NULL) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < num_flows; ++i) {
        count += (size_t)find_hop(&flows[i], nodes, &hops[count]);
    }
    qsort(hops, count, sizeof(*hops), by_ranks);
    memset(channels, 0, num_ranks * sizeof(*channels));
    for (size_t i = 0; i < count; ++i) {
        channels[hops[i].to] +=
            (i == 0) || (by_ranks(&hops[i - 1], &hops[i]) != 0);
    }
    free(hops);
    return 0;
}
