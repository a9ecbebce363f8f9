/*
 * Internal structures of a relay, for src/relay and its tests.
 *
 * A rank's work in an exchange has five kinds of steps (mrail_relay_steps). A
 * step never waits: it does one thing, or reports that there is nothing to do.
 * All memory is allocated by mrail_relay_begin().
 *
 *     fill      copies a chunk of this rank's bytes into a free egress slot, and sends it or
 *               hands it over to the rank that sends or receives it
 *     pop       takes a chunk that another rank handed over: sends or drains it
 *     sent      a send completed: the slot is free
 *     post      posts a receive into a free ingress slot
 *     received  a receive completed: hands the chunk over, or drains it
 *
 * Invariants:
 * - Chunks of a flow take one path and stay in order. So each rank on the path knows the next
 *   chunk, and accepts no other.
 * - Receives in flight, plus channels with chunks to post but no receive in flight, are at most
 *   in_slots: no receive takes the only slot of a channel. The missing slot is with a receiver of
 *   this node and returns without waiting for any channel.
 * - Only entries of this exchange are taken from a ring. Entries that a faster rank handed over
 *   for the next exchange stay there.
 */
#ifndef MRAIL_RELAY_INTERNAL_H
#define MRAIL_RELAY_INTERNAL_H

#include "base/list.h"
#include "relay/ring.h"
#include "relay/relay.h"

#define MRAIL_RELAY_MAGIC 0x6d52456cu

/* In front of a payload.  Nodes are of one byte order: the magic number tells. */
typedef struct mrail_relay_header {
    uint32_t magic;
    uint32_t length;   /* of the payload */
    uint64_t hash;     /* as in mrail_relay_begin() */
    uint64_t exchange; /* how many have been begun before */
    uint64_t offset;   /* of the demand */
    uint32_t from, to;
    uint32_t relay_out, relay_in;
    char zero[16];
} mrail_relay_header_t;

_Static_assert(sizeof(mrail_relay_header_t) == MRAIL_RELAY_HEADER,
               "the header is as long as relay.h says");

/* A flow in which this rank has a part. */
typedef struct mrail_relay_dt_segment {
    mrail_list_t node; /* on relay->senders while it has chunks to fill */
    mrail_relay_flow_t flow;
    uint64_t num_filled; /* chunks */
    uint64_t num_seen;   /* likewise, in any other role */
    uint32_t prev, next; /* ranks before and behind this one; or NONE */
    uint32_t out;        /* number among outs; NONE: `next` is of this node */
} mrail_relay_dt_segment_t;

/* A rank to which this one sends over the network in this exchange. */
typedef struct mrail_relay_out {
    mrail_list_t node;  /* on relay->sending while sends are under way */
    mrail_list_t sends; /* the oldest first */
    uint32_t rank;
} mrail_relay_out_t;

/* A rank from which this one receives over the network in this exchange. */
typedef struct mrail_relay_in {
    mrail_list_t node;     /* on relay->receiving while chunks are to come */
    mrail_list_t receives; /* the oldest first */
    uint64_t num_left; /* chunks to come, those to be posted and the posted */
    uint64_t num_to_post;
    uint32_t num_posted;
    uint32_t rank;
} mrail_relay_in_t;

/* State between another rank of the node and this one. */
typedef struct mrail_relay_local {
    mrail_list_t node;   /* on relay->popping while chunks are to come */
    uint64_t num_left;   /* to be taken out in this exchange */
    uint32_t num_pushed; /* since creation, modulo 2^32 */
    uint32_t num_popped; /* likewise */
    uint32_t rank;
} mrail_relay_local_t;

/* A send of some rank's slot, or a receive into an own one. */
typedef struct mrail_relay_request {
    mrail_list_t node;
    void *request;
    uint32_t owner, slot; /* fixed */
    uint32_t length;      /* of a send's payload */
    int is_busy;
} mrail_relay_request_t;

struct mrail_relay {
    mrail_relay_ops_t ops;
    void *arg;
    mrail_relay_shape_t shape;
    mrail_relay_layout_t layout;
    void *base;
    uint32_t num_ranks;
    uint32_t self; /* of the communicator */
    uint32_t me;   /* of the node */
    mrail_relay_local_t *locals;
    mrail_relay_request_t *sends;    /* [local][out-slot] */
    mrail_relay_request_t *receives; /* [in-slot] */
    uint32_t *local_of;              /* of each rank; or NONE */
    uint32_t *out_of;                /* likewise, while begin looks */
    uint32_t *in_of;                 /* likewise */

    /* Of this exchange. */
    int error; /* for good */
    uint64_t hash;
    uint64_t exchange;               /* how many have been begun */
    mrail_relay_dt_segment_t *parts; /* by from, to, offset */
    size_t num_parts, max_parts;
    mrail_relay_out_t *outs;
    uint32_t num_outs;
    size_t max_outs;
    mrail_relay_in_t *ins; /* in_slots of them */
    uint32_t num_ins;
    mrail_list_t senders, sending, receiving, popping;
    uint64_t num_to_fill; /* chunks */
    uint64_t num_to_pop;
    uint64_t num_to_receive;
    uint64_t num_sending;
    uint64_t num_to_post; /* of all channels */
    uint32_t num_posted;  /* likewise */
    int is_short_out,
        is_short_in; /* of slots: counted once until one is free */
    mrail_relay_stats_t stats;
};

/* A step of one kind: 1; 0: there is nothing to do; -errno. */
typedef int (*mrail_relay_step_func_t)(mrail_relay_t *relay);

int mrail_relay_step_fill(mrail_relay_t *relay);
int mrail_relay_step_pop(mrail_relay_t *relay);
int mrail_relay_step_sent(mrail_relay_t *relay);
int mrail_relay_step_post(mrail_relay_t *relay);
int mrail_relay_step_received(mrail_relay_t *relay);

#define MRAIL_RELAY_NUM_STEPS 5u
extern const mrail_relay_step_func_t mrail_relay_steps[MRAIL_RELAY_NUM_STEPS];

/* Step `kind`, whose error ends the exchange. */
int mrail_relay_step(mrail_relay_t *relay, unsigned kind);

/* Posts the send of slot `slot` of local rank `owner` to outs[out]. */
int mrail_relay_send(mrail_relay_t *relay, uint32_t out, uint32_t owner,
                     uint32_t slot, uint32_t length);

/* To local rank `consumer`. */
void mrail_relay_hand_over(mrail_relay_t *relay, uint32_t consumer,
                           uint32_t slot);

/* To the user, whose chunk lies in slot `slot` of local rank `owner`; then the slot
 * is free. */
int mrail_relay_drain(mrail_relay_t *relay, const mrail_relay_header_t *header,
                      uint32_t owner, uint32_t slot);

/* Copies the header of a chunk that came from rank `prev`, and looks whether it is
 * the next one that may: 0, and it is counted; or -EPROTO.  The copy is what counts:
 * who wrote the slot may write again. */
int mrail_relay_accept(mrail_relay_t *relay, const void *payload, uint32_t prev,
                       mrail_relay_header_t *header_p,
                       mrail_relay_dt_segment_t **part_p);

/* Chunks of a flow, and bytes of its num-th one. */
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

static inline char *mrail_relay_slot_payload(const mrail_relay_t *relay,
                                             uint32_t owner, uint32_t slot)
{
    return mrail_relay_payload(&relay->layout, relay->base, owner, slot);
}

static inline mrail_relay_request_t *
mrail_relay_send_of(const mrail_relay_t *relay, uint32_t owner, uint32_t slot)
{
    return &relay->sends[(size_t)owner * relay->shape.out_slots + slot];
}

#endif
