/* Generates, starts and checks one exchange. */
#include "config.h"
#include "planned.h"

#include "mpi_test.h"
#include "persistent.h"

#include <string.h>

/* Open MPI 4.1.4's own exchanges copy a rank's message to itself between two
 * types in pieces of 64 KB, and lose bytes at the boundaries. */
enum { MOST_SELF = 50000, MOST_BYTES = 12000000 };

/* Open MPI 4.1.4's own nonblocking exchanges use no tag on a rank without
 * bytes. The next exchange on that communicator then hangs. */
static void give_work(uint64_t *bytes, int size, int rank)
{
    int next = (rank + 1) % size;

    bytes[rank * size + next] = MRAIL_MAX(bytes[rank * size + next], 1);
}

void planned_exchange_init(planned_exchange_t *ex, mrail_rng_t *rng,
                           MPI_Comm comm, int nonblocking, int large_self)
{
    static const planned_call_t calls[] = {PLANNED_ALLTOALLV, PLANNED_ALLTOALLV,
                                           PLANNED_ALLTOALLV, PLANNED_ALLTOALL,
                                           PLANNED_ALLTOALL,  PLANNED_ALLTOALLW,
                                           PLANNED_ALLTOALLW};
    static const unsigned all_units[] = {1, 1, 12, 12, 12, 960, 960};
    static const planned_place_t places[] = {
        [PLANNED_ALLTOALLV] = PLANNED_ITEMS,
        [PLANNED_ALLTOALL] = PLANNED_BLOCKS,
        [PLANNED_ALLTOALLW] = PLANNED_BYTES};
    int rank = mt_rank(comm), size = mt_size(comm);
    uint64_t *bytes = mt_alloc(sizeof(*bytes) * (size_t)(size * size));
    long *units = mt_alloc(sizeof(*units) * (size_t)(2 * size));
    planned_base_t base = mrail_rng_below(rng, PLANNED_NUM_BASES);
    unsigned unit = all_units[mrail_rng_below(rng, 7)];
    uint64_t unit_bytes = unit * (uint64_t)planned_type_base_size(base);
    mrail_rng_t own;

    *ex = (planned_exchange_t){.comm = comm, .request = MPI_REQUEST_NULL};
    ex->call = calls[mrail_rng_below(rng, 7)];
    if (size == 1 && ex->call == PLANNED_ALLTOALLW) {
        /* coll/self of Open MPI 4.1.4 interprets displacements as numbers of
         * items. */
        ex->call = PLANNED_ALLTOALLV;
    }
    ex->in_place = mrail_rng_hit(rng, 200000);
    ex->nonblocking = mrail_rng_hit(rng, 300000) || nonblocking;
    if (ex->nonblocking) {
        /* Open MPI 4.1.4's own in-place exchanges lose data. */
        ex->in_place = 0;
    }
#ifdef MT_HAS_PERSISTENT
    ex->persistent = ex->nonblocking && mrail_rng_hit(rng, 400000);
#endif
    planned_demand_draw(rng, size, ex->in_place, ex->call == PLANNED_ALLTOALL,
                        MOST_BYTES, bytes);
    for (int i = 0; i < size && ex->nonblocking; ++i) {
        give_work(bytes, size, i);
    }
    for (int i = 0; i < size; ++i) {
        if (large_self || ex->call == PLANNED_ALLTOALL) {
            break; /* the messages of alltoall are always small */
        }
        bytes[i * size + i] = MRAIL_MIN(bytes[i * size + i], MOST_SELF);
    }
    mrail_rng_init(&own, mrail_rng_next(rng) + (uint64_t)rank);
    for (int i = 0; i < size; ++i) {
        units[i] = (long)MRAIL_DIV_ROUND_UP(bytes[rank * size + i], unit_bytes);
        units[size + i] =
            (long)MRAIL_DIV_ROUND_UP(bytes[i * size + rank], unit_bytes);
    }
    if (!ex->in_place) {
        planned_side_init(&ex->send, &own, size, places[ex->call], base, unit,
                          units);
    }
    planned_side_init(&ex->recv, &own, size, places[ex->call], base, unit,
                      units + size);
    free(bytes);
    free(units);
}

void planned_exchange_cleanup(planned_exchange_t *ex)
{
    if (ex->request != MPI_REQUEST_NULL) {
        MPI_Request_free(&ex->request);
    }
    if (!ex->in_place) {
        planned_side_cleanup(&ex->send);
    }
    planned_side_cleanup(&ex->recv);
}

static void place(planned_side_t *side, mrail_rng_t *rng, planned_where_t where)
{
    if (where == PLANNED_MANAGED) {
        planned_side_use_device(side, MRAIL_BENCH_MANAGED);
    } else if (where == PLANNED_DEVICE ||
               (where == PLANNED_MIXED && mrail_rng_hit(rng, 500000))) {
        planned_side_use_device(side, MRAIL_BENCH_DEVICE);
    }
}

void planned_exchange_place(planned_exchange_t *ex, mrail_rng_t *rng,
                            planned_where_t where)
{
    /* Open MPI's persistent exchanges do not move device memory. */
    ex->persistent &= where == PLANNED_HOST;
    place(&ex->recv, rng, where);
    if (!ex->in_place) {
        place(&ex->send, rng, where);
    }
}

void planned_exchange_fill(planned_exchange_t *ex, uint64_t message)
{
    int rank = mt_rank(ex->comm);

    planned_side_clear(&ex->recv);
    if (!ex->in_place) {
        planned_side_clear(&ex->send);
    }
    for (int i = 0; i < ex->recv.num; ++i) {
        planned_side_put(ex->in_place ? &ex->recv : &ex->send, i,
                         mt_seed(rank, i, message), 1);
    }
    for (int i = 0; i < ex->recv.num; ++i) {
        planned_side_put(&ex->recv, i, mt_seed(i, rank, message), 0);
    }
}

static void start_blocking(planned_exchange_t *ex, const void *from,
                           const int *counts, const int *displs,
                           const MPI_Datatype *types)
{
    const planned_side_t *recv = &ex->recv;

    switch (ex->call) {
    case PLANNED_ALLTOALL:
        MPI_Alltoall(from, counts[0], types[0], planned_side_buffer(recv),
                     recv->counts[0], recv->mpi_types[0], ex->comm);
        break;
    case PLANNED_ALLTOALLW:
        MPI_Alltoallw(from, counts, displs, types, planned_side_buffer(recv),
                      recv->counts, recv->displs, recv->mpi_types, ex->comm);
        break;
    default:
        MPI_Alltoallv(from, counts, displs, types[0], planned_side_buffer(recv),
                      recv->counts, recv->displs, recv->mpi_types[0], ex->comm);
    }
}

static void start_nonblocking(planned_exchange_t *ex, const void *from,
                              const int *counts, const int *displs,
                              const MPI_Datatype *types)
{
    const planned_side_t *recv = &ex->recv;

    switch (ex->call) {
    case PLANNED_ALLTOALL:
        MPI_Ialltoall(from, counts[0], types[0], planned_side_buffer(recv),
                      recv->counts[0], recv->mpi_types[0], ex->comm,
                      &ex->request);
        break;
    case PLANNED_ALLTOALLW:
        MPI_Ialltoallw(from, counts, displs, types, planned_side_buffer(recv),
                       recv->counts, recv->displs, recv->mpi_types, ex->comm,
                       &ex->request);
        break;
    default:
        MPI_Ialltoallv(from, counts, displs, types[0],
                       planned_side_buffer(recv), recv->counts, recv->displs,
                       recv->mpi_types[0], ex->comm, &ex->request);
    }
}

#ifdef MT_HAS_PERSISTENT
static void start_persistent(planned_exchange_t *ex, const void *from,
                             const int *counts, const int *displs,
                             const MPI_Datatype *types)
{
    const planned_side_t *recv = &ex->recv;

    if (ex->request != MPI_REQUEST_NULL) {
        MPI_Start(&ex->request);
        return;
    }
    switch (ex->call) {
    case PLANNED_ALLTOALL:
        MPI_Alltoall_init(from, counts[0], types[0], planned_side_buffer(recv),
                          recv->counts[0], recv->mpi_types[0], ex->comm,
                          MPI_INFO_NULL, &ex->request);
        break;
    case PLANNED_ALLTOALLW:
        MPI_Alltoallw_init(from, counts, displs, types,
                           planned_side_buffer(recv), recv->counts,
                           recv->displs, recv->mpi_types, ex->comm,
                           MPI_INFO_NULL, &ex->request);
        break;
    default:
        MPI_Alltoallv_init(from, counts, displs, types[0],
                           planned_side_buffer(recv), recv->counts,
                           recv->displs, recv->mpi_types[0], ex->comm,
                           MPI_INFO_NULL, &ex->request);
    }
    MPI_Start(&ex->request);
}
#endif

static void start(planned_exchange_t *ex, const void *from,
                  const planned_side_t *send)
{
#ifdef MT_HAS_PERSISTENT
    if (ex->persistent) {
        start_persistent(ex, from, send->counts, send->displs, send->mpi_types);
        return;
    }
#endif
    (ex->nonblocking ? start_nonblocking : start_blocking)(
        ex, from, send->counts, send->displs, send->mpi_types);
}

void planned_exchange_start(planned_exchange_t *ex)
{
    const planned_side_t *send = ex->in_place ? &ex->recv : &ex->send;

    planned_side_upload(&ex->recv);
    planned_side_upload(send);
    start(ex, ex->in_place ? MPI_IN_PLACE : planned_side_buffer(send), send);
}

void planned_exchange_end(planned_exchange_t *ex)
{
    planned_side_download(&ex->recv);
    if (!ex->in_place) {
        planned_side_download(&ex->send);
    }
}

int planned_exchange_break(planned_exchange_t *ex, const char *where)
{
    planned_side_t *side = &ex->recv;
    long at = -1;

    if (strcmp(where, "gap") == 0) {
        at = planned_side_gap_at(side);
    } else if (strcmp(where, "send") == 0) {
        side = &ex->send;
        at = ex->in_place ? -1 : planned_side_data_at(side, 0);
    } else {
        for (int i = 0; at < 0 && i < side->num; ++i) {
            at = planned_side_data_at(side, i);
        }
    }
    if (at >= 0) {
        side->memory[at] ^= 1;
    }
    return at >= 0;
}

int planned_exchange_check(planned_exchange_t *ex)
{
    static const char *const names[] = {"alltoallv", "alltoall", "alltoallw"};
    const char *form = ex->persistent    ? "persistent "
                       : ex->nonblocking ? "i"
                                         : "";
    char what[64];
    int ok = 1;

    snprintf(what, sizeof(what), "%s%s%s, received", form, names[ex->call],
             ex->in_place ? " in place" : "");
    ok &= planned_side_check(&ex->recv, what);
    snprintf(what, sizeof(what), "%s%s, sent", form, names[ex->call]);
    if (!ex->in_place) {
        ok &= planned_side_check(&ex->send, what);
    }
    return ok;
}

uint64_t planned_exchange_bytes(const planned_exchange_t *ex)
{
    const planned_side_t *side = ex->in_place ? &ex->recv : &ex->send;
    uint64_t sum = 0;

    for (int i = 0; i < side->num; ++i) {
        if (i != mt_rank(ex->comm)) {
            sum += (uint64_t)side->counts[i] *
                   (uint64_t)side->types[side->each ? i : 0].size;
        }
    }
    return sum;
}
