/* The part of direct.h that concerns the whole process: the functions of the
 * transport, and the endpoints. */
#include "config.h"
#include "mpi/coll/direct.h"

#include "base/grow.h"
#include "base/util.h"

#include "ompi/group/group.h"
#include "opal/util/proc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const uct_mrail_direct_ops_t *ops; /* NULL if not available */
static int is_threaded;

/* Endpoints by rank in MPI_COMM_WORLD; NULL if not created yet. */
static uct_mrail_direct_ep_t **eps;
static size_t num_eps;
static pthread_mutex_t eps_lock = PTHREAD_MUTEX_INITIALIZER;

void mca_coll_mrail_direct_find(void *transport)
{
    uct_mrail_direct_func_t func;

    *(void **)&func = dlsym(transport, "uct_mrail_direct");
    ops = (func != NULL) ? func() : NULL;
    if (ops != NULL && (ops->struct_size != sizeof(*ops) ||
                        ops->get_size != sizeof(uct_mrail_direct_get_t))) {
        ops = NULL; /* the transport has another version */
    }
}

void mca_coll_mrail_direct_init(int threaded)
{
    is_threaded = threaded;
}

void mca_coll_mrail_direct_entry_fill(mca_coll_mrail_rank_entry_t *entry)
{
    entry->address_length = 0;
    memset(&entry->lanes, 0, sizeof(entry->lanes));
    if (ops != NULL) {
        entry->address_length = ops->address(entry->address);
        ops->lanes(&entry->lanes);
    }
}

void mca_coll_mrail_direct_close(void)
{
    if (ops != NULL) {
        ops->close();
    }
    free(eps);
    eps = NULL;
    num_eps = 0;
}

/* Passes the uplinks between this process and a rank, as the topology file
 * lists them, to the transport. If the transport cannot store them, its lanes
 * carry equal parts. */
static void announce_uplinks(const mca_coll_mrail_topology_t *topology,
                             uint32_t rank, uct_mrail_direct_ep_t *ep)
{
    double paths[MRAIL_PLAN_MAX_UPLINKS];

    for (unsigned rail = 0; rail < topology->num_rails; ++rail) {
        int own = mca_coll_mrail_topology_own_rail(topology, rail);
        unsigned count = 0;

        if (own >= 0 &&
            mca_coll_mrail_topology_place(topology, rank, rail) >= 0) {
            count = mca_coll_mrail_topology_uplinks(
                topology, rank, topology->self, rail, paths);
        }
        if (count > 0) {
            (void)ops->ep_set_uplinks(ep, (unsigned)own, paths, count);
        }
    }
}

/* Finds or creates the endpoint. The caller holds eps_lock. */
static uct_mrail_direct_ep_t *find_ep(const mca_coll_mrail_module_t *module,
                                      uint32_t rank, size_t number)
{
    const mca_coll_mrail_rank_entry_t *entry;

    if (number >= num_eps) {
        size_t size = MRAIL_MAX(number + 1, 2 * num_eps);

        if (!mrail_grow(&eps, size, sizeof(*eps))) {
            return NULL;
        }
        memset(eps + num_eps, 0, (size - num_eps) * sizeof(*eps));
        num_eps = size;
    }
    if (eps[number] == NULL) {
        entry = mca_coll_mrail_modex_entry(module->comm, (int)rank);
        if (entry == NULL || ops->open(is_threaded) < 0 ||
            ops->ep_create(entry->address, entry->address_length,
                           &eps[number]) < 0) {
            return NULL;
        }
        announce_uplinks(module->topology, rank, eps[number]);
    }
    return eps[number];
}

const uct_mrail_direct_ops_t *mca_coll_mrail_direct_ops(void)
{
    return ops;
}

uct_mrail_direct_ep_t *
mca_coll_mrail_direct_ep(const mca_coll_mrail_module_t *module, uint32_t rank)
{
    opal_process_name_t name =
        ompi_group_get_proc_name(module->comm->c_local_group, (int)rank);
    uct_mrail_direct_ep_t *ep;

    pthread_mutex_lock(&eps_lock);
    ep = find_ep(module, rank, name.vpid);
    pthread_mutex_unlock(&eps_lock);
    return ep;
}
