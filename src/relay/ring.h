/*
 * Rings of what one rank hands over to another of its node: one producer, one
 * consumer, an entry a slot of the producer.
 *
 * An entry carries its place in the sequence, so that a look at the next one says
 * whether it is there; nobody reads the other's position, and each keeps its own in
 * its private memory.  The producer does not look for room: what it has handed over
 * and was not yet taken out are slots that are used, and a ring has as many entries
 * as a rank has slots.  That a slot came free (acquire) orders its entry's reuse.
 */
#ifndef MRAIL_RELAY_RING_H
#define MRAIL_RELAY_RING_H

#include "relay/slot.h"

/* The place in the sequence, from 1, in the upper half; the slot in the lower. */
typedef _Atomic uint64_t mrail_relay_entry_t;

static inline mrail_relay_entry_t *
mrail_relay_ring(const mrail_relay_layout_t *layout, void *base,
                 uint32_t num_local, uint32_t producer, uint32_t consumer)
{
    mrail_relay_entry_t *rings =
        (mrail_relay_entry_t *)((char *)base + layout->rings);

    return &rings[((size_t)producer * num_local + consumer) *
                  layout->ring_size];
}

/* The num-th entry from the beginning, from 0. */
static inline void mrail_relay_push(mrail_relay_entry_t *ring, uint32_t size,
                                    uint32_t num, uint32_t slot)
{
    atomic_store_explicit(&ring[num & (size - 1)],
                          (uint64_t)(num + 1) << 32 | slot,
                          memory_order_release);
}

/* 1: *slot_p is what the producer wrote, whatever that is; 0: not there yet. */
static inline int mrail_relay_pop(mrail_relay_entry_t *ring, uint32_t size,
                                  uint32_t num, uint32_t *slot_p)
{
    uint64_t entry =
        atomic_load_explicit(&ring[num & (size - 1)], memory_order_acquire);

    if ((uint32_t)(entry >> 32) != num + 1) {
        return 0;
    }
    *slot_p = (uint32_t)entry;
    return 1;
}

#endif
