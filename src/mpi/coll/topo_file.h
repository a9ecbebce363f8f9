/*
 * The topology file of the job (coll_mrail_topology), in the format of
 * mrail-topology(5). It tells what a process cannot see: leaf groups, uplinks,
 * and limits of ranks on rails. Rank w of the file is rank w of MPI_COMM_WORLD.
 * Its node is the file's node of that rank. Its rails are the file's rails of
 * that rank, in the order of its subnets. GPU links of the file do not count,
 * because relays copy through the memory of the host. No MPI here.
 */
#ifndef MRAIL_MPI_COLL_TOPO_FILE_H
#define MRAIL_MPI_COLL_TOPO_FILE_H

#include "base/text.h"
#include "mpi/coll/topology.h"
#include "topology/topo_text.h"

#include <stddef.h>
#include <stdint.h>

#define MCA_COLL_MRAIL_WHY_SIZE 512u

typedef struct mca_coll_mrail_topo_file {
    char name[MRAIL_TEXT_MAX_NAME + 1]; /* end of the path, for messages */
    /* for the rank entry: of the text, or MCA_COLL_MRAIL_NO_FILE or _BAD_FILE */
    uint64_t hash;
    mrail_topo_text_t text;
    char why[MCA_COLL_MRAIL_WHY_SIZE]; /* why the file is bad; "": it is not */
} mca_coll_mrail_topo_file_t;

/* Reads a file. `path` may be NULL or empty: there is none. Errors are in the
 * result, because all ranks must learn about them. */
void mca_coll_mrail_topo_file_read(mca_coll_mrail_topo_file_t *file,
                                   const char *path);
void mca_coll_mrail_topo_file_cleanup(mca_coll_mrail_topo_file_t *file);

/*
 * Compares the file with the entries of the num_ranks ranks of a communicator,
 * whose ranks in MPI_COMM_WORLD are world[0..num_ranks). Both may be NULL: this
 * rank has no file. Requires that mca_coll_mrail_rank_entries_differ() returned
 * NULL.
 *
 * Returns 0 if they match, or no rank has a file. Returns 1 if they do not: `why`
 * is then a sentence that names file, line and rank, and *rank_p the rank that
 * should print it. All ranks return the same. Returns -ENOMEM if memory runs
 * out.
 */
int mca_coll_mrail_topo_file_check(const mca_coll_mrail_topo_file_t *file,
                                   const mca_coll_mrail_rank_entry_t *entries,
                                   const uint32_t *world, unsigned num_ranks,
                                   unsigned *rank_p, char *why, size_t size);

#endif
