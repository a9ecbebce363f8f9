#include "config.h"
#include "mpi/coll/mrail_coll.h"

#include "mpi/coll/device.h"

#include "ompi/constants.h"

#include <stdio.h>
#include <stdlib.h>

void mca_coll_mrail_tell(const mca_coll_mrail_module_t *module,
                         struct ompi_communicator_t *comm,
                         const char *what, const char *why)
{
    if (ompi_comm_rank(comm) == 0) {
        fprintf(stderr, "mrail: coll: %s: %s%s%s\n", comm->c_name, what,
                (why != NULL) ? ": " : "", (why != NULL) ? why : "");
    }
}

/* ---- who serves a call ---------------------------------------------------- */

/* Beside Open MPI's errors, which are negative: the previous module's turn. */
#define PREVIOUS 1

/* A call begins.  OMPI_SUCCESS: all ranks are asked, and there is room for parts. */
static int enter(mca_coll_mrail_module_t *module,
                 struct ompi_communicator_t *comm, int is_large)
{
    int ret = OMPI_SUCCESS;

    if (module->away != NULL ||
        !mca_coll_mrail_mode_call(&module->mode, is_large)) {
        return PREVIOUS;
    }
    if (!module->is_set_up) {
        ret = mca_coll_mrail_setup(module, comm);
    }
    return (ret == OMPI_SUCCESS && module->away != NULL) ? PREVIOUS : ret;
}

static int is_large(const mca_coll_mrail_module_t *module, int rank, int size,
                    const int *counts, const ompi_datatype_t *type)
{
    size_t bytes;
    int largest = 0;

    for (int i = 0; i < size; ++i) {
        if (counts[i] > largest && i != rank) {
            largest = counts[i];
        }
    }
    ompi_datatype_type_size(type, &bytes);
    return (uint64_t)largest * bytes > module->relay_above;
}

/* MPI_IN_PLACE: what is sent is what lies in the receive buffer; a copy of it, for
 * it will be overwritten.  NULL: no memory. */
static char *copy_in_place(mca_coll_mrail_module_t *module, int size)
{
    uint64_t total = 0;
    char *copy;

    for (int i = 0; i < size; ++i) {
        total += module->recvs[i].bytes;
    }
    copy = malloc(total + 1);
    for (uint64_t at = 0, i = 0; copy != NULL && i < (unsigned)size; ++i) {
        uint64_t bytes = module->recvs[i].bytes;

        if (mca_coll_mrail_part_pack(&module->recvs[i], 0, copy + at, bytes)) {
            free(copy);
            return NULL;
        }
        mca_coll_mrail_part_init(&module->sends[i], copy + at, bytes,
                                 &ompi_mpi_byte.dt);
        at += bytes;
    }
    return copy;
}

/* Exchanges what was put into module->recvs, and into module->sends unless
 * is_in_place. */
static int serve(mca_coll_mrail_module_t *module,
                 struct ompi_communicator_t *comm, int is_in_place,
                 const void *sbuf, const void *rbuf)
{
    uint64_t flags = 0;
    char *copy = NULL;
    int planned = 0, ret;

    if (mca_coll_mrail_is_device(sbuf) || mca_coll_mrail_is_device(rbuf)) {
        flags |= MCA_COLL_MRAIL_CANNOT;
        is_in_place = 0;
    }

    if (is_in_place) {
        copy = copy_in_place(module, ompi_comm_size(comm));
        flags |= (copy == NULL) ? MCA_COLL_MRAIL_CANNOT : 0;
    }
    ret = mca_coll_mrail_ask(module, comm, flags, &planned);
    if (ret == OMPI_SUCCESS) {
        ret = planned ? mca_coll_mrail_exchange(module, comm) : PREVIOUS;
    }
    free(copy);
    return ret;
}

static int coll_alltoallv(const void *sbuf, const int *scounts,
                          const int *sdisps, struct ompi_datatype_t *sdtype,
                          void *rbuf, const int *rcounts, const int *rdisps,
                          struct ompi_datatype_t *rdtype,
                          struct ompi_communicator_t *comm,
                          mca_coll_base_module_t *base)
{
    mca_coll_mrail_module_t *module = (mca_coll_mrail_module_t *)base;
    int size = ompi_comm_size(comm), rank = ompi_comm_rank(comm);
    int is_in_place = sbuf == MPI_IN_PLACE, ret;
    ptrdiff_t sextent = 0, rextent;

    ret = enter(module, comm,
                module->away == NULL &&
                    is_large(module, rank, size,
                             is_in_place ? rcounts : scounts,
                             is_in_place ? rdtype : sdtype));
    if (ret != OMPI_SUCCESS) {
        goto out;
    }
    ompi_datatype_type_extent(rdtype, &rextent);
    if (!is_in_place) {
        ompi_datatype_type_extent(sdtype, &sextent);
    }
    for (int i = 0; i < size; ++i) {
        mca_coll_mrail_part_init(&module->recvs[i],
                                 (char *)rbuf + rdisps[i] * rextent,
                                 (size_t)rcounts[i], rdtype);
        if (!is_in_place) {
            mca_coll_mrail_part_init(&module->sends[i],
                                     (const char *)sbuf + sdisps[i] * sextent,
                                     (size_t)scounts[i], sdtype);
        }
    }
    ret = serve(module, comm, is_in_place, sbuf, rbuf);
out:
    return (ret != PREVIOUS)
               ? ret
               : module->alltoallv(sbuf, scounts, sdisps, sdtype, rbuf, rcounts,
                             rdisps, rdtype, comm, module->alltoallv_module);
}

static int coll_alltoall(const void *sbuf, int scount,
                         struct ompi_datatype_t *sdtype, void *rbuf,
                         int rcount, struct ompi_datatype_t *rdtype,
                         struct ompi_communicator_t *comm,
                         mca_coll_base_module_t *base)
{
    mca_coll_mrail_module_t *module = (mca_coll_mrail_module_t *)base;
    int is_in_place = sbuf == MPI_IN_PLACE, ret;
    ptrdiff_t sextent = 0, rextent;
    size_t bytes = 0;

    if (module->away == NULL) {
        ompi_datatype_type_size(rdtype, &bytes);
    }
    ret = enter(module, comm, bytes * (size_t)rcount > module->relay_above);
    if (ret != OMPI_SUCCESS) {
        goto out;
    }
    ompi_datatype_type_extent(rdtype, &rextent);
    if (!is_in_place) {
        ompi_datatype_type_extent(sdtype, &sextent);
    }
    for (int i = 0; i < ompi_comm_size(comm); ++i) {
        mca_coll_mrail_part_init(&module->recvs[i],
                                 (char *)rbuf + i * rextent * rcount,
                                 (size_t)rcount, rdtype);
        if (!is_in_place) {
            mca_coll_mrail_part_init(&module->sends[i],
                                     (const char *)sbuf + i * sextent * scount,
                                     (size_t)scount, sdtype);
        }
    }
    ret = serve(module, comm, is_in_place, sbuf, rbuf);
out:
    return (ret != PREVIOUS)
               ? ret
               : module->alltoall(sbuf, scount, sdtype, rbuf, rcount, rdtype, comm,
                            module->alltoall_module);
}

static int is_large_w(const mca_coll_mrail_module_t *module, int rank, int size,
                      const int *counts,
                      struct ompi_datatype_t *const *types)
{
    for (int i = 0; i < size; ++i) {
        size_t bytes;

        if (counts[i] == 0 || i == rank) {
            continue; /* its type may be no type at all */
        }
        ompi_datatype_type_size(types[i], &bytes);
        if ((uint64_t)counts[i] * bytes > module->relay_above) {
            return 1;
        }
    }
    return 0;
}

static void part_init_w(mca_coll_mrail_part_t *part, const void *buffer,
                        int disp, int count, struct ompi_datatype_t *type)
{
    mca_coll_mrail_part_init(part, (const char *)buffer + disp, (size_t)count,
                             (count == 0) ? &ompi_mpi_byte.dt : type);
}

static int coll_alltoallw(const void *sbuf, const int *scounts,
                          const int *sdisps,
                          struct ompi_datatype_t *const *sdtypes, void *rbuf,
                          const int *rcounts, const int *rdisps,
                          struct ompi_datatype_t *const *rdtypes,
                          struct ompi_communicator_t *comm,
                          mca_coll_base_module_t *base)
{
    mca_coll_mrail_module_t *module = (mca_coll_mrail_module_t *)base;
    int size = ompi_comm_size(comm), rank = ompi_comm_rank(comm);
    int is_in_place = sbuf == MPI_IN_PLACE, ret;

    ret = enter(module, comm,
                module->away == NULL &&
                    is_large_w(module, rank, size,
                               is_in_place ? rcounts : scounts,
                               is_in_place ? rdtypes : sdtypes));
    if (ret != OMPI_SUCCESS) {
        goto out;
    }
    for (int i = 0; i < size; ++i) {
        part_init_w(&module->recvs[i], rbuf, rdisps[i], rcounts[i], rdtypes[i]);
        if (!is_in_place) {
            part_init_w(&module->sends[i], sbuf, sdisps[i], scounts[i],
                        sdtypes[i]);
        }
    }
    ret = serve(module, comm, is_in_place, sbuf, rbuf);
out:
    return (ret != PREVIOUS)
               ? ret
               : module->alltoallw(sbuf, scounts, sdisps, sdtypes, rbuf, rcounts,
                             rdisps, rdtypes, comm, module->alltoallw_module);
}

/* ---- one per communicator -------------------------------------------------- */

/* Before Open MPI puts this module's functions in, those of the communicator are the
 * previous ones'. */
#define SAVE(name)                                                            \
    do {                                                                      \
        module->name = comm->c_coll->coll_##name;                             \
        module->name##_module = comm->c_coll->coll_##name##_module;           \
        if (module->name == NULL) {                                           \
            return OMPI_ERROR;                                                \
        }                                                                     \
        OBJ_RETAIN(module->name##_module);                                    \
    } while (0)

static int coll_enable(mca_coll_base_module_t *base,
                       struct ompi_communicator_t *comm)
{
    mca_coll_mrail_module_t *module = (mca_coll_mrail_module_t *)base;

    SAVE(alltoall);
    SAVE(alltoallv);
    SAVE(alltoallw);
    return OMPI_SUCCESS;
}

mca_coll_base_module_t *
mca_coll_mrail_comm_query(struct ompi_communicator_t *comm, int *priority)
{
    mca_coll_mrail_module_t *module;

    if (OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 3) {
        return NULL; /* two ranks have nobody to relay for them */
    }
    module = OBJ_NEW(mca_coll_mrail_module_t);
    if (module == NULL) {
        return NULL;
    }
    *priority = mca_coll_mrail_settings.priority;
    module->super.coll_module_enable = coll_enable;
    module->super.coll_alltoall = coll_alltoall;
    module->super.coll_alltoallv = coll_alltoallv;
    module->super.coll_alltoallw = coll_alltoallw;
    return &module->super;
}

static void module_construct(mca_coll_mrail_module_t *module)
{
    size_t skip = sizeof(module->super);

    memset((char *)module + skip, 0, sizeof(*module) - skip);
    module->relay_above = mca_coll_mrail_settings.relay_above;
}

static void release(mca_coll_base_module_t *module)
{
    if (module != NULL) {
        OBJ_RELEASE(module);
    }
}

static void module_destruct(mca_coll_mrail_module_t *module)
{
    mca_coll_mrail_setup_cleanup(module);
    release(module->alltoall_module);
    release(module->alltoallv_module);
    release(module->alltoallw_module);
}

OBJ_CLASS_INSTANCE(mca_coll_mrail_module_t, mca_coll_base_module_t,
                   module_construct, module_destruct);
