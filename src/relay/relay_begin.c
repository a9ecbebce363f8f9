/* Starts an exchange: finds this rank's part in a list of flows. */
#include "config.h"
#include "relay/relay_internal.h"

#include "base/grow.h"

#include <errno.h>
#include <stdlib.h>

/* ---- flows ---- */

#define MAX_PATH 4u

static int is_local(const mrail_relay_t *relay, uint32_t rank)
{
    return relay->local_of[rank] != MRAIL_RELAY_NONE;
}

static int is_within_node(const mrail_relay_t *relay,
                          const mrail_relay_flow_t *flow)
{
    return is_local(relay, flow->from) && is_local(relay, flow->to);
}

/* Lists the ranks on the path of a flow. A relay within the node is not one of
 * them, because it only provides its area. */
static unsigned flow_path(const mrail_relay_t *relay,
                          const mrail_relay_flow_t *flow,
                          uint32_t path[MAX_PATH])
{
    unsigned length = 0;

    path[length++] = flow->from;
    if ((flow->relay_out != MRAIL_RELAY_NONE) && !is_within_node(relay, flow)) {
        path[length++] = flow->relay_out;
    }
    if (flow->relay_in != MRAIL_RELAY_NONE) {
        path[length++] = flow->relay_in;
    }
    path[length++] = flow->to;
    return length;
}

static int is_rank_or_none(const mrail_relay_t *relay, uint32_t rank)
{
    return (rank < relay->num_ranks) || (rank == MRAIL_RELAY_NONE);
}

/* Checks that a relay, if any, is not `end`, and is on this node if and only if
 * `end` is. */
static int relay_is_valid(const mrail_relay_t *relay, uint32_t rank,
                          uint32_t end)
{
    return (rank == MRAIL_RELAY_NONE) ||
           ((rank != end) && (is_local(relay, rank) == is_local(relay, end)));
}

/* Checks a flow whose path includes this rank. One of its ends must be on this
 * node. */
static int flow_is_possible(const mrail_relay_t *relay,
                            const mrail_relay_flow_t *flow)
{
    if (flow->bytes > UINT64_MAX - flow->offset) {
        return 0;
    }
    if (is_within_node(relay, flow)) {
        return ((flow->relay_out == MRAIL_RELAY_NONE) ||
                relay->shape.is_external) &&
               relay_is_valid(relay, flow->relay_out, flow->from) &&
               (flow->relay_out != flow->to) &&
               (flow->relay_in == MRAIL_RELAY_NONE);
    }
    return (is_local(relay, flow->from) || is_local(relay, flow->to)) &&
           relay_is_valid(relay, flow->relay_out, flow->from) &&
           relay_is_valid(relay, flow->relay_in, flow->to);
}

static int flow_has_ranks(const mrail_relay_t *relay,
                          const mrail_relay_flow_t *flow)
{
    return (flow->from < relay->num_ranks) && (flow->to < relay->num_ranks) &&
           is_rank_or_none(relay, flow->relay_out) &&
           is_rank_or_none(relay, flow->relay_in);
}

static int flow_is_mine(const mrail_relay_t *relay,
                        const mrail_relay_flow_t *flow)
{
    return (flow->bytes > 0) &&
           ((flow->from == relay->self) || (flow->to == relay->self) ||
            ((flow->relay_out == relay->self) &&
             !is_within_node(relay, flow)) ||
            (flow->relay_in == relay->self));
}

static int flows_count(const mrail_relay_t *relay,
                       const mrail_relay_flow_t *flows, size_t num_flows,
                       size_t *num_hops_p)
{
    size_t count = 0;

    for (size_t i = 0; i < num_flows; ++i) {
        if ((flows[i].bytes > 0) && !flow_has_ranks(relay, &flows[i])) {
            return -EINVAL;
        }
        if (flow_is_mine(relay, &flows[i])) {
            if (!flow_is_possible(relay, &flows[i])) {
                return -EINVAL;
            }
            ++count;
        }
    }
    *num_hops_p = count;
    return 0;
}

/* ---- hops ---- */

static int by_place(const void *a, const void *b)
{
    const mrail_relay_flow_t *x = &((const mrail_relay_hop_t *)a)->flow;
    const mrail_relay_flow_t *y = &((const mrail_relay_hop_t *)b)->flow;

    if (x->from != y->from) {
        return (x->from < y->from) ? -1 : 1;
    }
    if (x->to != y->to) {
        return (x->to < y->to) ? -1 : 1;
    }
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static int hops_overlap(const mrail_relay_hop_t *first,
                        const mrail_relay_hop_t *second)
{
    return (first->flow.from == second->flow.from) &&
           (first->flow.to == second->flow.to) &&
           (second->flow.offset - first->flow.offset < first->flow.bytes);
}

static void hop_init(const mrail_relay_t *relay, mrail_relay_hop_t *hop,
                     const mrail_relay_flow_t *flow)
{
    uint32_t path[MAX_PATH];
    unsigned length = flow_path(relay, flow, path);
    uint32_t holder;

    *hop = (mrail_relay_hop_t){
        .flow = *flow,
        .prev = MRAIL_RELAY_NONE,
        .next = MRAIL_RELAY_NONE,
        .out = MRAIL_RELAY_NONE,
        .egress = (flow->relay_out != MRAIL_RELAY_NONE) ? flow->relay_out
                                                        : flow->from,
        .ingress =
            (flow->relay_in != MRAIL_RELAY_NONE) ? flow->relay_in : flow->to,
    };
    holder = !is_local(relay, flow->from) ? hop->ingress
             : relay->shape.is_external   ? hop->egress
                                          : flow->from;
    hop->holder = relay->local_of[holder];
    for (unsigned i = 0; i + 1 < length; ++i) {
        if (path[i] == relay->self) {
            hop->next = path[i + 1];
        }
        if (path[i + 1] == relay->self) {
            hop->prev = path[i];
        }
    }
}

static int hops_init(mrail_relay_t *relay, const mrail_relay_flow_t *flows,
                     size_t num_flows)
{
    relay->num_hops = 0;
    for (size_t i = 0; i < num_flows; ++i) {
        if (flow_is_mine(relay, &flows[i])) {
            hop_init(relay, &relay->hops[relay->num_hops++], &flows[i]);
        }
    }
    if (relay->num_hops > 1) {
        qsort(relay->hops, relay->num_hops, sizeof(*relay->hops), by_place);
    }
    for (size_t i = 1; i < relay->num_hops; ++i) {
        if (hops_overlap(&relay->hops[i - 1], &relay->hops[i])) {
            return -EINVAL;
        }
    }
    return 0;
}

/* ---- channels ---- */

static void hop_set_out(mrail_relay_t *relay, mrail_relay_hop_t *hop)
{
    uint32_t *out = &relay->out_of[hop->next];

    if (*out == MRAIL_RELAY_NONE) {
        *out = relay->num_outs++;
        relay->outs[*out].rank = hop->next;
        mrail_list_init(&relay->outs[*out].sends);
    }
    hop->out = *out;
}

/* Returns 0 if no in-slot is left for another channel. */
static int hop_set_in(mrail_relay_t *relay, const mrail_relay_hop_t *hop)
{
    uint32_t *in = &relay->in_of[hop->prev];
    mrail_relay_in_t *channel;

    if (*in == MRAIL_RELAY_NONE) {
        if (relay->num_ins == relay->shape.in_slots) {
            return 0;
        }
        *in = relay->num_ins++;
        channel = &relay->ins[*in];
        *channel = (mrail_relay_in_t){.rank = hop->prev};
        mrail_list_init(&channel->receives);
    }
    channel = &relay->ins[*in];
    channel->num_left += mrail_relay_chunks(relay, &hop->flow);
    channel->num_to_post = channel->num_left;
    return 1;
}

/* Initialises the channels. The arrays out_of and in_of are valid only within
 * this function. */
static int channels_init(mrail_relay_t *relay)
{
    int has_space = 1;

    relay->num_outs = relay->num_ins = 0;
    for (size_t i = 0; i < relay->num_hops; ++i) {
        mrail_relay_hop_t *hop = &relay->hops[i];

        if ((hop->next != MRAIL_RELAY_NONE) && !is_local(relay, hop->next)) {
            hop_set_out(relay, hop);
        }
        if ((hop->prev != MRAIL_RELAY_NONE) && !is_local(relay, hop->prev)) {
            has_space = has_space && hop_set_in(relay, hop);
        }
    }
    for (uint32_t i = 0; i < relay->num_outs; ++i) {
        relay->out_of[relay->outs[i].rank] = MRAIL_RELAY_NONE;
    }
    for (uint32_t i = 0; i < relay->num_ins; ++i) {
        relay->in_of[relay->ins[i].rank] = MRAIL_RELAY_NONE;
    }
    return has_space ? 0 : -ENOSPC;
}

/* ---- budgets ---- */

static int by_channel(const void *a, const void *b)
{
    const mrail_relay_hop_t *x = *(mrail_relay_hop_t *const *)a;
    const mrail_relay_hop_t *y = *(mrail_relay_hop_t *const *)b;

    if (x->egress != y->egress) {
        return (x->egress < y->egress) ? -1 : 1;
    }
    return (x->ingress > y->ingress) - (x->ingress < y->ingress);
}

/* Numbers the channels of the flows that this rank sends. */
static void budgets_init(mrail_relay_t *relay)
{
    size_t count = 0;

    for (size_t i = 0; i < relay->num_hops; ++i) {
        if (relay->hops[i].flow.from == relay->self) {
            relay->own_hops[count++] = &relay->hops[i];
        }
    }
    if (count > 1) {
        qsort(relay->own_hops, count, sizeof(*relay->own_hops), by_channel);
    }
    relay->num_budgets = 0;
    for (size_t i = 0; i < count; ++i) {
        mrail_relay_hop_t *hop = relay->own_hops[i];

        if ((i == 0) ||
            (by_channel(&relay->own_hops[i - 1], &relay->own_hops[i]) != 0)) {
            relay->budgets[relay->num_budgets++] = (mrail_relay_budget_t){0};
        }
        hop->budget = relay->num_budgets - 1;
        relay->budgets[hop->budget].num_left +=
            mrail_relay_chunks(relay, &hop->flow);
    }
}

/* ---- commit: no function fails from here on ---- */

static void count_to_pop(mrail_relay_t *relay, const mrail_relay_hop_t *hop)
{
    mrail_relay_local_t *local = &relay->locals[relay->local_of[hop->prev]];
    uint64_t chunks = mrail_relay_chunks(relay, &hop->flow);

    if (local->num_left == 0) {
        mrail_list_add_tail(&relay->popping, &local->node);
    }
    local->num_left += chunks;
    relay->num_to_pop += chunks;
}

/* Lists the flows to fill. Each rank starts with the next higher receiver, so
 * that the ranks do not all send to the same receiver at the same time. */
static void list_senders(mrail_relay_t *relay)
{
    /* flows to lower ranks, which come after all other flows */
    mrail_list_t before;

    mrail_list_init(&before);
    for (size_t i = 0; i < relay->num_hops; ++i) {
        mrail_relay_hop_t *hop = &relay->hops[i];

        if (hop->flow.from == relay->self) {
            relay->num_to_fill += mrail_relay_chunks(relay, &hop->flow);
            mrail_list_add_tail((hop->flow.to > relay->self) ? &relay->senders
                                                             : &before,
                                &hop->node);
        }
    }
    while (!mrail_list_empty(&before)) {
        mrail_list_t *node = before.next;

        mrail_list_del(node);
        mrail_list_add_tail(&relay->senders, node);
    }
}

static void commit(mrail_relay_t *relay, uint64_t hash)
{
    relay->hash = hash;
    ++relay->exchange;
    relay->num_unfilled = relay->num_budgets;
    for (uint32_t slot = 0; slot < relay->shape.out_slots; ++slot) {
        relay->budget_of_slot[slot] = MRAIL_RELAY_NONE;
    }
    list_senders(relay);
    for (size_t i = 0; i < relay->num_hops; ++i) {
        const mrail_relay_hop_t *hop = &relay->hops[i];

        if ((hop->prev != MRAIL_RELAY_NONE) && is_local(relay, hop->prev)) {
            count_to_pop(relay, hop);
        }
    }
    for (uint32_t i = 0; i < relay->num_ins; ++i) {
        mrail_list_add_tail(&relay->receiving, &relay->ins[i].node);
        relay->num_to_receive += relay->ins[i].num_left;
    }
    relay->num_to_post = relay->num_to_receive;
}

static int reserve(mrail_relay_t *relay, size_t num_hops)
{
    if (num_hops > relay->max_hops) {
        if (!mrail_grow(&relay->hops, num_hops, sizeof(*relay->hops))) {
            return -ENOMEM;
        }
        relay->max_hops = num_hops;
    }
    /* num_hops entries are enough, because each hop has at most one next
     * rank. */
    if (num_hops > relay->max_outs) {
        if (!mrail_grow(&relay->outs, num_hops, sizeof(*relay->outs))) {
            return -ENOMEM;
        }
        relay->max_outs = num_hops;
    }
    if (num_hops > relay->max_budgets) {
        if (!mrail_grow(&relay->own_hops, num_hops, sizeof(*relay->own_hops)) ||
            !mrail_grow(&relay->budgets, num_hops, sizeof(*relay->budgets))) {
            return -ENOMEM;
        }
        relay->max_budgets = num_hops;
    }
    return 0;
}

int mrail_relay_reserve(mrail_relay_t *relay, const mrail_relay_flow_t *flows,
                        size_t num_flows)
{
    size_t num_hops;
    int ret;

    if (relay->error != 0) {
        return relay->error;
    }
    if (!mrail_relay_done(relay)) {
        return -EBUSY;
    }
    ret = flows_count(relay, flows, num_flows, &num_hops);
    if (ret == 0) {
        ret = reserve(relay, num_hops);
    }
    if (ret == 0) {
        ret = hops_init(relay, flows, num_flows);
    }
    if (ret == 0) {
        budgets_init(relay);
        ret = channels_init(relay);
    }
    return ret;
}

int mrail_relay_begin(mrail_relay_t *relay, uint64_t hash,
                      const mrail_relay_flow_t *flows, size_t num_flows)
{
    int ret = mrail_relay_reserve(relay, flows, num_flows);

    if (ret == 0) {
        commit(relay, hash);
    }
    return ret;
}
