/*
 * Ranks of several nodes in one process, with relays over shared-memory pools
 * in ordinary memory. The network has ordered channels and delivers only on
 * request. A send completes when the matching receive has been posted and has
 * the bytes.
 *
 * Payloads are in the pools or in separate areas. Copies complete immediately,
 * or later and in any order. A late copy reads and writes when it completes, so
 * that a slot that is forwarded or reused too early has wrong bytes.
 *
 * The model checks all data. The bytes are a function of sender, receiver and
 * exchange. Each chunk of a flow must arrive exactly once.
 */
#ifndef MRAIL_TEST_RELAY_MODEL_H
#define MRAIL_TEST_RELAY_MODEL_H

#include "relay/relay.h"
#include "relay/relay_internal.h"

#include <stddef.h>
#include <stdint.h>

#define MODEL_NODES 4u
#define MODEL_PER_NODE 5u
#define MODEL_RANKS (MODEL_NODES * MODEL_PER_NODE)
#define MODEL_FLOWS 32u
#define MODEL_REQUESTS 128u /* requests in flight per rank */
#define MODEL_COPIES 64u    /* copies in flight per rank */
#define MODEL_EXCHANGES 4u

enum { MODEL_SEND, MODEL_RECV, MODEL_KINDS };
enum { MODEL_FILL, MODEL_DRAIN };

typedef struct model_request {
    void *buffer;
    uint32_t length; /* length of the buffer, later of the received message */
    /* Number on its channel, counted separately for sends and receives. */
    uint32_t order;
    uint8_t kind, from, to;
    uint8_t is_used, is_done;
} model_request_t;

typedef struct model_copy {
    void *slot;
    uint64_t offset;
    uint32_t length;
    uint8_t kind, rank, peer;
    uint8_t state; /* 0: unused, 1: started, 2: complete */
} model_copy_t;

/* The flows of one exchange. */
typedef struct model_exchange {
    mrail_relay_flow_t flows[MODEL_FLOWS];
    unsigned num_flows;
    uint64_t hash;
} model_exchange_t;

struct topology;

typedef struct model_rank {
    struct topology *topology;
    uint32_t rank;
    mrail_relay_memory_t memory;
    mrail_relay_t *relay;
    /* If nonzero, the next operation of this kind returns this error instead of
     * being executed. */
    int fill_error, drain_error, send_error, recv_error, test_error, copy_error;
} model_rank_t;

/* Numbers of messages on a channel since the start. */
typedef struct model_channel {
    uint32_t posted[MODEL_KINDS];
    uint32_t delivered;
    uint32_t none;
} model_channel_t;

/* Numbers of exchanges that a rank has begun and ended. */
typedef struct model_count {
    uint32_t begun, ended;
} model_count_t;

/* The mutable state, except for relays and pools. A search saves a copy, so
 * that it can backtrack. */
typedef struct model_state {
    model_channel_t channels[MODEL_RANKS][MODEL_RANKS];
    uint64_t seen[MODEL_EXCHANGES][MODEL_FLOWS]; /* chunks drained */
    model_count_t counts[MODEL_RANKS];
    /* Each rank has its own requests, so that the order in which ranks act is
     * irrelevant. */
    model_request_t requests[MODEL_RANKS][MODEL_REQUESTS];
    model_copy_t copies[MODEL_RANKS][MODEL_COPIES];
} model_state_t;

typedef struct topology {
    unsigned num_nodes, num_ranks;
    uint32_t node_of[MODEL_RANKS], local_of[MODEL_RANKS];
    uint32_t locals[MODEL_NODES][MODEL_PER_NODE];
    mrail_relay_shm_pool_t pools[MODEL_NODES];
    void *areas[MODEL_RANKS]; /* external */
    model_rank_t ranks[MODEL_RANKS];
    model_exchange_t exchanges[MODEL_EXCHANGES];
    unsigned num_exchanges; /* restarts after the last one */
    /* Only the first 8 bytes of a chunk are written and checked. */
    int is_header_only;
    int is_external; /* payloads are outside the pools */
    /* One in this many copies completes later. If 0, all complete
     * immediately. */
    unsigned one_later;
    unsigned num_copies; /* started so far, unless all complete immediately */
    model_state_t s;
} model_t;

/* Must be the first call for a zeroed model. per_node[n] is the number of ranks
 * on node n. The ranks of a node have consecutive numbers. A 0 ends the
 * list. */
void model_place(model_t *topology, const unsigned *per_node);
/* Creates pools and relays. */
void model_init(model_t *topology, size_t chunk, unsigned out_slots,
                unsigned in_slots);
void model_cleanup(model_t *topology);

/* Begins the rank's next exchange. */
int model_begin(model_t *topology, uint32_t rank);

/* Returns 1 if the rank has completed its last exchange and has all bytes. */
int model_end(model_t *topology, uint32_t rank);

/* Returns 1 if the next message from `from` to `to` was delivered. */
int model_deliver(model_t *topology, uint32_t from, uint32_t to);

/* Delivers everything that can be delivered. Returns the number of messages. */
unsigned model_deliver_all(model_t *topology);

/* Completes the copy, and returns 1, or returns 0 if there is none. */
int model_complete(model_t *topology, uint32_t rank, unsigned copy);

/* Checks that all slots are free and all rings are empty. */
void model_check_idle(const model_t *topology);

/* Alternates steps and deliveries until every rank has ended `num` exchanges.
 * Fails the test if that does not happen. */
void model_run(model_t *topology, uint32_t num);

/* Returns the number of channels to the rank that have chunks to post but no
 * posted receive. */
unsigned model_num_bare(const model_t *topology, uint32_t rank);

/* Returns the number of in-slots that these exchanges need. */
unsigned model_min_in_slots(const model_t *topology);

/* Adds a flow to exchange `num`. */
void model_add(model_t *topology, unsigned num, uint32_t from,
               uint32_t relay_out, uint32_t relay_in, uint32_t to,
               uint64_t offset, uint64_t bytes);

extern const mrail_relay_ops_t model_ops;

#endif
