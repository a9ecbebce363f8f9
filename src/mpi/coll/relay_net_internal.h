/*
 * Declarations shared by the files of the network hops:
 *
 *   relay_net.c          life cycle, registration of slots, quotas
 *   relay_net_message.c  offers, READs and answers
 */
#ifndef MRAIL_MPI_COLL_RELAY_NET_INTERNAL_H
#define MRAIL_MPI_COLL_RELAY_NET_INTERNAL_H

#include "mpi/coll/mrail_coll.h"
#include "mpi/coll/relay_quota.h"

typedef struct mca_coll_mrail_net_offer {
    uint64_t address, bytes;
    uint64_t key_length; /* 0 if the sender cannot register the slot */
    uint8_t key[UCT_MRAIL_DIRECT_KEY_MAX];
} mca_coll_mrail_net_offer_t;

typedef enum mca_coll_mrail_net_answer {
    ANSWER_DONE,
    ANSWER_BY_MESSAGE, /* the receiver cannot READ the chunk */
    ANSWER_FAILED,
} mca_coll_mrail_net_answer_t;

typedef enum mca_coll_mrail_net_state {
    NET_MESSAGE,  /* a header, or a chunk as a message */
    NET_OFFERED,  /* sender: waiting for the answer */
    NET_EXPECTED, /* receiver: waiting for the offer */
    NET_READY,    /* the READ is not posted yet */
    NET_READING,
    NET_READ,     /* the READ is complete; earlier answers must be sent first */
    NET_ANSWERED, /* the answer, and perhaps the chunk, is in flight */
    NET_DONE,
    NET_FAILED,
} mca_coll_mrail_net_state_t;

typedef struct mca_coll_mrail_net_request {
    mrail_list_t node; /* element of `idle` or `active` */
    mca_coll_mrail_net_t *net;
    mca_coll_mrail_net_state_t state;
    uint32_t peer;
    uint32_t turn; /* number of this offer or answer, per peer, from 0 */
    /* requests of the pml, or NULL: `message` is the offer, the header or the
     * chunk, and `reply` the answer */
    ompi_request_t *message, *reply;
    mca_coll_mrail_net_offer_t offer;
    uint64_t answer;
    char *buffer;
    size_t capacity; /* capacity of the buffer in bytes */
    size_t length;   /* bytes received */
    uct_mrail_direct_get_t get;
} mca_coll_mrail_net_request_t;

typedef struct mca_coll_mrail_net_area {
    uct_mrail_direct_mem_t *mem; /* NULL if not registered */
    int is_refused;              /* 1 if the registration has failed */
} mca_coll_mrail_net_area_t;

/* Numbers of the next offer, and of the next offer to answer, in each
 * direction. An answer does not name its offer, so a rank sends answers to a
 * peer, and processes the peer's answers, in the order of the offers. */
typedef struct mca_coll_mrail_net_peer {
    uint32_t sends, sends_ended;
    uint32_t recvs, recvs_ended;
} mca_coll_mrail_net_peer_t;

struct mca_coll_mrail_net {
    mca_coll_mrail_module_t *module;
    mca_coll_mrail_net_slots_t slots;
    mca_coll_mrail_relay_sizes_t sizes;
    int is_device;
    mca_coll_mrail_net_area_t *areas;
    mca_coll_mrail_net_peer_t *peers; /* by rank */
    mca_coll_mrail_net_request_t *requests;
    mrail_list_t idle, active;
    /* ---- quotas of this exchange ---- */
    uint32_t *place; /* by rank: its channel, or MRAIL_RELAY_NONE */
    mca_coll_mrail_relay_quota_t *channels;
    uct_mrail_direct_quota_t **quotas; /* NULL if no READ has used it so far */
    unsigned num_channels, max_channels;
    uint64_t until_ns;
};

/* Returns 1 if the address is in a slot. Otherwise, it is the address of a
 * header. */
static inline int mca_coll_mrail_net_has(const mca_coll_mrail_net_t *net,
                                         const void *buffer)
{
    return (uintptr_t)buffer - (uintptr_t)net->slots.base <
           net->slots.num_areas * net->slots.area_size;
}

/* Returns the registration of a slot, or NULL. */
uct_mrail_direct_mem_t *mca_coll_mrail_net_mem(mca_coll_mrail_net_t *net,
                                               const void *buffer);

/* Returns the quota of the channel from a rank, or NULL if there is none.
 * Requires that the endpoint to the rank exists. */
uct_mrail_direct_quota_t *mca_coll_mrail_net_quota(mca_coll_mrail_net_t *net,
                                                   uint32_t from);

#endif
