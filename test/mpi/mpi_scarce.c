/*
 * One rank cannot have what coll/mrail needs: memory of its own, the node's shared
 * memory, a plan.  All ranks find out, and nobody goes by a plan or over relays then:
 * every byte comes by the direct path.  Or MPI says that there is no memory.
 *
 *   LD_PRELOAD=libtest-scarce.so mpi_scarce RANK FIRST
 *
 * For n = FIRST, FIRST + 1, ...: a new communicator, exchanges on it, and the n-th thing
 * that the rank asks for is refused; until it asks for less than that.  An error of MPI
 * ends the job, after a line that says at which n.
 */
#include "config.h"
#include "mpi_test.h"

#include "scarce_shim.h"
#include "tools/bench_coll.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HANGS_S = 60, BYTES = 200000, NUM_CALLS = 4, MAX_THINGS = 2000 };

static int (*arm)(unsigned n);
static unsigned (*disarm)(void);
static int rank, size;
static mrail_bench_coll_t coll;

static void on_alarm(int signal)
{
    static const char text[] = "mpi_scarce hangs\n";
    ssize_t written = write(2, text, sizeof(text) - 1);

    (void)signal;
    _exit((written < 0) ? 2 : 1);
}

/* Half of it to one rank, another one for each demand. */
static int bytes_of(unsigned demand, int from, int to)
{
    int hot = (int)demand % size;

    return (from != to && to == ((from == hot) ? (hot + size / 2) % size : hot))
               ? BYTES / 2
               : BYTES / 2 / (size - 1);
}

/* An error code, or -1: a byte is wrong. */
static int exchange(MPI_Comm comm, unsigned demand, int is_later)
{
    int *counts = mt_alloc(sizeof(int) * 4 * (size_t)size);
    int *displs = counts + size, *in = displs + size, *from = in + size;
    char *send, *recv;
    int sent = 0, received = 0, ret;

    for (int i = 0; i < size; ++i) {
        counts[i] = bytes_of(demand, rank, i);
        in[i] = bytes_of(demand, i, rank);
        displs[i] = sent;
        from[i] = received;
        sent += counts[i];
        received += in[i];
    }
    send = mt_alloc((size_t)sent);
    recv = mt_alloc((size_t)received);
    for (int i = 0; i < size; ++i) {
        mt_fill(send + displs[i], (size_t)counts[i], mt_seed(rank, i, demand));
    }
    memset(recv, 0x5a, (size_t)received);
    if (is_later) {
        MPI_Request request;

        ret = MPI_Ialltoallv(send, counts, displs, MPI_BYTE, recv, in, from,
                             MPI_BYTE, comm, &request);
        ret =
            (ret == MPI_SUCCESS) ? MPI_Wait(&request, MPI_STATUS_IGNORE) : ret;
    } else {
        ret = MPI_Alltoallv(send, counts, displs, MPI_BYTE, recv, in, from,
                            MPI_BYTE, comm);
    }
    for (int i = 0; i < size && ret == MPI_SUCCESS; ++i) {
        if (!mt_check(recv + from[i], (size_t)in[i],
                      mt_seed(i, rank, demand))) {
            ret = -1;
        }
    }
    free(counts);
    free(send);
    free(recv);
    return ret;
}

static void give_up(unsigned n, const char *why)
{
    fprintf(stderr, "# thing %u: %s\n", n, why);
    MPI_Abort(MPI_COMM_WORLD, 3);
}

static uint64_t num_planned(void)
{
    uint64_t values[MRAIL_BENCH_COLL_NUM];

    mrail_bench_coll_read(&coll, values);
    return values[MRAIL_BENCH_COLL_PLANNED_CALLS];
}

/* How many calls went by a plan. */
static unsigned all_calls(unsigned n)
{
    static const unsigned demands[NUM_CALLS] = {0, 0, 1, 2};
    char text[MPI_MAX_ERROR_STRING];
    uint64_t before = num_planned();
    MPI_Comm comm;
    int length;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    for (unsigned i = 0; i < NUM_CALLS; ++i) {
        int ret = exchange(comm, demands[i], i == NUM_CALLS - 1);

        if (ret == -1) {
            give_up(n, "wrong bytes");
        } else if (ret != MPI_SUCCESS) {
            MPI_Error_string(ret, text, &length);
            give_up(n, text);
        }
    }
    MPI_Comm_free(&comm);
    return (unsigned)(num_planned() - before);
}

int main(int argc, char **argv)
{
    int who = (argc > 1) ? atoi(argv[1]) : 0;
    unsigned first = (argc > 2) ? (unsigned)atoi(argv[2]) : 1, n;
    unsigned counts[NUM_CALLS + 1] = {0}; /* of things, by calls planned */
    int is_over = 0;

    MPI_Init(&argc, &argv);
    rank = mt_rank(MPI_COMM_WORLD);
    size = mt_size(MPI_COMM_WORLD);
    signal(SIGALRM, on_alarm);
    *(void **)&arm = dlsym(RTLD_DEFAULT, "scarce_arm");
    *(void **)&disarm = dlsym(RTLD_DEFAULT, "scarce_disarm");
    mrail_bench_coll_open(&coll);
    if (arm == NULL || disarm == NULL || !coll.present) {
        give_up(0, "there is no shim, or no coll/mrail");
    }
    for (n = first; !is_over && n - first < MAX_THINGS; ++n) {
        unsigned planned;

        alarm(HANGS_S);
        if (rank == who && !arm(n)) {
            give_up(n, "coll/mrail is not there");
        }
        planned = all_calls(n);
        if (rank == who) {
            is_over = disarm() < n;
        }
        MPI_Bcast(&is_over, 1, MPI_INT, who, MPI_COMM_WORLD);
        ++counts[planned];
        if (rank == 0) {
            printf("# thing %u: %u calls of %d planned\n", n, planned,
                   NUM_CALLS);
            fflush(stdout);
        }
    }
    mrail_bench_coll_close(&coll);
    mt_result("every byte of it came", is_over);
    if (rank == 0) {
        printf("# things %u to %u refused to rank %d; calls of %d planned, and "
               "how "
               "often: 0 %u, 1 %u, 2 %u, 3 %u, 4 %u\n",
               first, n - 2, who, NUM_CALLS, counts[0], counts[1], counts[2],
               counts[3], counts[4]);
    }
    MPI_Finalize();
    return mt_failures != 0;
}
