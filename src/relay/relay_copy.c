/* Copies between slots and the user's memory that complete after their call. */
#include "config.h"
#include "relay/relay_internal.h"

void mrail_relay_copy_later(mrail_relay_t *relay, mrail_relay_slot_t *slot,
                            mrail_relay_activity_t activity, void *copy,
                            uint32_t length)
{
    slot->activity = (uint16_t)activity;
    slot->copy = copy;
    slot->length = length;
    mrail_list_add_tail(&relay->copying, &slot->node);
    ++relay->num_copying;
}

static void end_drain(mrail_relay_t *relay, const mrail_relay_slot_t *slot,
                      uint32_t length)
{
    relay->stats.drained += length;
    mrail_relay_state_free(
        mrail_relay_slot_state(relay, slot->owner, slot->slot));
}

int mrail_relay_drain(mrail_relay_t *relay, const mrail_relay_header_t *header,
                      uint32_t holder, mrail_relay_slot_t *slot)
{
    void *copy = NULL;
    int ret = relay->ops.drain(relay->arg, header->from, header->offset,
                               mrail_relay_payload_of(relay, slot, holder),
                               header->length, &copy);

    if (ret != 0) {
        return ret;
    }
    if (copy == NULL) {
        end_drain(relay, slot, header->length);
    } else {
        mrail_relay_copy_later(relay, slot, MRAIL_RELAY_DRAINING, copy,
                               header->length);
    }
    return 0;
}

/* Tests a copy, unless an older chunk of the flow must leave first. Such a
 * chunk would be in the same area, so the function always tests the oldest copy
 * of each area. */
static int test(mrail_relay_t *relay, mrail_relay_slot_t *slot)
{
    if ((slot->activity == MRAIL_RELAY_FILLING) &&
        (slot->num != slot->hop->num_passed)) {
        return 0;
    }
    return (slot->copy == NULL)
               ? 1
               : relay->memory->ops->copy_test(relay->memory, slot->copy);
}

static int end_copy(mrail_relay_t *relay, mrail_relay_slot_t *slot)
{
    int is_fill = (slot->activity == MRAIL_RELAY_FILLING);

    mrail_list_del(&slot->node);
    slot->activity = MRAIL_RELAY_IDLE;
    --relay->num_copying;
    if (is_fill) {
        return mrail_relay_pass_on(relay, slot->hop, slot, slot->length);
    }
    end_drain(relay, slot, slot->length);
    return 0;
}

int mrail_relay_step_copied(mrail_relay_t *relay)
{
    mrail_relay_slot_t *slot;
    int ret;

    mrail_list_for_each(slot, &relay->copying, mrail_relay_slot_t, node) {
        ret = test(relay, slot);
        if (ret < 0) {
            return ret;
        }
        if (ret > 0) {
            ret = end_copy(relay, slot);
            return (ret == 0) ? 1 : ret;
        }
    }
    return 0;
}
