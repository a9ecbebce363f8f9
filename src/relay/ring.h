/*
 * Rings that pass slots from one rank to another on the same node. Each ring
 * has one producer and one consumer. An entry names a slot of the producer.
 *
 * An entry contains its sequence number, so the consumer can determine from the
 * entry alone whether it is valid. Each side keeps its position private. The
 * producer need not check for space: each entry that has not been popped is a
 * used slot, and a ring has at least as many entries as a rank has slots. An
 * entry is written again only after its slot is free again, and the acquire of
 * the free state orders these writes.
 */
#ifndef MRAIL_RELAY_RING_H
#define MRAIL_RELAY_RING_H

#include "relay/slot.h"

/* The upper half is the sequence number, from 1, and the lower half the slot
 * number. */
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

/* Writes entry `num`, counted from 0. */
static inline void mrail_relay_push(mrail_relay_entry_t *ring, uint32_t size,
                                    uint32_t num, uint32_t slot)
{
    atomic_store_explicit(&ring[num & (size - 1)],
                          (uint64_t)(num + 1) << 32 | slot,
                          memory_order_release);
}

/* Reads entry `num`. If it is valid, stores the producer's slot number in
 * *slot_p, unchecked, and returns 1. Otherwise returns 0. */
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
