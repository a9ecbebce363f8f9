/*
 * On one rank, coll/mrail fails to allocate private memory, the node's shared
 * memory, or a plan. Normally, all ranks learn of the failure, no rank uses a
 * plan or relays, and every byte takes the direct path. Otherwise, MPI reports
 * an out-of-memory error on that rank.
 *
 *   LD_PRELOAD=libtest-scarce.so mpi_scarce RANK FIRST [CALLS]
 *
 * CALLS is alltoallv (default) or other: persistent, neighbourhood and gathering
 * exchanges.
 *
 * For n = FIRST, FIRST + 1, ..., the program runs exchanges on a new
 * communicator in which the rank's n-th allocation request fails. It stops when
 * the rank makes fewer than n requests. An MPI error ends the job after a line
 * that states n.
 */
#include "config.h"
#include "mpi_test.h"

#include "persistent.h"
#include "scarce_shim.h"
#include "tools/bench_coll.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { HANGS_S = 60, BYTES = 200000, MAX_REQUESTS = 2000 };

static int (*arm)(unsigned n);
static unsigned (*disarm)(void);
static int rank, size;
static mrail_bench_coll_t coll;

typedef enum how {
    PLAIN,
    IN_PLACE,
    LATER,
    STARTED,   /* a persistent request, started twice */
    NEIGHBORS, /* MPI_Neighbor_alltoallv; all ranks are neighbours */
    GATHER     /* MPI_Allgatherv */
} how_t;

typedef struct call {
    how_t how;
    /* The rank to which each rank sends half of its bytes. If -1, rank r sends
     * half of its bytes to rank r + P/2. */
    int hot;
} call_t;

#define NUM_CALLS 5
static const call_t alltoallv_calls[NUM_CALLS] = {
    {PLAIN, 0}, {PLAIN, 0}, {PLAIN, 1}, {IN_PLACE, -1}, {LATER, 2}};
static const call_t other_calls[NUM_CALLS] = {
    {NEIGHBORS, 0}, {GATHER, 0}, {STARTED, 0}, {GATHER, 1}, {NEIGHBORS, 1}};
static const call_t *calls = alltoallv_calls;

static int bytes_of(const call_t *call, int from, int to)
{
    int hot = call->hot;

    if (call->how == GATHER) {
        return (from == hot) ? BYTES / 2 : BYTES / 100;
    }
    if (hot < 0 || from == hot % size) {
        hot = from + size / 2;
    }
    return (from != to && to == hot % size) ? BYTES / 2
                                            : BYTES / 2 / (size - 1);
}

/* All ranks receive the same message if they gather. */
static uint64_t seed_of(how_t how, int from, int to)
{
    return mt_seed(from, (how == GATHER) ? 0 : to, (uint64_t)how);
}

typedef struct side {
    int *counts, *displs;
    char *buffer;
} side_t;

/* Allocates one side of the call. If `is_out` is set, fills it with the data
 * that this rank sends. */
static void side_init(side_t *side, const call_t *call, int is_out)
{
    int total = 0;

    side->counts = mt_alloc(sizeof(int) * 2 * (size_t)size);
    side->displs = side->counts + size;
    for (int i = 0; i < size; ++i) {
        side->counts[i] =
            is_out ? bytes_of(call, rank, i) : bytes_of(call, i, rank);
        side->displs[i] = total;
        total += side->counts[i];
    }
    side->buffer = mt_alloc((size_t)total);
    for (int i = 0; i < size; ++i) {
        mt_fill(side->buffer + side->displs[i], (size_t)side->counts[i],
                seed_of(call->how, rank, i));
    }
}

static void side_cleanup(side_t *side)
{
    free(side->counts);
    free(side->buffer);
}

/* Completes a request. */
static int complete(int ret, MPI_Request *request)
{
    return (ret == MPI_SUCCESS) ? MPI_Wait(request, MPI_STATUS_IGNORE) : ret;
}

/* Creates a persistent request and starts it twice. */
static int exchange_started(MPI_Comm comm, const side_t *out, const side_t *in)
{
    int ret = MPI_SUCCESS;
#ifdef MT_HAS_PERSISTENT
    MPI_Request request;

    ret = MPI_Alltoallv_init(out->buffer, out->counts, out->displs, MPI_BYTE,
                             in->buffer, in->counts, in->displs, MPI_BYTE, comm,
                             MPI_INFO_NULL, &request);
    for (int i = 0; i < 2 && ret == MPI_SUCCESS; ++i) {
        ret = complete(MPI_Start(&request), &request);
    }
    if (ret == MPI_SUCCESS) {
        MPI_Request_free(&request);
    }
#else
    ret = MPI_Alltoallv(out->buffer, out->counts, out->displs, MPI_BYTE,
                        in->buffer, in->counts, in->displs, MPI_BYTE, comm);
#endif
    return ret;
}

/* `comm` has all ranks as neighbours, in the order of their ranks. */
static int exchange_by(MPI_Comm comm, how_t how, const side_t *out,
                       const side_t *in)
{
    MPI_Request request;

    switch (how) {
    case LATER:
        return complete(MPI_Ialltoallv(out->buffer, out->counts, out->displs,
                                       MPI_BYTE, in->buffer, in->counts,
                                       in->displs, MPI_BYTE, comm, &request),
                        &request);
    case STARTED:
        return exchange_started(comm, out, in);
    case NEIGHBORS:
        return MPI_Neighbor_alltoallv(out->buffer, out->counts, out->displs,
                                      MPI_BYTE, in->buffer, in->counts,
                                      in->displs, MPI_BYTE, comm);
    case GATHER:
        return MPI_Allgatherv(out->buffer, out->counts[0], MPI_BYTE, in->buffer,
                              in->counts, in->displs, MPI_BYTE, comm);
    default:
        return MPI_Alltoallv((how == IN_PLACE) ? MPI_IN_PLACE : out->buffer,
                             out->counts, out->displs, MPI_BYTE, in->buffer,
                             in->counts, in->displs, MPI_BYTE, comm);
    }
}

/* Returns an MPI error code, or -1 if a byte is wrong. */
static int exchange(MPI_Comm comm, const call_t *call)
{
    side_t out, in;
    int ret;

    side_init(&out, call, 1);
    side_init(&in, call, 0);
    ret = exchange_by(comm, call->how, &out, &in);
    for (int i = 0; i < size && ret == MPI_SUCCESS; ++i) {
        if (!mt_check(in.buffer + in.displs[i], (size_t)in.counts[i],
                      seed_of(call->how, i, rank))) {
            ret = -1;
        }
    }
    side_cleanup(&out);
    side_cleanup(&in);
    return ret;
}

static void fail(unsigned n, const char *reason)
{
    fprintf(stderr, "# request %u: rank %d: %s\n", n, rank, reason);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static uint64_t num_planned(void)
{
    uint64_t values[MRAIL_BENCH_COLL_NUM];

    mrail_bench_coll_read(&coll, values);
    return values[MRAIL_BENCH_COLL_PLANNED_CALLS];
}

static MPI_Comm dup_plain(void)
{
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    return comm;
}

/* Returns a communicator in which all ranks are neighbours, and whose starts are
 * in order. */
static MPI_Comm dup_graph(void)
{
    int *all = mt_alloc(sizeof(int) * (size_t)size);
    MPI_Comm graph, comm;

    for (int i = 0; i < size; ++i) {
        all[i] = i;
    }
    /* The weights have no effect. */
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, size, all, all, size, all,
                                   all, MPI_INFO_NULL, 0, &graph);
    comm = mt_dup_ordered(graph);
    MPI_Comm_free(&graph);
    free(all);
    return comm;
}

/* Performs all calls. Returns the number of planned calls. */
static unsigned all_calls(unsigned n)
{
    char text[MPI_MAX_ERROR_STRING];
    uint64_t before = num_planned();
    MPI_Comm comm;
    int length;

    comm = (calls == other_calls) ? dup_graph() : dup_plain();
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (unsigned i = 0; i < NUM_CALLS; ++i) {
        int ret = exchange(comm, &calls[i]);

        if (ret == -1) {
            fail(n, "wrong bytes");
        } else if (ret != MPI_SUCCESS) {
            MPI_Error_string(ret, text, &length);
            fail(n, text);
        }
    }
    MPI_Comm_free(&comm);
    return (unsigned)(num_planned() - before);
}

int main(int argc, char **argv)
{
    int failing_rank = (argc > 1) ? atoi(argv[1]) : 0;
    unsigned first = (argc > 2) ? (unsigned)atoi(argv[2]) : 1, n;
    int is_over = 0;

    if (argc > 3 && strcmp(argv[3], "other") == 0) {
        calls = other_calls;
    }
    MPI_Init(&argc, &argv);
    rank = mt_rank(MPI_COMM_WORLD);
    size = mt_size(MPI_COMM_WORLD);
    *(void **)&arm = dlsym(RTLD_DEFAULT, "scarce_arm");
    *(void **)&disarm = dlsym(RTLD_DEFAULT, "scarce_disarm");
    mrail_bench_coll_open(&coll);
    if (arm == NULL || disarm == NULL || !coll.present) {
        fail(0, "the shim or coll/mrail is not loaded");
    }
    for (n = first; !is_over && n - first < MAX_REQUESTS; ++n) {
        unsigned planned;

        mt_hangs_after(HANGS_S, "mpi_scarce");
        if (rank == failing_rank && !arm(n)) {
            fail(n, "coll/mrail is not loaded");
        }
        planned = all_calls(n);
        if (rank == failing_rank) {
            is_over = disarm() < n;
        }
        MPI_Bcast(&is_over, 1, MPI_INT, failing_rank, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("# request %u: %u calls planned\n", n, planned);
            fflush(stdout);
        }
    }
    mrail_bench_coll_close(&coll);
    mt_result("every byte arrived", is_over);
    MPI_Finalize();
    return mt_failures != 0;
}
