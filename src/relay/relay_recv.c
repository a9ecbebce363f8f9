/* Implements the receive side of a rank: chunks from the network and from the
 * ranks of its node. */
#include "config.h"
#include "relay/relay_internal.h"

#include <errno.h>
#include <string.h>

/* ---- header check ---- */

/* Finds the last flow of this pair that starts at or before `offset`. */
static mrail_relay_hop_t *find_hop(const mrail_relay_t *relay,
                                   const mrail_relay_header_t *header)
{
    size_t first = 0, count = relay->num_hops;

    while (count > 0) {
        size_t half = count / 2;
        const mrail_relay_flow_t *flow = &relay->hops[first + half].flow;
        int is_behind =
            (flow->from != header->from) ? (flow->from > header->from)
            : (flow->to != header->to)   ? (flow->to > header->to)
                                         : (flow->offset > header->offset);

        if (is_behind) {
            count = half;
        } else {
            first += half + 1;
            count -= half + 1;
        }
    }
    return (first == 0) ? NULL : &relay->hops[first - 1];
}

static int is_of_exchange(const mrail_relay_t *relay,
                          const mrail_relay_header_t *header)
{
    return (header->magic == MRAIL_RELAY_MAGIC) &&
           (header->hash == relay->hash) &&
           (header->exchange == relay->exchange);
}

static int is_next_of_hop(const mrail_relay_t *relay,
                          const mrail_relay_hop_t *hop, uint32_t prev,
                          const mrail_relay_header_t *header)
{
    const mrail_relay_flow_t *flow = &hop->flow;
    uint64_t num = hop->num_seen;

    return (flow->from == header->from) && (flow->to == header->to) &&
           (flow->relay_out == header->relay_out) &&
           (flow->relay_in == header->relay_in) && (hop->prev == prev) &&
           (num < mrail_relay_chunks(relay, flow)) &&
           (header->offset == flow->offset + num * relay->shape.chunk) &&
           (header->length == mrail_relay_length(relay, flow, num));
}

int mrail_relay_accept(mrail_relay_t *relay, const void *header, uint32_t prev,
                       mrail_relay_header_t *header_p,
                       mrail_relay_hop_t **hop_p)
{
    mrail_relay_hop_t *hop;

    memcpy(header_p, header, sizeof(*header_p));
    if (!is_of_exchange(relay, header_p)) {
        return -EPROTO;
    }
    hop = find_hop(relay, header_p);
    if ((hop == NULL) || !is_next_of_hop(relay, hop, prev, header_p)) {
        return -EPROTO;
    }
    ++hop->num_seen;
    ++relay->stats.chunks;
    *hop_p = hop;
    return 0;
}

/* ---- over the network ---- */

static mrail_relay_slot_t *free_in_slot(const mrail_relay_t *relay)
{
    for (uint32_t i = relay->shape.out_slots; i < relay->layout.slots; ++i) {
        mrail_relay_slot_t *slot = mrail_relay_slot(relay, relay->me, i);

        if ((slot->activity == MRAIL_RELAY_IDLE) &&
            mrail_relay_state_is_free(
                mrail_relay_slot_state(relay, relay->me, i))) {
            return slot;
        }
    }
    return NULL;
}

/* Selects the channel with the fewest posted receives, so that every channel
 * keeps one slot. In a tie, selects the channel with the most chunks left. */
static mrail_relay_in_t *next_to_post(const mrail_relay_t *relay)
{
    mrail_relay_in_t *channel, *best = NULL;

    mrail_list_for_each(channel, &relay->receiving, mrail_relay_in_t, node) {
        if ((channel->num_to_post > 0) &&
            ((best == NULL) || (channel->num_posted < best->num_posted) ||
             ((channel->num_posted == best->num_posted) &&
              (channel->num_to_post > best->num_to_post)))) {
            best = channel;
        }
    }
    return best;
}

static int post(mrail_relay_t *relay, mrail_relay_in_t *channel,
                mrail_relay_slot_t *slot)
{
    int is_split = relay->shape.is_external, ret;

    ret = relay->ops.recv(
        relay->arg, channel->rank, mrail_relay_header_of(relay, slot),
        MRAIL_RELAY_HEADER + (is_split ? 0 : relay->shape.chunk),
        &slot->requests[0]);
    if ((ret == 0) && is_split) {
        ret = relay->ops.recv(relay->arg, channel->rank,
                              mrail_relay_payload_of(relay, slot, relay->me),
                              relay->shape.chunk, &slot->requests[1]);
    }
    if (ret != 0) {
        return ret;
    }
    mrail_relay_state_use(mrail_relay_slot_state(relay, relay->me, slot->slot));
    slot->num_tested = 0;
    slot->activity = MRAIL_RELAY_RECEIVING;
    mrail_list_add_tail(&channel->receives, &slot->node);
    ++channel->num_posted;
    --channel->num_to_post;
    ++relay->num_posted;
    --relay->num_to_post;
    return 1;
}

int mrail_relay_step_post(mrail_relay_t *relay)
{
    mrail_relay_slot_t *slot;

    if ((relay->num_to_post == 0) ||
        (relay->num_posted == relay->shape.in_slots)) {
        return 0;
    }
    slot = free_in_slot(relay);
    if (slot == NULL) {
        relay->stats.waits += !relay->is_short_in;
        relay->is_short_in = 1;
        return 0;
    }
    relay->is_short_in = 0;
    return post(relay, next_to_post(relay), slot);
}

static void end_receive(mrail_relay_t *relay, mrail_relay_in_t *channel,
                        mrail_relay_slot_t *slot)
{
    mrail_list_del(&slot->node);
    mrail_list_del(&channel->node);
    slot->activity = MRAIL_RELAY_IDLE;
    --relay->num_posted;
    --channel->num_posted;
    --relay->num_to_receive;
    if (--channel->num_left > 0) {
        mrail_list_add_tail(&relay->receiving, &channel->node);
    }
}

/* Processes the chunk that was received into a slot. The slot remains in use
 * until its receiver, which may be this rank, has drained it. */
static int take_received(mrail_relay_t *relay, uint32_t prev,
                         mrail_relay_slot_t *slot)
{
    uint64_t length = slot->received[0] + (uint64_t)slot->received[1];
    mrail_relay_header_t header;
    mrail_relay_hop_t *hop;
    int ret;

    /* After a message shorter than a header, the slot would contain an old
     * header. */
    if (slot->received[0] < MRAIL_RELAY_HEADER) {
        return -EPROTO;
    }
    ret = mrail_relay_accept(relay, mrail_relay_header_of(relay, slot), prev,
                             &header, &hop);
    if (ret != 0) {
        return ret;
    }
    if (length != MRAIL_RELAY_HEADER + (uint64_t)header.length) {
        return -EPROTO;
    }
    relay->stats.received += header.length;
    if (relay->memory->ops->received != NULL) {
        ret = relay->memory->ops->received(relay->memory);
    }
    if (ret != 0) {
        return ret;
    }
    if (hop->flow.to == relay->self) {
        return mrail_relay_drain(relay, &header, relay->me, slot);
    }
    mrail_relay_push_slot(relay, relay->local_of[hop->next], slot->slot);
    return 0;
}

/* Messages of a channel arrive in order, so the function tests only the oldest
 * receive. */
int mrail_relay_step_received(mrail_relay_t *relay)
{
    mrail_relay_in_t *channel;
    mrail_relay_slot_t *slot;
    int ret;

    mrail_list_for_each(channel, &relay->receiving, mrail_relay_in_t, node) {
        if (mrail_list_empty(&channel->receives)) {
            continue;
        }
        slot = mrail_list_head(&channel->receives, mrail_relay_slot_t, node);
        ret = mrail_relay_test(relay, slot);
        if (ret < 0) {
            return ret;
        }
        if (ret > 0) {
            end_receive(relay, channel, slot);
            ret = take_received(relay, channel->rank, slot);
            return (ret == 0) ? 1 : ret;
        }
    }
    return 0;
}

/* ---- from ranks of the node ---- */

static int take_popped(mrail_relay_t *relay, uint32_t owner, uint32_t number)
{
    mrail_relay_header_t header;
    mrail_relay_slot_t *slot;
    mrail_relay_hop_t *hop;
    int ret;

    if (number >= relay->layout.slots) {
        return -EPROTO;
    }
    slot = mrail_relay_slot(relay, owner, number);
    ret = mrail_relay_accept(relay, mrail_relay_header_of(relay, slot),
                             relay->locals[owner].rank, &header, &hop);
    if (ret != 0) {
        return ret;
    }
    /* A correct rank never pushes a slot that is being copied or sent. */
    if (slot->activity != MRAIL_RELAY_IDLE) {
        return -EPROTO;
    }
    if (hop->flow.to == relay->self) {
        return mrail_relay_drain(relay, &header, hop->holder, slot);
    }
    if (number >= relay->shape.out_slots) {
        return -EPROTO; /* relay_out sends only out-slots */
    }
    return mrail_relay_send(relay, hop, slot, header.length);
}

int mrail_relay_step_pop(mrail_relay_t *relay)
{
    mrail_relay_local_t *local;
    uint32_t owner, slot;
    int ret;

    mrail_list_for_each(local, &relay->popping, mrail_relay_local_t, node) {
        owner = (uint32_t)(local - relay->locals);
        if (!mrail_relay_pop(
                mrail_relay_ring(&relay->layout, relay->base,
                                 relay->shape.num_local, owner, relay->me),
                relay->layout.ring_size, local->num_popped, &slot)) {
            continue;
        }
        ++local->num_popped;
        --relay->num_to_pop;
        mrail_list_del(&local->node);
        if (--local->num_left > 0) {
            mrail_list_add_tail(&relay->popping, &local->node);
        }
        ret = take_popped(relay, owner, slot);
        return (ret == 0) ? 1 : ret;
    }
    return 0;
}
