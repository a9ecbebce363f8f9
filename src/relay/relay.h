/*
 * A rank's part in an exchange whose bytes pass relays, chunk by chunk.
 *
 *     sender -> relay_out  =network=>  relay_in -> receiver
 *
 * with either relay left out; and sender -> receiver within a node.  Hops within a
 * node go through the arena; the network hop is the caller's (ops below), one
 * ordered channel for each pair of ranks.  Sources: NIMBLE IV-C, IV-D.
 *
 * Slots and credits, hop by hop.  The sender's bytes are copied once, into one of
 * its own out-slots, and stay there until whoever does the network hop has sent
 * them; then the slot is free again.  What comes over the network lies in an in-slot
 * of the rank that receives it (relay_in, or the receiver itself) until the receiver
 * has copied it to its user's memory.  Nobody copies into a slot that is not free,
 * and nobody receives without a free in-slot: a free slot is the credit.
 *
 * No deadlock, whatever the order in which ranks arrive: each channel that has
 * chunks to come keeps one in-slot for itself, and a receiver empties slots
 * without waiting for anything; so what is at the head of a channel is always
 * received, every send ends, every out-slot comes free.  test/property/
 * test_relay_exhaustive.c shows it.
 *
 * Order: chunks of a demand may come in any order, those of one flow in their own.
 * Each carries a header which every hop checks against the plan: hash, exchange,
 * ranks, place.  What does not fit is -EPROTO, and nothing of it is written.  What
 * other processes of the user write into the arena can spoil data, and end the
 * exchange; it cannot make this one read or write elsewhere.
 *
 * One thread at a time per object.  Ranks are numbers of the communicator.
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

/* What the caller does.  Functions return 0 or -errno unless said otherwise; an
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

/* local[0..shape.num_local): the node's ranks, in the arena's order; `self` is one of
 * them.  The arena stays mapped, and the caller's, until destroyed; it serves each
 * rank's relay once, for rings and relays go on from where both were.  Ranks must be
 * below num_ranks.  -ENOMEM, -EINVAL. */
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
 * The next exchange.  All ranks call it with the same hash, and with those flows of
 * the same set in which they have a part (others are ignored, and those of 0 bytes),
 * in any order; a pair of ranks may have several, which do not overlap.  What is
 * needed of them is copied.
 *   -EINVAL   a flow that is not possible;
 *   -EBUSY    the last exchange has not ended here;
 *   -ENOSPC   more channels into this rank than in-slots (each rank can tell this of
 *             every other one: mrail_relay_channels());
 *   -ENOMEM.  Nothing has been begun then;
 *   the error with which an earlier exchange failed.
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

/* Does what can be done now without waiting, a chunk of each kind of work.
 * Number of steps made; 0: nothing to do but to ask again; -errno: the exchange has
 * failed, and the relay with it: this and mrail_relay_begin() return that error from
 * then on.  What is under way on the network is still the caller's to end, before
 * the arena goes. */
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
