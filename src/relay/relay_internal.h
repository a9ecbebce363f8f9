/*
 * Internals of a relay, for src/relay and its tests.
 *
 * A rank's work in an exchange consists of six kinds of step
 * (mrail_relay_steps). A step never waits: it performs one action, or reports
 * that none is possible. When mrail_relay_begin() returns, all memory is
 * allocated.
 *
 *   fill      copies a chunk of this rank's own bytes to a free out-slot, then
 *             sends the slot or pushes it to the rank that sends or drains it
 *   copied    completes a copy that fill or drain has started
 *   pop       removes a slot from a ring, and sends or drains it
 *   sent      completes a send and frees its slot
 *   post      posts a receive into a free in-slot
 *   received  completes a receive, and pushes or drains its slot
 *
 * Invariant 1: the chunks of a flow take one path, in order. Every rank on the
 * path knows which chunk is next and accepts no other.
 *
 * Invariant 2: each channel with chunks to post but no posted receive keeps one
 * in-slot. The number of such channels plus the posted receives is at most
 * in_slots. If the slot is not free, a receiver on this node holds it and frees
 * it without waiting for any channel.
 *
 * Invariant 3: each channel has a budget, of at least one, for the out-slots
 * that it holds. A channel that is slow, at a relay or on the network,
 * therefore leaves slots for other channels.
 *
 * Invariant 4: from a ring, a rank pops only the slots of this exchange. Slots
 * of the next exchange, pushed by a faster rank, stay in the ring.
 *
 * Invariant 5: the chunks of a flow leave the sender in order, even if their
 * copies complete in a different order.
 */
#ifndef MRAIL_RELAY_INTERNAL_H
#define MRAIL_RELAY_INTERNAL_H

#include "base/list.h"
#include "relay/ring.h"
#include "relay/relay.h"

#define MRAIL_RELAY_MAGIC 0x6d52456cu

/* Header of each payload. All nodes use the same byte order, which the
 * magic number verifies. */
typedef struct mrail_relay_header {
    uint32_t magic;
    uint32_t length;   /* length of the payload */
    uint64_t hash;     /* hash that mrail_relay_begin() received */
    uint64_t exchange; /* number of this exchange, from 1 */
    uint64_t offset;   /* offset in the demand */
    uint32_t from, to;
    uint32_t relay_out, relay_in;
    char zero[16];
} mrail_relay_header_t;

_Static_assert(sizeof(mrail_relay_header_t) == MRAIL_RELAY_HEADER,
               "the header is as long as relay.h says");

/* This rank's position on the path of a flow. */
typedef struct mrail_relay_hop {
    mrail_list_t node; /* on relay->senders while there are chunks to fill */
    mrail_relay_flow_t flow;
    uint64_t num_filled; /* number of chunks whose copies have started */
    uint64_t num_passed; /* number of chunks filled and passed on */
    uint64_t num_seen;   /* number of chunks received or popped */
    /* ranks before and after this one; NONE if none */
    uint32_t prev, next;
    uint32_t out; /* index in outs; NONE if `next` is on this node */
    /* valid if this rank is the sender: ends of the flow's network hop or of
     * its path within the node, and index of that pair in budgets */
    uint32_t egress, ingress;
    uint32_t budget;
    /* rank within the node whose area holds the payloads that this rank fills
     * or pops */
    uint32_t holder;
} mrail_relay_hop_t;

/* The slot budget of the flows that leave this rank over the same channel. */
typedef struct mrail_relay_budget {
    uint64_t num_left; /* chunks to fill */
    uint64_t num_held; /* out-slots in use; valid only within a fill step */
} mrail_relay_budget_t;

/* A rank to which this one sends over the network in this exchange. */
typedef struct mrail_relay_out {
    mrail_list_t node;  /* on relay->sending while sends are in flight */
    mrail_list_t sends; /* oldest first */
    uint32_t rank;
} mrail_relay_out_t;

/* A rank from which this one receives over the network in this exchange. */
typedef struct mrail_relay_in {
    /* on relay->receiving while there are chunks to receive */
    mrail_list_t node;
    mrail_list_t receives; /* oldest first */
    uint64_t num_left;     /* chunks to receive, posted or not */
    uint64_t num_to_post;
    uint32_t num_posted;
    uint32_t rank;
} mrail_relay_in_t;

/* State between another rank of the node and this one. */
typedef struct mrail_relay_local {
    mrail_list_t node;   /* on relay->popping while there are slots to pop */
    uint64_t num_left;   /* slots to pop in this exchange */
    uint32_t num_pushed; /* slots pushed since creation, modulo 2^32 */
    uint32_t num_popped; /* slots popped since creation, modulo 2^32 */
    uint32_t rank;
} mrail_relay_local_t;

/* The current use of a slot by this rank. A rank may send from, and drain, the
 * slots of all ranks on the node. */
typedef enum mrail_relay_activity {
    MRAIL_RELAY_IDLE,
    MRAIL_RELAY_FILLING,
    MRAIL_RELAY_SENDING,
    MRAIL_RELAY_RECEIVING,
    MRAIL_RELAY_DRAINING,
} mrail_relay_activity_t;

#define MRAIL_RELAY_MAX_MESSAGES 2u

typedef struct mrail_relay_slot {
    mrail_list_t node; /* on a channel's list or relay->copying */
    void *requests[MRAIL_RELAY_MAX_MESSAGES]; /* network requests */
    uint32_t received[MRAIL_RELAY_MAX_MESSAGES];
    void *copy;             /* FILLING: NULL if complete */
    mrail_relay_hop_t *hop; /* FILLING */
    uint64_t num;           /* FILLING: number of the chunk in its flow */
    uint32_t owner, slot;   /* constant */
    uint32_t length;        /* payload bytes, except while RECEIVING */
    uint16_t num_tested;    /* complete requests */
    uint16_t activity;
} mrail_relay_slot_t;

struct mrail_relay {
    mrail_relay_ops_t ops;
    void *arg;
    mrail_relay_memory_t *memory;
    mrail_relay_shape_t shape;
    mrail_relay_layout_t layout;
    void *base;
    uint32_t num_ranks;
    uint32_t self; /* rank in the communicator */
    uint32_t me;   /* rank within the node */
    mrail_relay_local_t *locals;
    mrail_relay_slot_t *slots; /* [local][slot] */
    unsigned num_messages;     /* number of messages per chunk */
    /* by rank: rank within the node; NONE if on another node */
    uint32_t *local_of;
    uint32_t *out_of; /* by rank; used during begin */
    uint32_t *in_of;  /* by rank; used during begin */

    /* ---- Current exchange ---- */
    int error; /* once set, it does not change */
    uint64_t hash;
    uint64_t exchange;       /* number of exchanges begun */
    mrail_relay_hop_t *hops; /* ordered by from, to, offset */
    size_t num_hops, max_hops;
    mrail_relay_hop_t **own_hops; /* used during begin */
    mrail_relay_budget_t *budgets;
    uint32_t num_budgets;
    size_t max_budgets;
    uint32_t num_unfilled;    /* number of budgets with chunks to fill */
    uint64_t *budget_of_slot; /* [out-slot]; NONE if of an earlier exchange */
    mrail_relay_out_t *outs;
    uint32_t num_outs;
    size_t max_outs;
    mrail_relay_in_t *ins; /* in_slots entries */
    uint32_t num_ins;
    mrail_list_t senders, sending, receiving, popping;
    mrail_list_t copying; /* oldest first */
    uint64_t num_to_fill; /* number of chunks */
    uint64_t num_to_pop;
    uint64_t num_to_receive;
    uint64_t num_sending;
    uint64_t num_copying;
    uint64_t num_to_post; /* chunks of all channels */
    uint32_t num_posted;  /* receives of all channels */
    int is_short_out,
        is_short_in; /* 1 if a shortage of slots has been counted; reset when a
                      * slot is free */
    mrail_relay_stats_t stats;
};

/* A kind of step. Returns 1 if it performed an action, 0 if none was possible,
 * or -errno. */
typedef int (*mrail_relay_step_func_t)(mrail_relay_t *relay);

int mrail_relay_step_fill(mrail_relay_t *relay);
int mrail_relay_step_copied(mrail_relay_t *relay);
int mrail_relay_step_pop(mrail_relay_t *relay);
int mrail_relay_step_sent(mrail_relay_t *relay);
int mrail_relay_step_post(mrail_relay_t *relay);
int mrail_relay_step_received(mrail_relay_t *relay);

#define MRAIL_RELAY_NUM_STEPS 6u
extern const mrail_relay_step_func_t mrail_relay_steps[MRAIL_RELAY_NUM_STEPS];

/* Runs a step of kind `kind`. An error of the step makes the exchange fail. */
int mrail_relay_step(mrail_relay_t *relay, unsigned kind);

/* Sends a payload of `length` bytes in a slot to the next rank of a flow. */
int mrail_relay_send(mrail_relay_t *relay, const mrail_relay_hop_t *hop,
                     mrail_relay_slot_t *slot, uint32_t length);

/* Pushes one of this rank's slots to local rank `consumer`. */
void mrail_relay_push_slot(mrail_relay_t *relay, uint32_t consumer,
                           uint32_t slot);

/* Passes on a chunk that has been filled. */
int mrail_relay_pass_on(mrail_relay_t *relay, mrail_relay_hop_t *hop,
                        mrail_relay_slot_t *slot, uint32_t length);

/* Copies the chunk in a slot to the user's memory, and frees the slot. The
 * payload is in the area of local rank `holder`. */
int mrail_relay_drain(mrail_relay_t *relay, const mrail_relay_header_t *header,
                      uint32_t holder, mrail_relay_slot_t *slot);

/* Adds a copy that completes later to the list. */
void mrail_relay_copy_later(mrail_relay_t *relay, mrail_relay_slot_t *slot,
                            mrail_relay_activity_t activity, void *copy,
                            uint32_t length);

/* Copies the header of a chunk that came from rank `prev`, and checks that the
 * chunk is the next one of its flow. Returns 0 and counts the chunk, or
 * -EPROTO. Callers must use only the copy, because the writer of the slot could
 * change the original. */
int mrail_relay_accept(mrail_relay_t *relay, const void *header, uint32_t prev,
                       mrail_relay_header_t *header_p,
                       mrail_relay_hop_t **hop_p);

/* Return the number of chunks in a flow, and the length in bytes of chunk
 * `num`. */
static inline uint64_t mrail_relay_chunks(const mrail_relay_t *relay,
                                          const mrail_relay_flow_t *flow)
{
    return (flow->bytes - 1) / relay->shape.chunk + 1;
}

static inline uint32_t mrail_relay_length(const mrail_relay_t *relay,
                                          const mrail_relay_flow_t *flow,
                                          uint64_t num)
{
    uint64_t left = flow->bytes - num * relay->shape.chunk;

    return (uint32_t)MRAIL_MIN(left, relay->shape.chunk);
}

static inline mrail_relay_state_t *
mrail_relay_slot_state(const mrail_relay_t *relay, uint32_t owner,
                       uint32_t slot)
{
    return mrail_relay_state(&relay->layout, relay->base, owner, slot);
}

static inline void *mrail_relay_header_of(const mrail_relay_t *relay,
                                          const mrail_relay_slot_t *slot)
{
    return mrail_relay_slot_header(&relay->layout, relay->base, slot->owner,
                                   slot->slot);
}

/* Returns the payload of a slot in the area of local rank `holder`. */
static inline void *mrail_relay_payload_of(const mrail_relay_t *relay,
                                           const mrail_relay_slot_t *slot,
                                           uint32_t holder)
{
    return mrail_relay_payload(&relay->layout, relay->memory->areas[holder],
                               slot->owner, slot->slot);
}

static inline mrail_relay_slot_t *
mrail_relay_slot(const mrail_relay_t *relay, uint32_t owner, uint32_t slot)
{
    return &relay->slots[(size_t)owner * relay->layout.slots + slot];
}

/* Tests the network requests of a slot. Returns 1 if all are complete. Requests
 * complete in order, so the function tests only the first incomplete one. */
static inline int mrail_relay_test(mrail_relay_t *relay,
                                   mrail_relay_slot_t *slot)
{
    size_t length = 0;
    int ret;

    do {
        ret = relay->ops.test(relay->arg, slot->requests[slot->num_tested],
                              &length);
        if (ret <= 0) {
            return ret;
        }
        slot->received[slot->num_tested++] = (uint32_t)length;
    } while (slot->num_tested < relay->num_messages);
    return 1;
}

#endif
