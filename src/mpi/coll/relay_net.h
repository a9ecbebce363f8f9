/*
 * The network hops of relays whose payloads lie in device memory. The pml has no
 * CUDA support, so it carries only headers. The receiver READs each payload from
 * a slot of the sender into a slot of its own:
 *
 *   sender                                   receiver
 *     header, offer: address, length ----->
 *                                  <======   READ
 *                                  <-------- answer
 *
 * All slots of a rank are one registration, whose key the ranks exchange when
 * they create the pool.
 */
#ifndef MRAIL_MPI_COLL_RELAY_NET_H
#define MRAIL_MPI_COLL_RELAY_NET_H

#include "relay/relay.h"
#include "uct/mrail_direct.h"

typedef struct mca_coll_mrail_module mca_coll_mrail_module_t;
typedef struct mca_coll_mrail_net mca_coll_mrail_net_t;

/* The key of a rank's slots. Exchanged as bytes. */
typedef struct mca_coll_mrail_net_key {
    uint64_t length; /* 0: the slots are not registered */
    uint8_t bytes[UCT_MRAIL_DIRECT_KEY_MAX];
} mca_coll_mrail_net_key_t;

/* Creates the object for slots of this shape. Returns 0 or -ENOMEM. */
int mca_coll_mrail_net_create(mca_coll_mrail_module_t *module,
                              const mrail_relay_shape_t *shape,
                              mca_coll_mrail_net_t **net_p);
/* No message may be in flight. NULL is allowed. */
void mca_coll_mrail_net_destroy(mca_coll_mrail_net_t *net);

/* Registers this rank's slots, and writes their key. Returns 0, or -errno of
 * mem_get() in mrail_direct.h. */
int mca_coll_mrail_net_register(mca_coll_mrail_net_t *net, void *area,
                                size_t size, mca_coll_mrail_net_key_t *key_p);
/* Sets the key of another rank. Returns 0, or -EINVAL if it has none. */
int mca_coll_mrail_net_set_key(mca_coll_mrail_net_t *net, uint32_t rank,
                               const mca_coll_mrail_net_key_t *key);

/* Advances all messages in flight. mrail_relay_progress() tests only the oldest
 * of each pair of ranks. */
void mca_coll_mrail_net_progress(mca_coll_mrail_net_t *net);

/* For mrail_relay_ops_t. An address outside this rank's slots is that of a
 * header. */
int mca_coll_mrail_net_send(mca_coll_mrail_net_t *net, uint32_t to,
                            const void *buffer, size_t length,
                            void **request_p);
int mca_coll_mrail_net_recv(mca_coll_mrail_net_t *net, uint32_t from,
                            void *buffer, size_t length, void **request_p);
int mca_coll_mrail_net_test(void *request, size_t *length_p);

#endif
