#include "config.h"
#include "mpi/coll/neighbors.h"

#include "ompi/constants.h"

#include <mpi.h>

#include <stdlib.h>
#include <string.h>

typedef mca_coll_mrail_neighbors_t neighbors_t;

static int allocate(neighbors_t *neighbors, int num_sources, int num_targets)
{
    neighbors->sources = calloc((size_t)num_sources + 1, sizeof(int));
    neighbors->targets = calloc((size_t)num_targets + 1, sizeof(int));
    neighbors->num_sources = num_sources;
    neighbors->num_targets = num_targets;
    return (neighbors->sources != NULL && neighbors->targets != NULL)
               ? OMPI_SUCCESS
               : MPI_ERR_NO_MEM;
}

/* ---- topologies ---- */

/* Two neighbours in each dimension: first the one in negative direction. */
static int find_cart(neighbors_t *neighbors, MPI_Comm comm)
{
    int dims = 0, ret = PMPI_Cartdim_get(comm, &dims);

    if (ret == MPI_SUCCESS) {
        ret = allocate(neighbors, 2 * dims, 2 * dims);
    }
    for (int i = 0; i < dims && ret == MPI_SUCCESS; ++i) {
        int *pair = &neighbors->sources[2 * i];

        ret = PMPI_Cart_shift(comm, i, 1, &pair[0], &pair[1]);
        memcpy(&neighbors->targets[2 * i], pair, 2 * sizeof(*pair));
    }
    return ret;
}

static int find_graph(neighbors_t *neighbors, MPI_Comm comm)
{
    int self = ompi_comm_rank(comm), num;
    int ret = PMPI_Graph_neighbors_count(comm, self, &num);

    if (ret == MPI_SUCCESS) {
        ret = allocate(neighbors, num, num);
    }
    if (ret == MPI_SUCCESS) {
        ret = PMPI_Graph_neighbors(comm, self, num, neighbors->sources);
        memcpy(neighbors->targets, neighbors->sources,
               (size_t)num * sizeof(int));
    }
    return ret;
}

/* The weights are not used. */
static int read_dist_graph(neighbors_t *neighbors, MPI_Comm comm)
{
    int sources = neighbors->num_sources, targets = neighbors->num_targets;
    int *weights = calloc((size_t)(sources + targets) + 1, sizeof(*weights));
    int ret;

    if (weights == NULL) {
        return MPI_ERR_NO_MEM;
    }
    ret = PMPI_Dist_graph_neighbors(comm, sources, neighbors->sources, weights,
                                    targets, neighbors->targets,
                                    weights + sources);
    free(weights);
    return ret;
}

static int find_dist_graph(neighbors_t *neighbors, MPI_Comm comm)
{
    int sources, targets, is_weighted;
    int ret =
        PMPI_Dist_graph_neighbors_count(comm, &sources, &targets, &is_weighted);

    if (ret == MPI_SUCCESS) {
        ret = allocate(neighbors, sources, targets);
    }
    return (ret == MPI_SUCCESS) ? read_dist_graph(neighbors, comm) : ret;
}

static int find(neighbors_t *neighbors, MPI_Comm comm)
{
    int topology, ret = PMPI_Topo_test(comm, &topology);

    if (ret != MPI_SUCCESS) {
        return ret;
    }
    switch (topology) {
    case MPI_CART:
        return find_cart(neighbors, comm);
    case MPI_GRAPH:
        return find_graph(neighbors, comm);
    case MPI_DIST_GRAPH:
        return find_dist_graph(neighbors, comm);
    default:
        return MPI_ERR_TOPOLOGY;
    }
}

/* ---- repeated peers ---- */

static int compare(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;

    return (x > y) - (x < y);
}

/* Sets *is_repeated_p to 1 if a rank is in the list more than once. */
static int find_repeated(const int *ranks, int num, int *is_repeated_p)
{
    int *sorted = calloc((size_t)num + 1, sizeof(*sorted));

    if (sorted == NULL) {
        return MPI_ERR_NO_MEM;
    }
    memcpy(sorted, ranks, (size_t)num * sizeof(*sorted));
    qsort(sorted, (size_t)num, sizeof(*sorted), compare);
    for (int i = 1; i < num; ++i) {
        if (sorted[i] == sorted[i - 1] && sorted[i] != MPI_PROC_NULL) {
            *is_repeated_p = 1;
        }
    }
    free(sorted);
    return OMPI_SUCCESS;
}

/* ---- neighbors of a communicator ---- */

int mca_coll_mrail_neighbors_find(mca_coll_mrail_neighbors_t *neighbors,
                                  struct ompi_communicator_t *comm)
{
    int ret;

    if (neighbors->is_known) {
        return OMPI_SUCCESS;
    }
    ret = find(neighbors, comm);
    if (ret == OMPI_SUCCESS) {
        ret = find_repeated(neighbors->sources, neighbors->num_sources,
                            &neighbors->has_repeated_peers);
    }
    if (ret == OMPI_SUCCESS) {
        ret = find_repeated(neighbors->targets, neighbors->num_targets,
                            &neighbors->has_repeated_peers);
    }
    if (ret != OMPI_SUCCESS) {
        mca_coll_mrail_neighbors_cleanup(neighbors);
        return ret;
    }
    neighbors->is_known = 1;
    return OMPI_SUCCESS;
}

void mca_coll_mrail_neighbors_cleanup(mca_coll_mrail_neighbors_t *neighbors)
{
    free(neighbors->sources);
    free(neighbors->targets);
    *neighbors = (mca_coll_mrail_neighbors_t){0};
}
