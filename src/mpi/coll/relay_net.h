/*
 * The network hops of relays as RDMA READs. The receiver READs each chunk from
 * a slot of the sender into a slot of its own:
 *
 *   sender                                   receiver
 *     offer: address, length, key  ------->
 *                                  <======   READ
 *                                  <-------- answer
 *
 * All READs of a channel share a quota: the bytes that the plan gives to each
 * rail of the receiver (relay_quota.h). As with direct messages (direct.h), any
 * rail may carry the rest after twice the time that the plan forecasts, plus
 * 10 ms.
 *
 * A READ carries the header of a chunk as well. The headers of payloads in
 * device memory are messages of their own, because they are in host memory.
 *
 * If a rank cannot register its slots in host memory, or a device refuses the
 * READ, the answer asks for the chunk as a message. Payloads in device memory
 * have no such alternative, because the pml has no CUDA support. The ranks make
 * sure of the registration of these slots when they create the pool.
 */
#ifndef MRAIL_MPI_COLL_RELAY_NET_H
#define MRAIL_MPI_COLL_RELAY_NET_H

#include "mpi/coll/schedule.h"
#include "relay/relay.h"
#include "uct/mrail_direct.h"

typedef struct mca_coll_mrail_module mca_coll_mrail_module_t;
typedef struct mca_coll_mrail_net mca_coll_mrail_net_t;

/* The slots that this rank may send or receive into: areas of equal size, one
 * after the other, each of which is one registration. */
typedef struct mca_coll_mrail_net_slots {
    char *base;
    size_t area_size;
    unsigned num_areas;
} mca_coll_mrail_net_slots_t;

/* Creates the object for a pool of this shape. An area is registered when it is
 * first used. Returns 0 or -ENOMEM. */
int mca_coll_mrail_net_create(mca_coll_mrail_module_t *module,
                              const mrail_relay_shape_t *shape,
                              const mca_coll_mrail_net_slots_t *slots,
                              mca_coll_mrail_net_t **net_p);
/* No message may be in flight. NULL is allowed. */
void mca_coll_mrail_net_destroy(mca_coll_mrail_net_t *net);

/* Registers all areas now. Returns 0, or -errno of mem_get() in
 * mrail_direct.h. */
int mca_coll_mrail_net_register(mca_coll_mrail_net_t *net);

/* Begins an exchange with the flows and the forecast of this schedule. Without
 * memory for quotas, rails carry chunks as they have room. */
void mca_coll_mrail_net_begin(mca_coll_mrail_net_t *net,
                              const mca_coll_mrail_schedule_t *schedule);
/* Ends the exchange, in which no message is in flight any more. Adds to the
 * counters what the plan gave to each rail, and what it has carried. */
void mca_coll_mrail_net_end(mca_coll_mrail_net_t *net);

/* Advances all messages in flight. mrail_relay_progress() tests only the oldest
 * of each pair of ranks. */
void mca_coll_mrail_net_progress(mca_coll_mrail_net_t *net);

/* For mrail_relay_ops_t. An address outside the slots is that of a header. */
int mca_coll_mrail_net_send(mca_coll_mrail_net_t *net, uint32_t to,
                            const void *buffer, size_t length,
                            void **request_p);
int mca_coll_mrail_net_recv(mca_coll_mrail_net_t *net, uint32_t from,
                            void *buffer, size_t length, void **request_p);
int mca_coll_mrail_net_test(void *request, size_t *length_p);

#endif
