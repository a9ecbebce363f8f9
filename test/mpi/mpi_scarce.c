/*
 * On one rank, coll/mrail fails to allocate private memory, the node's shared
 * memory, or a plan. Normally, all ranks learn of the failure, no rank uses a
 * plan or relays, and every byte takes the direct path. Otherwise, MPI reports
 * an out-of-memory error on that rank.
 *
 *   LD_PRELOAD=libtest-scarce.so mpi_scarce RANK FIRST
 *
 * For n = FIRST, FIRST + 1, ..., the program runs exchanges on a new
 * communicator in which the rank's n-th allocation request fails. It stops when
 * the rank makes fewer than n requests. An MPI error ends the job after a line
 * that states n.
 */
#include "config.h"
#include "mpi_test.h"

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

typedef enum how { PLAIN, IN_PLACE, LATER } how_t;

typedef struct call {
    how_t how;
    /* The rank to which each rank sends half of its bytes. If -1, rank r sends
     * half of its bytes to rank r + P/2. */
    int hot;
} call_t;

static const call_t calls[] = {
    {PLAIN, 0}, {PLAIN, 0}, {PLAIN, 1}, {IN_PLACE, -1}, {LATER, 2}};
#define NUM_CALLS (sizeof(calls) / sizeof(*calls))

static int bytes_of(int hot, int from, int to)
{
    if (hot < 0 || from == hot % size) {
        hot = from + size / 2;
    }
    return (from != to && to == hot % size) ? BYTES / 2
                                            : BYTES / 2 / (size - 1);
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
        side->counts[i] = is_out ? bytes_of(call->hot, rank, i)
                                 : bytes_of(call->hot, i, rank);
        side->displs[i] = total;
        total += side->counts[i];
    }
    side->buffer = mt_alloc((size_t)total);
    for (int i = 0; i < size; ++i) {
        mt_fill(side->buffer + side->displs[i], (size_t)side->counts[i],
                mt_seed(rank, i, (uint64_t)call->how));
    }
}

static void side_cleanup(side_t *side)
{
    free(side->counts);
    free(side->buffer);
}

/* Returns an MPI error code, or -1 if a byte is wrong. */
static int exchange(MPI_Comm comm, const call_t *call)
{
    const void *send;
    side_t out, in;
    int ret;

    side_init(&out, call, 1);
    side_init(&in, call, 0);
    send = (call->how == IN_PLACE) ? MPI_IN_PLACE : out.buffer;
    if (call->how == LATER) {
        MPI_Request request;

        ret = MPI_Ialltoallv(send, out.counts, out.displs, MPI_BYTE, in.buffer,
                             in.counts, in.displs, MPI_BYTE, comm, &request);
        if (ret == MPI_SUCCESS) {
            ret = MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    } else {
        ret = MPI_Alltoallv(send, out.counts, out.displs, MPI_BYTE, in.buffer,
                            in.counts, in.displs, MPI_BYTE, comm);
    }
    for (int i = 0; i < size && ret == MPI_SUCCESS; ++i) {
        if (!mt_check(in.buffer + in.displs[i], (size_t)in.counts[i],
                      mt_seed(i, rank, (uint64_t)call->how))) {
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

/* Performs all calls. Returns the number of planned calls. */
static unsigned all_calls(unsigned n)
{
    char text[MPI_MAX_ERROR_STRING];
    uint64_t before = num_planned();
    MPI_Comm comm;
    int length;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
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
