/* Implements the send side of a rank: its own chunks and, as relay_out, chunks
 * of other ranks. */
#include "config.h"
#include "relay/relay_internal.h"

#include <errno.h>
#include <string.h>

/* The state of the slot is in shared memory and cannot be trusted. A slot with
 * a copy or a send in flight therefore counts as used even if its state is
 * free. */
static int out_slot_is_free(const mrail_relay_t *relay, uint32_t slot)
{
    return (mrail_relay_slot(relay, relay->me, slot)->activity ==
            MRAIL_RELAY_IDLE) &&
           mrail_relay_state_is_free(
               mrail_relay_slot_state(relay, relay->me, slot));
}

/* Returns the first free slot, which is the most likely to be in a cache. */
static uint32_t free_out_slot(const mrail_relay_t *relay)
{
    for (uint32_t slot = 0; slot < relay->shape.out_slots; ++slot) {
        if (out_slot_is_free(relay, slot)) {
            return slot;
        }
    }
    return MRAIL_RELAY_NONE;
}

static void write_header(const mrail_relay_t *relay,
                         const mrail_relay_flow_t *flow, uint64_t num, void *to)
{
    mrail_relay_header_t header = {
        .magic = MRAIL_RELAY_MAGIC,
        .length = mrail_relay_length(relay, flow, num),
        .hash = relay->hash,
        .exchange = relay->exchange,
        .offset = flow->offset + num * relay->shape.chunk,
        .from = flow->from,
        .to = flow->to,
        .relay_out = flow->relay_out,
        .relay_in = flow->relay_in,
    };

    memcpy(to, &header, sizeof(header));
}

/* ---- budgets ---- */

/* Counts the slots that each channel holds. */
static void count_held(mrail_relay_t *relay)
{
    for (uint32_t i = 0; i < relay->num_budgets; ++i) {
        relay->budgets[i].num_held = 0;
    }
    for (uint32_t slot = 0; slot < relay->shape.out_slots; ++slot) {
        uint64_t budget = relay->budget_of_slot[slot];

        if ((budget != MRAIL_RELAY_NONE) && !out_slot_is_free(relay, slot)) {
            ++relay->budgets[budget].num_held;
        }
    }
}

/* Returns the first flow whose channel may hold one more slot, or NULL. The
 * channels with chunks to fill share the slots equally. */
static mrail_relay_hop_t *next_to_fill(mrail_relay_t *relay)
{
    uint32_t most = (relay->shape.out_slots - 1) / relay->num_unfilled + 1;
    mrail_relay_hop_t *hop;

    if (relay->num_unfilled == 1) {
        return mrail_list_head(&relay->senders, mrail_relay_hop_t, node);
    }
    count_held(relay);
    mrail_list_for_each(hop, &relay->senders, mrail_relay_hop_t, node) {
        if (relay->budgets[hop->budget].num_held < most) {
            return hop;
        }
    }
    return NULL;
}

/* ---- fill ---- */

/* Moves the flow to the end of the list. The next call then picks another flow,
 * so destinations are served in rotation. */
static void count_filled(mrail_relay_t *relay, mrail_relay_hop_t *hop,
                         uint32_t length)
{
    mrail_list_del(&hop->node);
    if (++hop->num_filled < mrail_relay_chunks(relay, &hop->flow)) {
        mrail_list_add_tail(&relay->senders, &hop->node);
    }
    if (--relay->budgets[hop->budget].num_left == 0) {
        --relay->num_unfilled;
    }
    --relay->num_to_fill;
    ++relay->stats.chunks;
    relay->stats.filled += length;
}

int mrail_relay_pass_on(mrail_relay_t *relay, mrail_relay_hop_t *hop,
                        mrail_relay_slot_t *slot, uint32_t length)
{
    ++hop->num_passed;
    if (hop->out != MRAIL_RELAY_NONE) {
        return mrail_relay_send(relay, hop, slot, length);
    }
    mrail_relay_push_slot(relay, relay->local_of[hop->next], slot->slot);
    return 0;
}

static int fill_slot(mrail_relay_t *relay, mrail_relay_hop_t *hop,
                     mrail_relay_slot_t *slot)
{
    uint64_t num = hop->num_filled;
    uint32_t length = mrail_relay_length(relay, &hop->flow, num);
    void *copy = NULL;
    int ret;

    write_header(relay, &hop->flow, num, mrail_relay_header_of(relay, slot));
    ret = relay->ops.fill(
        relay->arg, hop->flow.to, hop->flow.offset + num * relay->shape.chunk,
        mrail_relay_payload_of(relay, slot, hop->holder), length, &copy);
    if (ret != 0) {
        return ret;
    }
    mrail_relay_state_use(mrail_relay_slot_state(relay, relay->me, slot->slot));
    relay->budget_of_slot[slot->slot] = hop->budget;
    count_filled(relay, hop, length);
    if ((copy == NULL) && (hop->num_passed == num)) {
        return mrail_relay_pass_on(relay, hop, slot, length);
    }
    slot->hop = hop;
    slot->num = num;
    mrail_relay_copy_later(relay, slot, MRAIL_RELAY_FILLING, copy, length);
    return 0;
}

int mrail_relay_step_fill(mrail_relay_t *relay)
{
    mrail_relay_hop_t *hop;
    uint32_t slot;
    int ret;

    if (mrail_list_empty(&relay->senders)) {
        return 0;
    }
    slot = free_out_slot(relay);
    if (slot == MRAIL_RELAY_NONE) {
        relay->stats.waits += !relay->is_short_out;
        relay->is_short_out = 1;
        return 0;
    }
    relay->is_short_out = 0;
    hop = next_to_fill(relay);
    if (hop == NULL) {
        return 0;
    }
    ret = fill_slot(relay, hop, mrail_relay_slot(relay, relay->me, slot));
    return (ret == 0) ? 1 : ret;
}

void mrail_relay_push_slot(mrail_relay_t *relay, uint32_t consumer,
                           uint32_t slot)
{
    mrail_relay_push(
        mrail_relay_ring(&relay->layout, relay->base, relay->shape.num_local,
                         relay->me, consumer),
        relay->layout.ring_size, relay->locals[consumer].num_pushed++, slot);
}

int mrail_relay_send(mrail_relay_t *relay, const mrail_relay_hop_t *hop,
                     mrail_relay_slot_t *slot, uint32_t length)
{
    mrail_relay_out_t *channel = &relay->outs[hop->out];
    int is_split = relay->shape.is_external, ret;

    ret = relay->ops.send(relay->arg, channel->rank,
                          mrail_relay_header_of(relay, slot),
                          MRAIL_RELAY_HEADER + (is_split ? 0 : (size_t)length),
                          &slot->requests[0]);
    if ((ret == 0) && is_split) {
        ret = relay->ops.send(relay->arg, channel->rank,
                              mrail_relay_payload_of(relay, slot, hop->holder),
                              length, &slot->requests[1]);
    }
    if (ret != 0) {
        return ret;
    }
    if (mrail_list_empty(&channel->sends)) {
        mrail_list_add_tail(&relay->sending, &channel->node);
    }
    mrail_list_add_tail(&channel->sends, &slot->node);
    slot->length = length;
    slot->num_tested = 0;
    slot->activity = MRAIL_RELAY_SENDING;
    ++relay->num_sending;
    return 0;
}

static void end_send(mrail_relay_t *relay, mrail_relay_out_t *channel,
                     mrail_relay_slot_t *slot)
{
    mrail_list_del(&slot->node);
    mrail_list_del(&channel->node);
    if (!mrail_list_empty(&channel->sends)) {
        mrail_list_add_tail(&relay->sending, &channel->node);
    }
    slot->activity = MRAIL_RELAY_IDLE;
    --relay->num_sending;
    relay->stats.sent += slot->length;
    mrail_relay_state_free(
        mrail_relay_slot_state(relay, slot->owner, slot->slot));
}

/* Messages of a channel are matched in order, so the function tests only the
 * oldest send. */
int mrail_relay_step_sent(mrail_relay_t *relay)
{
    mrail_relay_out_t *channel;
    mrail_relay_slot_t *slot;
    int ret;

    mrail_list_for_each(channel, &relay->sending, mrail_relay_out_t, node) {
        slot = mrail_list_head(&channel->sends, mrail_relay_slot_t, node);
        ret = mrail_relay_test(relay, slot);
        if (ret > 0) {
            end_send(relay, channel, slot);
        }
        if (ret != 0) {
            return ret;
        }
    }
    return 0;
}
