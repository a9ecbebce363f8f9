/*
 * The layout of the shared-memory pool, and the access rules for its slots.
 *
 *   head | states: ranks x slots | rings: ranks x ranks | slots: ranks x slots
 *
 * The slots of each rank are numbered: first its out-slots, then its in-slots.
 * A slot is free or used. Only its owner may mark it used, and only while it is
 * free. The consumer marks it free, once, and does not access it again. Zeroed
 * memory is a valid pool with free slots and empty rings.
 *
 * In the pool, the header of a slot is directly before its payload, so that one
 * message carries both. The payload starts on a page boundary.
 *
 * Payloads in other memory are in areas, one for each rank. Each rank's area
 * holds the out-slots of all ranks, because a payload is in the memory of the
 * rank that passes it on. The pool then contains only the headers.
 *
 *   area: out-slots: ranks x out-slots | in-slots
 */
#ifndef MRAIL_RELAY_SLOT_H
#define MRAIL_RELAY_SLOT_H

#include "relay/shm_pool.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define MRAIL_RELAY_PAGE 4096u
#define MRAIL_RELAY_LINE 64u /* bytes per cache line */

/* State of a slot, on a separate cache line, because the owner polls it while
 * another rank reads the slot. */
typedef struct mrail_relay_state {
    _Atomic uint32_t is_used;
    char line[MRAIL_RELAY_LINE - sizeof(uint32_t)];
} mrail_relay_state_t;

/* Offsets in the pool. */
typedef struct mrail_relay_layout {
    uint32_t slots;     /* number of slots per rank */
    uint32_t ring_size; /* number of entries, a power of two, >= slots */
    size_t states;
    size_t rings;
    size_t headers;       /* offset of the first slot's header */
    size_t header_stride; /* distance between headers */
    size_t size;          /* size of the whole pool */
    /* ---- areas ---- */
    size_t area_size; /* bytes outside the pool; 0 if areas are in the pool */
    size_t payload_stride;
    size_t owner_stride; /* distance between owners; 0 if only one owner */
    uint32_t out_slots;  /* number of out-slots per owner */
    uint32_t last_owner; /* owner whose out-slots the in-slots follow */
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

static inline void *mrail_relay_slot_header(const mrail_relay_layout_t *layout,
                                            void *base, uint32_t owner,
                                            uint32_t slot)
{
    return (char *)base + layout->headers +
           ((size_t)owner * layout->slots + slot) * layout->header_stride;
}

/* Returns the area of a rank in the pool. */
static inline void *mrail_relay_pool_area(const mrail_relay_layout_t *layout,
                                          void *base, uint32_t rank)
{
    return (char *)mrail_relay_slot_header(layout, base, rank, 0) +
           MRAIL_RELAY_HEADER;
}

/* Returns the payload of a slot in `area`. */
static inline void *mrail_relay_payload(const mrail_relay_layout_t *layout,
                                        void *area, uint32_t owner,
                                        uint32_t slot)
{
    size_t first = (slot < layout->out_slots) ? owner : layout->last_owner;

    return (char *)area + first * layout->owner_stride +
           slot * layout->payload_stride;
}

/* Returns 1 if the consumer has finished with the slot. Only the owner calls
 * it. */
static inline int mrail_relay_state_is_free(mrail_relay_state_t *state)
{
    return atomic_load_explicit(&state->is_used, memory_order_acquire) == 0;
}

/* Marks a free slot as used. Only the owner calls it. The store is relaxed,
 * because the ring entry publishes the slot. */
static inline void mrail_relay_state_use(mrail_relay_state_t *state)
{
    atomic_store_explicit(&state->is_used, 1, memory_order_relaxed);
}

/* Marks a slot as free. The consumer calls it after its last access. */
static inline void mrail_relay_state_free(mrail_relay_state_t *state)
{
    atomic_store_explicit(&state->is_used, 0, memory_order_release);
}

#endif
