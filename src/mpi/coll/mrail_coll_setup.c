#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "base/util.h"

#include "ompi/constants.h"

#include <errno.h>
#include <stdlib.h>

static int allgather(const void *mine, void *all, size_t bytes,
                     struct ompi_communicator_t *comm)
{
    return comm->c_coll->coll_allgather(
        mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, comm,
        comm->c_coll->coll_allgather_module);
}

static void step_aside(mca_coll_mrail_module_t *module,
                       struct ompi_communicator_t *comm, const char *why)
{
    module->away = why;
    if (mca_coll_mrail_settings.verbose > 0) {
        mca_coll_mrail_tell(module, comm, "left to Open MPI", why);
    }
    mca_coll_mrail_setup_cleanup(module);
}

static int allocate(mca_coll_mrail_module_t *module, unsigned ranks)
{
    /* A straight piece over each rail, both ways. */
    size_t requests = 2 * (size_t)ranks * MRAIL_PLAN_MAX_PIECES;

    module->words = calloc(
        ranks * mca_coll_mrail_words_per_rank(module->world), sizeof(uint64_t));
    module->sends = calloc(ranks, sizeof(*module->sends));
    module->recvs = calloc(ranks, sizeof(*module->recvs));
    module->requests = calloc(requests, sizeof(*module->requests));
    if (module->words == NULL || module->sends == NULL ||
        module->recvs == NULL || module->requests == NULL) {
        return -ENOMEM;
    }
    return mca_coll_mrail_slices_create(module->world, &module->slices);
}

static void tell_about_me(mca_coll_mrail_member_t *member)
{
    const mca_coll_mrail_settings_t *settings = &mca_coll_mrail_settings;
    uct_mrail_rail_t rails[UCT_MRAIL_MAX_RAILS];

    mca_coll_mrail_member_fill(member, rails, mca_coll_mrail_rails(rails));
    member->version = mca_coll_mrail_slices_version();
    member->params =
        (mca_coll_mrail_params_t){.relay_above = settings->relay_above,
                                  .chunk = settings->chunk,
                                  .slots = settings->slots,
                                  .memory = settings->memory,
                                  .copy_rate = settings->copy_rate,
                                  .cross = settings->cross};
}

/* All ranks go the same way: 1 here is 1 everywhere, but memory may lack at one. */
static int all_are_fine(struct ompi_communicator_t *comm, int is_fine,
                        int *result_p)
{
    int ret = comm->c_coll->coll_allreduce(&is_fine, result_p, 1, MPI_INT,
                                           MPI_MIN, comm,
                                           comm->c_coll->coll_allreduce_module);

    return ret;
}

int mca_coll_mrail_setup(mca_coll_mrail_module_t *module,
                         struct ompi_communicator_t *comm)
{
    unsigned ranks = (unsigned)ompi_comm_size(comm);
    mca_coll_mrail_member_t me = {0};
    mca_coll_mrail_member_t *members = calloc(ranks, sizeof(*members));
    const char *why = NULL;
    int ret, is_fine;

    if (members == NULL) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    tell_about_me(&me);
    ret = allgather(&me, members, sizeof(me), comm);
    if (ret != OMPI_SUCCESS) {
        free(members);
        return ret;
    }
    module->is_set_up = 1;
    ret = mca_coll_mrail_world_create(members, ranks,
                                      (unsigned)ompi_comm_rank(comm),
                                      &module->world, &why);
    free(members);
    if (ret == 1) {
        step_aside(module, comm, why);
        return OMPI_SUCCESS;
    }
    if (ret == 0) {
        module->relay_above = module->world->params.relay_above;
        ret = allocate(module, ranks);
    }
    ret = all_are_fine(comm, ret == 0, &is_fine);
    if (ret == OMPI_SUCCESS && !is_fine) {
        step_aside(module, comm, "a rank has no memory");
    }
    return ret;
}

/* ---- the node's memory ----------------------------------------------------- */

/* As large as the settings allow; every rank can receive from all ranks of other
 * nodes at once (relay.h). */
static int shape_of(const mca_coll_mrail_world_t *world, unsigned num_local,
                    mrail_relay_shape_t *shape)
{
    const mca_coll_mrail_params_t *params = &world->params;
    uint64_t slots = MRAIL_MAX(1, MRAIL_MIN(params->slots, 512));
    uint64_t remote = world->num_ranks - 1;
    uint64_t in = MRAIL_MAX(2 * slots, remote);
    uint64_t chunk = MRAIL_MIN(params->chunk, params->memory / (slots + in));

    chunk = MRAIL_MIN(chunk, MRAIL_RELAY_MAX_CHUNK) & ~(uint64_t)4095;
    *shape = (mrail_relay_shape_t){.num_local = num_local,
                                   .out_slots = (unsigned)slots,
                                   .in_slots = (unsigned)in,
                                   .chunk = chunk};
    return chunk > 0 && in <= MRAIL_RELAY_MAX_SLOTS &&
           num_local <= MRAIL_RELAY_MAX_LOCAL;
}

/* Does the first rank of each node; names[rank] of it is what the others attach. */
static int share(mca_coll_mrail_module_t *module,
                 struct ompi_communicator_t *comm,
                 const mrail_relay_shape_t *shape, int *is_fine_p)
{
    const mca_coll_mrail_world_t *world = module->world;
    char mine[MRAIL_RELAY_NAME_SIZE] = "", *names;
    uint32_t first = world->local[0];
    int ret, is_mapped = 0;

    names = calloc(world->num_ranks, sizeof(mine));
    if (world->self == first) {
        is_mapped = mrail_relay_arena_create(shape, mine, &module->arena) == 0;
    }
    ret = (names != NULL) ? allgather(mine, names, sizeof(mine), comm)
                          : OMPI_ERR_OUT_OF_RESOURCE;
    if (ret == OMPI_SUCCESS && world->self != first) {
        const char *name = names + first * sizeof(mine);

        is_mapped = name[0] != '\0' &&
                    mrail_relay_arena_attach(shape, name, &module->arena) == 0;
    }
    module->has_arena = is_mapped;
    if (ret == OMPI_SUCCESS) {
        ret = all_are_fine(comm, is_mapped, is_fine_p);
    }
    if (mine[0] != '\0') {
        mrail_relay_arena_unlink(mine);
    }
    free(names);
    return ret;
}

int mca_coll_mrail_setup_relay(mca_coll_mrail_module_t *module,
                               struct ompi_communicator_t *comm)
{
    const mca_coll_mrail_world_t *world = module->world;
    mca_coll_mrail_port_t *port;
    mrail_relay_shape_t shape;
    int ret, is_fine;

    if (!shape_of(world, world->max_local, &shape)) {
        step_aside(module, comm,
                   "coll_mrail_memory is too little for relays among so many "
                   "ranks");
        return OMPI_SUCCESS;
    }
    (void)shape_of(world, world->num_local, &shape);
    ret = share(module, comm, &shape, &is_fine);
    if (ret != OMPI_SUCCESS) {
        return ret;
    }
    if (!is_fine) {
        step_aside(module, comm,
                   "the ranks of a node cannot share memory (is /dev/shm full, "
                   "or another one in each container?)");
        return OMPI_SUCCESS;
    }
    ret = -ENOMEM;
    port = malloc(sizeof(*port));
    if (port != NULL) {
        *port = (mca_coll_mrail_port_t){.module = module, .comm = comm};
        module->port = port;
        ret = mrail_relay_create(&module->arena, world->num_ranks, world->local,
                                 world->self, &mca_coll_mrail_relay_ops, port,
                                 &module->relay);
    }
    ret = all_are_fine(comm, ret == 0, &is_fine);
    if (ret == OMPI_SUCCESS && !is_fine) {
        step_aside(module, comm, "a rank has no memory");
    }
    return ret;
}

void mca_coll_mrail_setup_cleanup(mca_coll_mrail_module_t *module)
{
    mrail_relay_destroy(module->relay);
    module->relay = NULL;
    if (module->has_arena) {
        mrail_relay_arena_detach(&module->arena);
        module->has_arena = 0;
    }
    mca_coll_mrail_slices_destroy(module->slices);
    module->slices = NULL;
    mca_coll_mrail_world_destroy(module->world);
    module->world = NULL;
    free(module->port);
    free(module->words);
    free(module->sends);
    free(module->recvs);
    free(module->requests);
    module->port = NULL;
    module->words = NULL;
    module->sends = module->recvs = NULL;
    module->requests = NULL;
}
