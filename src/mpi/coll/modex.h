/*
 * The rank entries of this job's processes, which Open MPI's modex distributes
 * in MPI_Init. Every process publishes its entry when the component is opened,
 * which is before the modex but after pml/ucx has opened the transport. The
 * processes therefore know each other's rails before the first call, without
 * exchanging messages.
 *
 * All processes see the same entries, so they reach the same decisions. A
 * process that does not load the component has no entry.
 */
#ifndef MRAIL_MPI_COLL_MODEX_H
#define MRAIL_MPI_COLL_MODEX_H

#include "mpi/coll/topology.h"

#include "ompi_config.h"

#include "ompi/communicator/communicator.h"

/* Publishes the entry of this process. Call it once, before the modex. */
void mca_coll_mrail_modex_publish(const mca_coll_mrail_rank_entry_t *entry);

/* Returns the entry of this process as it was published. */
const mca_coll_mrail_rank_entry_t *mca_coll_mrail_modex_mine(void);

/* Copies the entries of all ranks of the communicator to entries[0..size), and
 * their ranks in MPI_COMM_WORLD to world[0..size), unless it is NULL. Version
 * MCA_COLL_MRAIL_ABSENT stands for a process without an entry, and
 * MCA_COLL_MRAIL_FOREIGN for a process of another job. Returns 0 or -ENOMEM.
 * Any thread may call it. */
int mca_coll_mrail_modex_read(struct ompi_communicator_t *comm,
                              mca_coll_mrail_rank_entry_t *entries,
                              uint32_t *world);

/* Returns the entry of a rank, or NULL if memory runs out. It stays valid until
 * the cleanup. */
const mca_coll_mrail_rank_entry_t *
mca_coll_mrail_modex_entry(struct ompi_communicator_t *comm, int rank);

/* Frees the copies of all entries. */
void mca_coll_mrail_modex_cleanup(void);

#endif
