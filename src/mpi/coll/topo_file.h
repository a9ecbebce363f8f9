/*
 * The topology file of the job (coll_mrail_topology), in the format of
 * mrail-topology(5). It states facts that a process cannot determine: leaf
 * groups, uplinks, and limits of ranks on rails. Rank w of the file is rank w
 * of MPI_COMM_WORLD, on the node that the file names for it. The rails that the
 * file lists for the rank correspond to the rails of its process in the order
 * of subnets. GPU links matter for messages between device memory. This code
 * does not use MPI.
 */
#ifndef MRAIL_MPI_COLL_TOPO_FILE_H
#define MRAIL_MPI_COLL_TOPO_FILE_H

#include "base/text.h"
#include "mpi/coll/topology.h"
#include "topology/topo_text.h"

#include <stddef.h>
#include <stdint.h>

#define MCA_COLL_MRAIL_REASON_SIZE 512u

typedef struct mca_coll_mrail_topo_file {
    char name[MRAIL_TEXT_MAX_NAME + 1]; /* end of the path, for messages */
    /* value for the rank entry: hash of the text, MCA_COLL_MRAIL_NO_FILE or
     * _BAD_FILE */
    uint64_t hash;
    mrail_topo_text_t text;
    char reason[MCA_COLL_MRAIL_REASON_SIZE]; /* reason if the file is invalid,
                                        * otherwise "" */
} mca_coll_mrail_topo_file_t;

/* Reads a file. If `path` is NULL or empty, there is no file. Stores errors in
 * the result, because they must reach all ranks. */
void mca_coll_mrail_topo_file_read(mca_coll_mrail_topo_file_t *file,
                                   const char *path);
void mca_coll_mrail_topo_file_cleanup(mca_coll_mrail_topo_file_t *file);

/*
 * Compares the file with the entries of the num_ranks ranks of a communicator,
 * whose ranks in MPI_COMM_WORLD are world[0..num_ranks). Both may be NULL if
 * this rank has no file. Requires that mca_coll_mrail_rank_entries_differ()
 * returned NULL.
 *
 * Returns 0 if they match, or if no rank has a file. If they do not match,
 * returns 1 with a sentence in `reason` that names file, line and rank; *rank_p
 * is the rank that should print it. All ranks return the same result. Returns
 * -ENOMEM if memory runs out.
 */
int mca_coll_mrail_topo_file_check(const mca_coll_mrail_topo_file_t *file,
                                   const mca_coll_mrail_rank_entry_t *entries,
                                   const uint32_t *world, unsigned num_ranks,
                                   unsigned *rank_p, char *reason, size_t size);

#endif
