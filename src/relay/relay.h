/*
 * One rank's part in an exchange over relays, chunk by chunk. In this file, a
 * chunk is a relay chunk.
 *
 *   sender -> relay_out  =network=>  relay_in -> receiver
 *
 * Either relay, or both, may be absent. Within a node, the path is sender ->
 * receiver. Hops within a node use the shared-memory pool. The caller carries
 * out the network hop (mrail_relay_ops_t), over one ordered channel per pair of
 * ranks. Sources: [NIMBLE] IV-C, IV-D.
 *
 * All payloads are in one kind of memory (relay/memory.h). Each is in the area
 * of the rank that passes it on: relay_out, relay_in, or an end of the flow. A
 * relay within a node only provides its area. The sender copies into this area
 * over its link to the relay, and the receiver copies from it over the relay's
 * link.
 *
 * Slots and credits, hop by hop: the sender copies its bytes once, into one of
 * its own out-slots. The slot becomes free when its network send is complete.
 * Bytes from the network arrive in an in-slot of the rank that receives them
 * (relay_in, or the receiver). That slot becomes free when the receiver has
 * copied them to the user's memory. Ranks copy and receive only into free
 * slots: a free slot is the credit.
 *
 * There is no deadlock, in any order of arrival. Each channel with chunks left
 * has a reserved in-slot, and a receiver empties slots without waiting. The
 * head of a channel is therefore always received, every send completes, and
 * every out-slot becomes free. test/property/test_relay_exhaustive.c checks
 * this.
 *
 * Order: the chunks of a flow arrive in order, but chunks of different flows of
 * a demand may not. Each chunk carries a header with hash, exchange, ranks and
 * offset, which every hop checks against the plan. On a mismatch, the relay
 * fails with -EPROTO before it writes a byte of that chunk. Other processes of
 * the same user can write to the pool. They can thus corrupt data and make the
 * exchange fail, but cannot cause accesses to other memory.
 *
 * One thread at a time may use an object. Ranks are numbered as in the
 * communicator.
 */
#ifndef MRAIL_RELAY_RELAY_H
#define MRAIL_RELAY_RELAY_H

#include "relay/memory.h"

#include <stddef.h>
#include <stdint.h>

#define MRAIL_RELAY_NONE UINT32_MAX

typedef struct mrail_relay mrail_relay_t;

/* Functions that the caller provides. They return 0 or -errno unless stated
 * otherwise. An error makes the exchange fail, and every later call of
 * mrail_relay_progress() returns the error. */
typedef struct mrail_relay_ops {
    /* These copy bytes [offset, offset + length) of the demand to rank `to`
     * (fill) or from rank `from` (drain). Each range occurs exactly once, in
     * any order. *copy_p is NULL before the call. If the copy completes later,
     * the function stores there the copy that copy_start() of the memory
     * returned. */
    int (*fill)(void *arg, uint32_t to, uint64_t offset, void *slot,
                size_t length, void **copy_p);
    int (*drain)(void *arg, uint32_t from, uint64_t offset, const void *slot,
                 size_t length, void **copy_p);
    /* These start a transfer. The buffer must not change until test() returns
     * 1. Messages between a pair of ranks arrive in order. A message may be
     * shorter than its receive. A chunk is one message if its header and its
     * payload are contiguous. Otherwise, the header is a separate message
     * before the payload. */
    int (*send)(void *arg, uint32_t to, const void *buffer, size_t length,
                void **request_p);
    int (*recv)(void *arg, uint32_t from, void *buffer, size_t length,
                void **request_p);
    /* Frees the request and returns 1 if it is complete; *length_p is then the
     * number of bytes received. Otherwise, returns 0. */
    int (*test)(void *arg, void *request, size_t *length_p);
} mrail_relay_ops_t;

/* Creates the relay of rank `self`. local[0..shape.num_local) are the ranks of
 * the node in the order of the pool, including `self`. The memory must have
 * been imported. The caller releases it after it has destroyed the relay. Only
 * one relay per rank may ever use a memory object, because rings and relays
 * keep their positions. All ranks must be below num_ranks. Returns 0, -ENOMEM
 * or -EINVAL. */
int mrail_relay_create(mrail_relay_memory_t *memory, uint32_t num_ranks,
                       const uint32_t *local, uint32_t self,
                       const mrail_relay_ops_t *ops, void *arg,
                       mrail_relay_t **relay_p);
void mrail_relay_destroy(mrail_relay_t *relay); /* NULL is allowed */

/* The bytes of a demand that take one path. */
typedef struct mrail_relay_flow {
    uint32_t from, to;  /* equal for a copy within a rank */
    uint32_t relay_out; /* on the node of `from`, but not `from`; or NONE */
    /* on the node of `to`, but not `to`; or MRAIL_RELAY_NONE. Within a node,
     * relay_in is MRAIL_RELAY_NONE. relay_out is then NONE as well if payloads
     * are in the pool. Otherwise, relay_out may be a rank other than `to`. */
    uint32_t relay_in;
    uint64_t offset, bytes; /* offset in the demand */
    /* rails of the network hop, as the caller numbers them; or
     * MRAIL_RELAY_NONE. The relay does not use them. */
    uint32_t rail_out, rail_in;
} mrail_relay_flow_t;

/*
 * Begins the next exchange. All ranks pass the same hash. Each rank passes its
 * own flows from one common set, in any order. The function ignores flows of
 * other ranks and of 0 bytes. A pair of ranks may have several flows if they do
 * not overlap. The function copies the flows. On failure, no exchange has
 * begun:
 *
 *   -EINVAL  a flow is impossible
 *   -EBUSY   the last exchange of this rank is not complete
 *   -ENOSPC  this rank has more channels than in-slots; every rank can compute
 *            the channels of all ranks with mrail_relay_channels()
 *   -ENOMEM  no memory
 *
 * After a failed exchange, it returns the error of that exchange.
 */
int mrail_relay_begin(mrail_relay_t *relay, uint64_t hash,
                      const mrail_relay_flow_t *flows, size_t num_flows);

/* Returns the result that mrail_relay_begin() would return for these flows, and
 * allocates its memory. After 0, mrail_relay_begin() succeeds. Ranks use this
 * function to agree that all of them can begin. */
int mrail_relay_reserve(mrail_relay_t *relay, const mrail_relay_flow_t *flows,
                        size_t num_flows);

/* Computes channels[r], the number of ranks from which rank r < num_ranks
 * receives over the network. in_slots must be at least this number. The flows
 * may contain only ranks below num_ranks. nodes[r] identifies the node of rank
 * r. Returns 0 or -ENOMEM. */
int mrail_relay_channels(const mrail_relay_flow_t *flows, size_t num_flows,
                         const uint32_t *nodes, uint32_t num_ranks,
                         unsigned *channels);

/* Performs the steps that are possible without waiting, at most one of each
 * kind. Returns the number of steps, which is 0 if none is possible now. -errno
 * means that the exchange and the relay have failed. Later calls of this
 * function and of mrail_relay_begin() return the same error. Before the caller
 * releases the memory, it must complete or cancel the network requests in
 * flight. */
int mrail_relay_progress(mrail_relay_t *relay);

/* Returns 1 if this rank's part is complete, or if no exchange has begun. Other
 * ranks may still read its slots, which become free without further calls,
 * possibly during the next exchange. */
int mrail_relay_done(const mrail_relay_t *relay);

typedef struct mrail_relay_stats {
    uint64_t filled, drained, sent, received; /* payload bytes */
    uint64_t chunks;                          /* chunks handled in any role */
    /* number of times that a step had to wait for a free slot */
    uint64_t waits;
} mrail_relay_stats_t;

/* Returns the counters since creation. */
void mrail_relay_stats(const mrail_relay_t *relay,
                       mrail_relay_stats_t *stats_p);

#endif
