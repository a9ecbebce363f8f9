/*
 * Layout of a shared-memory pool, and the access rules of a slot.
 *
 *     head | states: ranks x slots | rings: ranks x ranks | slots: ranks x slots
 *
 * A rank's slots are numbered: egress slots first, then ingress slots. A slot
 * is free or used. Only its owner marks it used, and only while it is free. The
 * consumer of its content marks it free, once, and does not access it again.
 * Zeroed memory is a pool with free slots and empty rings.
 *
 * A slot's header lies directly before its payload, so that both are sent as
 * one. The payload begins on a page.
 */
#ifndef MRAIL_RELAY_SLOT_H
#define MRAIL_RELAY_SLOT_H

#include "relay/shm_pool.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define MRAIL_RELAY_PAGE 4096u
#define MRAIL_RELAY_LINE 64u /* of a cache */

/* The state of a slot; alone on its line, for its owner looks at it again and
 * again while another rank reads the slot. */
typedef struct mrail_relay_state {
    _Atomic uint32_t is_used;
    char line[MRAIL_RELAY_LINE - sizeof(uint32_t)];
} mrail_relay_state_t;

/* Offsets in an arena. */
typedef struct mrail_relay_layout {
    uint32_t slots;     /* of a rank */
    uint32_t ring_size; /* entries, a power of two, >= slots */
    size_t states;
    size_t rings;
    size_t pages;  /* in front of each payload one page, for the header */
    size_t stride; /* from slot to slot */
    size_t size;   /* of all */
} mrail_relay_layout_t;

/* 0; -EINVAL: the shape is out of range, or too large for a size_t. */
int mrail_relay_layout(const mrail_relay_shape_t *shape,
                       mrail_relay_layout_t *layout_p);

static inline mrail_relay_state_t *
mrail_relay_state(const mrail_relay_layout_t *layout, void *base,
                  uint32_t owner, uint32_t slot)
{
    mrail_relay_state_t *states =
        (mrail_relay_state_t *)((char *)base + layout->states);

    return &states[(size_t)owner * layout->slots + slot];
}

static inline void *mrail_relay_payload(const mrail_relay_layout_t *layout,
                                        void *base, uint32_t owner,
                                        uint32_t slot)
{
    return (char *)base + layout->pages + MRAIL_RELAY_PAGE +
           ((size_t)owner * layout->slots + slot) * layout->stride;
}

/* By the owner: whether all is over that others did with the slot. */
static inline int mrail_relay_state_is_free(mrail_relay_state_t *state)
{
    return atomic_load_explicit(&state->is_used, memory_order_acquire) == 0;
}

/* By the owner, of a free slot.  Relaxed: the ring's entry tells the others. */
static inline void mrail_relay_state_use(mrail_relay_state_t *state)
{
    atomic_store_explicit(&state->is_used, 1, memory_order_relaxed);
}

/* By the consumer, after its last look into the slot. */
static inline void mrail_relay_state_free(mrail_relay_state_t *state)
{
    atomic_store_explicit(&state->is_used, 0, memory_order_release);
}

#endif
