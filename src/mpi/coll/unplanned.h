/*
 * Computes the loads of the topology's links in an exchange without a plan, and
 * decides whether a plan justifies its cost. The functions are pure.
 *
 * Within a node, bytes in device memory take the direct link between the two
 * GPUs. All other bytes take shared memory or, on emulated nodes, the rails.
 *
 * In the model, each pair of ranks splits its bytes across its common rails in
 * proportion to their rates. The rate of a rail is the lower of the sender's
 * send rate and the receiver's receive rate. The lanes of the transport behave
 * in this way, because each lane takes the next chunk as soon as its window
 * allows (decision 0003). Lanes are not aware of uplinks. A pair without a
 * common rail uses all its rails.
 *
 * In practice, lanes also shift bytes away from rails that other pairs load.
 * The model ignores this, so it may overestimate the time that a plan saves.
 */
#ifndef MRAIL_MPI_COLL_UNPLANNED_H
#define MRAIL_MPI_COLL_UNPLANNED_H

#include "mpi/coll/topology.h"
#include "orchestrator/plan.h"

#include <stddef.h>
#include <stdint.h>

/* A plan must save at least this fraction of the unplanned time. The margin
 * covers the gap of the planner and the errors of rates and model. */
#define MCA_COLL_MRAIL_LEAST_GAIN 0.03
/* In addition, a plan must save the time in seconds that the ranks need to
 * compare their plans and start relays. */
#define MCA_COLL_MRAIL_LEAST_GAIN_S 100e-6

typedef struct mca_coll_mrail_unplanned mca_coll_mrail_unplanned_t;

/* Creates the model for the links of a plan. The caller owns both objects,
 * which must outlive the model. is_on_devices: bytes within a node take the
 * links between GPUs. Returns 0 or -ENOMEM. */
int mca_coll_mrail_unplanned_create(const mca_coll_mrail_topology_t *topology,
                                    int is_on_devices, const mrail_plan_t *plan,
                                    mca_coll_mrail_unplanned_t **model_p);
void mca_coll_mrail_unplanned_destroy(mca_coll_mrail_unplanned_t *model);

/* Sets the demands of the exchange. The same arguments give bit-identical
 * results on all ranks. */
void mca_coll_mrail_unplanned_set(mca_coll_mrail_unplanned_t *model,
                                  const mrail_plan_demand_t *demands,
                                  size_t num_demands);

/* Adds bytes that leave and enter a node over a rail, and whose other ends are
 * unknown. */
void mca_coll_mrail_unplanned_add(mca_coll_mrail_unplanned_t *model,
                                  unsigned node, unsigned rail, double out,
                                  double in);

/* Return the congestion without a plan, and a lower bound on the congestion of
 * every plan, both in seconds. The congestion is infinite if a demand has no
 * path without relays. */
double
mca_coll_mrail_unplanned_congestion(const mca_coll_mrail_unplanned_t *model);
double mca_coll_mrail_unplanned_bound(const mca_coll_mrail_unplanned_t *model);

/* Returns the bytes that link i carries without a plan. */
double mca_coll_mrail_unplanned_bytes(const mca_coll_mrail_unplanned_t *model,
                                      unsigned i);

/* Returns 1 if an exchange that takes `planned` instead of `unplanned` seconds
 * repays its plan. */
static inline int mca_coll_mrail_is_gain(double planned, double unplanned)
{
    return planned < (1 - MCA_COLL_MRAIL_LEAST_GAIN) * unplanned -
                         MCA_COLL_MRAIL_LEAST_GAIN_S;
}

#endif
