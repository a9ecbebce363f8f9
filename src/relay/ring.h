/*
 * Rings for handing buffers from one rank to another of its node: one producer,
 * one consumer, one entry for each slot of the producer.
 *
 * An entry carries its sequence number, so a look at the next entry shows
 * whether it is there. Neither side reads the other's position; each keeps its
 * own in private memory. The producer does not check for room: entries that
 * were not taken out belong to used slots, and a ring has as many entries as a
 * rank has slots. The acquire of a free slot orders the reuse of its entry.
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
