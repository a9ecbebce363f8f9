/*
 * The layout of the shared-memory pool, and the access rules for its slots.
 *
 *   head | states: ranks x slots | rings: ranks x ranks | slots: ranks x slots
 *
 * The slots of each rank are numbered: first its out-slots, then its in-slots.
 * A slot is free or used. Only its owner may mark it used, and only while it is
 * free. The consumer marks it free, once, and does not touch it again. Zeroed
 * memory is a valid pool with free slots and empty rings.
 *
 * A slot's header lies directly before its payload, so that one message carries
 * both. The payload starts on a page boundary.
 */
#ifndef MRAIL_RELAY_SLOT_H
#define MRAIL_RELAY_SLOT_H

#include "relay/shm_pool.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define MRAIL_RELAY_PAGE 4096u
#define MRAIL_RELAY_LINE 64u /* bytes of a cache line */

/* State of a slot, on a separate cache line: the owner polls it while another
 * rank reads the slot. */
typedef struct mrail_relay_state {
    _Atomic uint32_t is_used;
    char line[MRAIL_RELAY_LINE - sizeof(uint32_t)];
} mrail_relay_state_t;

/* Offsets in the pool. */
typedef struct mrail_relay_layout {
    uint32_t slots;     /* per rank */
    uint32_t ring_size; /* entries, a power of two, >= slots */
    size_t states;
    size_t rings;
    /* position of the slots; each has one page before its payload, for the
     * header */
    size_t pages;
    size_t stride; /* distance between slots */
    size_t size;   /* size of the whole pool */
} mrail_relay_layout_t;

/* Returns 0, or -EINVAL if the shape is out of range or too large for a
 * size_t. */
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

/* Returns 1 if the consumer has finished with the slot. Called by the owner. */
static inline int mrail_relay_state_is_free(mrail_relay_state_t *state)
{
    return atomic_load_explicit(&state->is_used, memory_order_acquire) == 0;
}

/* Marks a free slot as used; called by its owner. The store is relaxed, because
 * the ring entry publishes the slot. */
static inline void mrail_relay_state_use(mrail_relay_state_t *state)
{
    atomic_store_explicit(&state->is_used, 1, memory_order_relaxed);
}

/* Marks a slot as free; called by the consumer after its last access. */
static inline void mrail_relay_state_free(mrail_relay_state_t *state)
{
    atomic_store_explicit(&state->is_used, 0, memory_order_release);
}

#endif
