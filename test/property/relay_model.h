/*
 * Ranks of several nodes in one process, with relays over shared-memory pools
 * in plain memory. The network has ordered channels and delivers only on
 * request. A send completes when its receive was posted and has the bytes.
 *
 * The model checks all data: bytes are a function of sender, receiver and
 * exchange, and each chunk of a flow must arrive once.
 */
#ifndef MRAIL_TEST_RELAY_MODEL_H
#define MRAIL_TEST_RELAY_MODEL_H

#include "relay/relay.h"
#include "relay/relay_internal.h"

#include <stddef.h>
#include <stdint.h>

#define WORLD_NODES 4u
#define WORLD_PER_NODE 5u
#define WORLD_RANKS (WORLD_NODES * WORLD_PER_NODE)
#define WORLD_FLOWS 32u
#define WORLD_REQUESTS 64u /* of a rank, under way */
#define WORLD_EXCHANGES 4u

enum { WORLD_SEND, WORLD_RECV, WORLD_KINDS };

typedef struct world_request {
    void *buffer;
    uint32_t length; /* of the buffer, then of what came */
    uint32_t order;  /* on its channel, of its kind */
    uint8_t kind, from, to;
    uint8_t is_used, is_done;
} world_request_t;

/* The flows of one exchange. */
typedef struct world_exchange {
    mrail_relay_flow_t flows[WORLD_FLOWS];
    unsigned num_flows;
    uint64_t hash;
} world_exchange_t;

struct topology;

typedef struct world_rank {
    struct topology *topology;
    uint32_t rank;
    mrail_relay_t *relay;
    /* Result of the next operation, instead of executing it. */
    int fill_error, drain_error, send_error, recv_error, test_error;
} world_rank_t;

/* Messages, since the beginning. */
typedef struct world_channel {
    uint32_t posted[WORLD_KINDS];
    uint32_t delivered;
    uint32_t none;
} world_channel_t;

/* A rank's exchanges. */
typedef struct world_count {
    uint32_t begun, ended;
} world_count_t;

/* The mutable state, without relays and pools: copied to go back in a
 * search. */
typedef struct world_state {
    world_channel_t channels[WORLD_RANKS][WORLD_RANKS];
    uint64_t seen[WORLD_EXCHANGES][WORLD_FLOWS]; /* chunks drained */
    world_count_t counts[WORLD_RANKS];
    /* Of each rank on its own: who is first makes no difference then. */
    world_request_t requests[WORLD_RANKS][WORLD_REQUESTS];
} world_state_t;

typedef struct topology {
    unsigned num_nodes, num_ranks;
    uint32_t node_of[WORLD_RANKS], local_of[WORLD_RANKS];
    uint32_t locals[WORLD_NODES][WORLD_PER_NODE];
    mrail_relay_shm_pool_t arenas[WORLD_NODES];
    world_rank_t ranks[WORLD_RANKS];
    world_exchange_t exchanges[WORLD_EXCHANGES];
    unsigned num_exchanges; /* it begins anew behind the last */
    int is_stamped; /* only the first 8 bytes of a chunk are written and looked at */
    world_state_t s;
} world_t;

/* First, of a zeroed world.  per_node[n]: ranks of node n, which are numbered one
 * after the other; 0 ends it. */
void world_place(world_t *topology, const unsigned *per_node);
/* Creates pools and relays. */
void world_init(world_t *topology, size_t chunk, unsigned out_slots,
                unsigned in_slots);
void world_cleanup(world_t *topology);

/* Rank begins its next exchange. */
int world_begin(world_t *topology, uint32_t rank);

/* 1: the last exchange that the rank began has ended there, with all its bytes. */
int world_end(world_t *topology, uint32_t rank);

/* 1: the next message from `from` to `to` has arrived. */
int world_deliver(world_t *topology, uint32_t from, uint32_t to);

/* Everything that can be delivered; how much. */
unsigned world_deliver_all(world_t *topology);

/* All slots are free and all rings empty. */
void world_check_idle(const world_t *topology);

/* Steps and deliveries in turn until every rank has ended `num` exchanges; asserts
 * that this comes. */
void world_run(world_t *topology, uint32_t num);

/* Channels into the rank that have chunks to post, but none under way. */
unsigned world_num_bare(const world_t *topology, uint32_t rank);

/* in_slots that these exchanges need. */
unsigned world_min_in_slots(const world_t *topology);

/* Adds a flow to exchange `num`. */
void world_add(world_t *topology, unsigned num, uint32_t from,
               uint32_t relay_out, uint32_t relay_in, uint32_t to,
               uint64_t offset, uint64_t bytes);

extern const mrail_relay_ops_t world_ops;

#endif
