#include "config.h"
#include "relay/slot.h"

#include "relay/ring.h"

#include <errno.h>

_Static_assert(sizeof(mrail_relay_state_t) == MRAIL_RELAY_LINE,
               "a state is a cache line");

static uint64_t round_up(uint64_t size, uint64_t to)
{
    return (size + to - 1) / to * to;
}

static int shape_is_valid(const mrail_relay_shape_t *shape)
{
    return (shape->num_local >= 1) &&
           (shape->num_local <= MRAIL_RELAY_MAX_LOCAL) &&
           (shape->out_slots >= 1) &&
           (shape->out_slots <= MRAIL_RELAY_MAX_SLOTS) &&
           (shape->in_slots >= 1) &&
           (shape->in_slots <= MRAIL_RELAY_MAX_SLOTS) && (shape->chunk > 0) &&
           (shape->chunk <= MRAIL_RELAY_MAX_CHUNK) &&
           (shape->chunk % MRAIL_RELAY_PAGE == 0);
}

/* Computes the layout. The numbers fit in 64 bits: 2^8 ranks with 2^11 slots of
 * less than 2^27 bytes. */
int mrail_relay_layout(const mrail_relay_shape_t *shape,
                       mrail_relay_layout_t *layout_p)
{
    uint64_t states, rings, pages, stride, size, all, area;
    uint32_t slots, ring_size = MRAIL_RELAY_LINE / sizeof(mrail_relay_entry_t);

    if (!shape_is_valid(shape)) {
        return -EINVAL;
    }
    slots = shape->out_slots + shape->in_slots;
    while (ring_size < slots) {
        ring_size *= 2;
    }
    all = (uint64_t)shape->num_local * slots;
    states = MRAIL_RELAY_PAGE;
    rings = states + all * sizeof(mrail_relay_state_t);
    pages = round_up(rings + (uint64_t)shape->num_local * shape->num_local *
                                 ring_size * sizeof(mrail_relay_entry_t),
                     MRAIL_RELAY_PAGE);
    stride = shape->is_external ? MRAIL_RELAY_HEADER
                                : MRAIL_RELAY_PAGE + shape->chunk;
    size = round_up(pages + all * stride, MRAIL_RELAY_PAGE);
    area = shape->is_external ? ((uint64_t)shape->num_local * shape->out_slots +
                                 shape->in_slots) *
                                    shape->chunk
                              : 0;
    if ((size > PTRDIFF_MAX) || (area > PTRDIFF_MAX)) {
        return -EINVAL;
    }
    *layout_p = (mrail_relay_layout_t){
        .slots = slots,
        .ring_size = ring_size,
        .states = (size_t)states,
        .rings = (size_t)rings,
        /* The header ends at the beginning of the payload's page. */
        .headers =
            (size_t)(pages + (shape->is_external
                                  ? 0
                                  : MRAIL_RELAY_PAGE - MRAIL_RELAY_HEADER)),
        .header_stride = (size_t)stride,
        .size = (size_t)size,
        .area_size = (size_t)area,
        .payload_stride = shape->is_external ? shape->chunk : (size_t)stride,
        .owner_stride =
            shape->is_external ? shape->out_slots * shape->chunk : 0,
        .out_slots = shape->out_slots,
        .last_owner = shape->num_local - 1,
    };
    return 0;
}
