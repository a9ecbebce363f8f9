/*
 * Moves relay chunks between nodes with RDMA READs. The receiver READs each
 * chunk from a slot of the sender into one of its own slots:
 *
 *   sender                                   receiver
 *     offer: address, length, key  ------->
 *                                  <======   READ
 *                                  <-------- answer
 *
 * The READs of a channel share a quota, which limits the bytes of each rail of
 * the receiver to those that the plan assigned (relay_quota.h). The quota
 * expires after twice the time that the plan forecasts, plus 10 ms. Any rail
 * may then carry the remaining bytes, as with direct messages (direct.h).
 *
 * A READ also carries the header of its chunk. If the payload is in device
 * memory, its header is a separate message, because headers are always in host
 * memory.
 *
 * If a rank cannot register its slots in host memory, or a device rejects the
 * READ, the answer requests the chunk as a message. A message cannot replace
 * the READ of a payload in device memory, because the pml has no CUDA support.
 * The ranks therefore register these slots when they create the pool. If one
 * registration fails, no rank uses the pool.
 */
#ifndef MRAIL_MPI_COLL_RELAY_NET_H
#define MRAIL_MPI_COLL_RELAY_NET_H

#include "mpi/coll/schedule.h"
#include "relay/relay.h"
#include "uct/mrail_direct.h"

typedef struct mca_coll_mrail_module mca_coll_mrail_module_t;
typedef struct mca_coll_mrail_net mca_coll_mrail_net_t;

/* The slots from which this rank may send or into which it may receive. They
 * form areas of equal size without gaps, and each area is one registration. */
typedef struct mca_coll_mrail_net_slots {
    char *base;
    size_t area_size;
    unsigned num_areas;
} mca_coll_mrail_net_slots_t;

/* Creates the object for a pool of this shape. Registers each area when it is
 * first used. Returns 0 or -ENOMEM. */
int mca_coll_mrail_net_create(mca_coll_mrail_module_t *module,
                              const mrail_relay_shape_t *shape,
                              const mca_coll_mrail_net_slots_t *slots,
                              mca_coll_mrail_net_t **net_p);
/* Frees the object. All messages must have completed. NULL is allowed. */
void mca_coll_mrail_net_destroy(mca_coll_mrail_net_t *net);

/* Registers all areas now. Returns 0, or the -errno that mem_get() of
 * mrail_direct.h returned. */
int mca_coll_mrail_net_register(mca_coll_mrail_net_t *net);

/* Begins an exchange with the flows and the forecast of this schedule. If
 * memory for quotas runs out, any rail may carry any chunk. */
void mca_coll_mrail_net_begin(mca_coll_mrail_net_t *net,
                              const mca_coll_mrail_schedule_t *schedule);
/* Ends the exchange. All messages must have completed. Adds the planned and the
 * carried bytes of each rail to the counters. */
void mca_coll_mrail_net_end(mca_coll_mrail_net_t *net);

/* Advances all messages in flight. mrail_relay_progress() tests only the oldest
 * message of each pair of ranks. */
void mca_coll_mrail_net_progress(mca_coll_mrail_net_t *net);

/* Functions for mrail_relay_ops_t. A buffer outside the slots is a header, and
 * is sent or received as a message. */
int mca_coll_mrail_net_send(mca_coll_mrail_net_t *net, uint32_t to,
                            const void *buffer, size_t length,
                            void **request_p);
int mca_coll_mrail_net_recv(mca_coll_mrail_net_t *net, uint32_t from,
                            void *buffer, size_t length, void **request_p);
int mca_coll_mrail_net_test(void *request, size_t *length_p);

#endif
