/*
 * A rank's part in an exchange with relayed bytes, chunk by chunk.
 *
 *     sender -> relay_out  =network=>  relay_in -> receiver
 *
 * Either relay may be absent; within a node it is sender -> receiver. Hops
 * within a node use the shared-memory pool. The caller performs the network hop
 * (ops below), over one ordered channel for each pair of ranks. Sources:
 * [NIMBLE] IV-C, IV-D.
 *
 * Buffers and credits, hop by hop. The sender copies its bytes once into one of
 * its egress slots. The bytes stay there until the rank with the network hop
 * has sent them; then the slot is free. Incoming bytes lie in an ingress slot
 * of the receiving rank (relay_in, or the receiver itself) until the receiver
 * has copied them to user memory. A rank copies into free slots only, and
 * receives into free ingress slots only: a free slot is the credit.
 *
 * No deadlock, for any order in which ranks arrive. Each channel with chunks to
 * come reserves one ingress slot, and a receiver frees slots without waiting.
 * So the head of a channel is always received, every send ends, and every
 * egress slot becomes free. test/property/test_relay_exhaustive.c checks it.
 *
 * Order: chunks of a flow arrive in order, chunks of different flows in any
 * order. Each chunk has a header that every hop compares with the plan: hash,
 * exchange, ranks, position. A chunk that does not match is -EPROTO, and
 * nothing of it is written. Other processes of the user can spoil data in the
 * pool and end the exchange. They cannot cause reads or writes elsewhere.
 *
 * One thread at a time per object. Ranks are numbers of the communicator.
 */
#ifndef MRAIL_RELAY_RELAY_H
#define MRAIL_RELAY_RELAY_H

#include "relay/shm_pool.h"

#include <stddef.h>
#include <stdint.h>

#define MRAIL_RELAY_NONE UINT32_MAX
/* In front of the payload on the network: bytes. */
#define MRAIL_RELAY_HEADER 64u

typedef struct mrail_relay mrail_relay_t;

/* Functions of the caller. They return 0 or -errno unless stated otherwise. An
 * error ends the exchange: mrail_relay_progress() returns it from then on. */
typedef struct mrail_relay_ops {
    /* Bytes [offset, offset + length) of what this rank sends to rank `to` (fill),
     * or receives from rank `from` (drain), in any order, each once. */
    int (*fill)(void *arg, uint32_t to, uint64_t offset, void *slot,
                size_t length);
    int (*drain)(void *arg, uint32_t from, uint64_t offset, const void *slot,
                 size_t length);
    /* Starts; the buffer stays as it is until test() said 1.  Messages of a pair
     * arrive in order.  A receive may get fewer bytes than its length. */
    int (*send)(void *arg, uint32_t to, const void *buffer, size_t length,
                void **request_p);
    int (*recv)(void *arg, uint32_t from, void *buffer, size_t length,
                void **request_p);
    /* 1: ended and the request is gone; *length_p: bytes received.  0: not yet. */
    int (*test)(void *arg, void *request, size_t *length_p);
} mrail_relay_ops_t;

/* local[0..shape.num_local): the node's ranks, in the order of the pool; `self`
 * is one of them. The pool stays mapped, and owned by the caller, until the
 * relay is destroyed. It serves each rank's relay once, because rings and
 * relays keep their positions. Ranks must be below num_ranks. -ENOMEM,
 * -EINVAL. */
int mrail_relay_create(const mrail_relay_shm_pool_t *arena, uint32_t num_ranks,
                       const uint32_t *local, uint32_t self,
                       const mrail_relay_ops_t *ops, void *arg,
                       mrail_relay_t **relay_p);
void mrail_relay_destroy(mrail_relay_t *relay); /* NULL: nothing */

/* Bytes of a demand that take one path. */
typedef struct mrail_relay_flow {
    uint32_t from, to;  /* the same: a copy to oneself */
    uint32_t relay_out; /* of `from`'s node, not `from`; or MRAIL_RELAY_NONE */
    uint32_t relay_in; /* of `to`'s node, not `to`; or MRAIL_RELAY_NONE.  Within
                           a node there is none of both */
    uint64_t offset, bytes; /* of the demand */
} mrail_relay_flow_t;

/*
 * Starts the next exchange. All ranks call it with the same hash, and with
 * their flows of the same set, in any order. Flows without a part of this rank,
 * or of 0 bytes, are ignored. A pair of ranks may have several flows, which do
 * not overlap. Needed data is copied.
 *   -EINVAL   an impossible flow;
 *   -EBUSY    the last exchange has not ended here;
 *   -ENOSPC   more channels into this rank than ingress slots (each rank can compute this for
 *             every other one: mrail_relay_channels());
 *   -ENOMEM   out of memory; nothing was started;
 *   the error of an earlier exchange that failed.
 */
int mrail_relay_begin(mrail_relay_t *relay, uint64_t hash,
                      const mrail_relay_flow_t *flows, size_t num_flows);

/* What mrail_relay_begin() would say of these flows; after 0 it says 0, and begins.
 * So ranks can agree on whether all of them can, before any does. */
int mrail_relay_reserve(mrail_relay_t *relay, const mrail_relay_flow_t *flows,
                        size_t num_flows);

/* channels[r]: ranks from which rank r receives over the network by these flows,
 * which is what in_slots has to be at least; for each rank that is below num_ranks,
 * as those of the flows are.  nodes[r]: a number for the node of rank r.
 * 0, -ENOMEM. */
int mrail_relay_channels(const mrail_relay_flow_t *flows, size_t num_flows,
                         const uint32_t *nodes, uint32_t num_ranks,
                         unsigned *channels);

/* Works without waiting: one chunk of each kind of step. Returns the number of
 * steps; 0: call again later; -errno: the exchange and the relay have failed.
 * This function and mrail_relay_begin() return that error from then on. The
 * caller must end the network requests in flight before the pool is
 * unmapped. */
int mrail_relay_progress(mrail_relay_t *relay);

/* 1: all of this rank's part is done (its slots may still be read by others: they
 * come free by themselves, also during the next exchange), or nothing was begun. */
int mrail_relay_done(const mrail_relay_t *relay);

typedef struct mrail_relay_stats {
    uint64_t filled, drained, sent, received; /* payload bytes */
    uint64_t chunks;                          /* handled in any role */
    uint64_t waits; /* times that no slot was free for what could go on */
} mrail_relay_stats_t;

/* Since creation. */
void mrail_relay_stats(const mrail_relay_t *relay,
                       mrail_relay_stats_t *stats_p);

#endif
