#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "ompi/constants.h"

#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mca_coll_mrail_log(const mca_coll_mrail_module_t *module, const char *what,
                        const char *reason)
{
    if (ompi_comm_rank(module->comm) == 0) {
        fprintf(stderr, "mrail: coll: %s: %s: %s\n", module->comm->c_name, what,
                reason);
    }
}

void mca_coll_mrail_log_away(mca_coll_mrail_module_t *module)
{
    if (mca_coll_mrail_settings.verbose == 0 || module->is_logged ||
        module->away == NULL) {
        return;
    }
    module->is_logged = 1;
    mca_coll_mrail_log(module,
                       (module->inflight_bytes > 0)
                           ? "MPI_Alltoallv without a plan, all else left to "
                             "Open MPI"
                           : "left to Open MPI",
                       module->away);
}

int mca_coll_mrail_comm_info(const struct ompi_communicator_t *comm,
                             const char *key, int default_value)
{
    opal_info_t *info = comm->super.s_info;
    bool value = default_value;
    int is_found = 0;

    if (info != NULL) {
        /* Open MPI 4.1 has no const parameter */
        (void)opal_info_get_bool(info, (char *)(uintptr_t)key, &value,
                                 &is_found);
    }
    return is_found ? value : default_value;
}

/* ---- module of a communicator ---- */

static int coll_enable(mca_coll_base_module_t *base,
                       struct ompi_communicator_t *comm)
{
    mca_coll_mrail_module_t *module = (mca_coll_mrail_module_t *)base;

    mca_coll_mrail_functions_enable(module, comm);
    module->comm = comm;
    if (module->agreed_away == NULL) {
        mca_coll_mrail_tags_reserve(module);
    }
    return OMPI_SUCCESS;
}

mca_coll_base_module_t *
mca_coll_mrail_comm_query(struct ompi_communicator_t *comm, int *priority)
{
    mca_coll_mrail_module_t *module;

    if (OMPI_COMM_IS_INTER(comm)) {
        return NULL;
    }
    module = OBJ_NEW(mca_coll_mrail_module_t);
    if (module == NULL || mca_coll_mrail_setup_topology(module, comm) < 0) {
        /* If this rank returned an error, Open MPI would use another component
         * on this rank only, and the other ranks would wait indefinitely. */
        fprintf(stderr,
                "mrail: coll: rank %d ran out of memory while setting up a "
                "communicator; aborting the job\n",
                ompi_comm_rank(comm));
        PMPI_Abort(MPI_COMM_WORLD, 1);
        return NULL;
    }
    *priority = mca_coll_mrail_settings.priority;
    module->super.coll_module_enable = coll_enable;
    return &module->super;
}

static void module_construct(mca_coll_mrail_module_t *module)
{
    size_t skip = sizeof(module->super);

    memset((char *)module + skip, 0, sizeof(*module) - skip);
    mrail_relay_memory_init(&module->host_memory, &mrail_relay_host_memory_ops);
    module->host_pool = (mca_coll_mrail_pool_t){.memory = &module->host_memory};
    module->gpu = -1;
    mrail_list_init(&module->ops);
    mrail_list_init(&module->posted);
    mrail_list_init(&module->active);
}

static void module_destruct(mca_coll_mrail_module_t *module)
{
    mca_coll_mrail_ops_free(module);
    mca_coll_mrail_export_free(module);
    if (module->spare != NULL) {
        OBJ_RELEASE(module->spare);
    }
    mca_coll_mrail_setup_cleanup(module);
    free(module->requests);
    mca_coll_mrail_neighbors_cleanup(&module->neighbors);
    mca_coll_mrail_functions_cleanup(module);
}

OBJ_CLASS_INSTANCE(mca_coll_mrail_module_t, mca_coll_base_module_t,
                   module_construct, module_destruct);
