/*
 * Starts, runs a few rounds in which each rank sends to all others, and
 * finishes.
 *
 *   --die-at N    the last rank kills itself in round N of many
 *   --seconds N   the rounds continue for N seconds; rank 0 prints
 *                 "under way" after the first round
 *   --until FILE  the same until FILE exists, for at most a minute,
 *                 and a few more follow
 *   --bytes N     up to N bytes between two ranks (6000)
 *   --dup         each round creates a communicator with the name "round N"
 */
#include "config.h"
#include "mpi_test.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Runs one round, in which each pair of ranks exchanges up to `most` bytes. */
static int exchange(MPI_Comm comm, int round, int most)
{
    int rank = mt_rank(MPI_COMM_WORLD), size = mt_size(MPI_COMM_WORLD);
    int each = (int)(1 + round * (most / 6 - 3L) % most);
    char *send = mt_alloc((size_t)size * (size_t)most);
    char *recv = mt_alloc((size_t)size * (size_t)most);
    long sum = rank;
    int ok = 1;

    for (int i = 0; i < size; ++i) {
        mt_fill(send + (size_t)i * (size_t)each, (size_t)each,
                mt_seed(rank, i, (uint64_t)round));
    }
    MPI_Alltoall(send, each, MPI_BYTE, recv, each, MPI_BYTE, comm);
    for (int i = 0; i < size; ++i) {
        ok &= mt_check(recv + (size_t)i * (size_t)each, (size_t)each,
                       mt_seed(i, rank, (uint64_t)round));
    }
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    ok &= (sum == (long)size * (size - 1) / 2);
    free(send);
    free(recv);
    return ok;
}

static int exchange_dup(int round, int most)
{
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Comm comm;
    int ok;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    snprintf(name, sizeof(name), "round %d", round);
    MPI_Comm_set_name(comm, name);
    ok = exchange(comm, round, most);
    MPI_Comm_free(&comm);
    return ok;
}

#define UNTIL_MORE 6 /* rounds after FILE exists */
#define UNTIL_S 60

static const char *text_after(int argc, char **argv, const char *name)
{
    for (int i = 1; i + 1 < argc; ++i) {
        if (strcmp(argv[i], name) == 0) {
            return argv[i + 1];
        }
    }
    return NULL;
}

static int number_after(int argc, char **argv, const char *name, int otherwise)
{
    const char *text = text_after(argc, argv, name);

    return (text != NULL) ? atoi(text) : otherwise;
}

static int has_option(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; ++i) {
        if (strcmp(argv[i], name) == 0) {
            return 1;
        }
    }
    return 0;
}

static int goes_on(const char *until, double start_s)
{
    static int more = UNTIL_MORE;

    more -= (access(until, F_OK) == 0);
    return (more >= 0) && (MPI_Wtime() - start_s < UNTIL_S);
}

int main(int argc, char **argv)
{
    int die_at = number_after(argc, argv, "--die-at", -1);
    int seconds = number_after(argc, argv, "--seconds", 0);
    int most = number_after(argc, argv, "--bytes", 6000);
    const char *until = text_after(argc, argv, "--until");
    int has_dup = has_option(argc, argv, "--dup");
    int rounds = (die_at >= 0) ? 1000000 : 6;
    double start_s;
    int ok = 1, more = 1;

    MPI_Init(&argc, &argv);
    start_s = MPI_Wtime();
    for (int i = 0; more && ok; ++i) {
        if (i == die_at &&
            mt_rank(MPI_COMM_WORLD) == mt_size(MPI_COMM_WORLD) - 1) {
            kill(getpid(), SIGKILL);
        }
        ok &=
            has_dup ? exchange_dup(i, most) : exchange(MPI_COMM_WORLD, i, most);
        if (i == 0 && (seconds > 0 || until != NULL) &&
            mt_rank(MPI_COMM_WORLD) == 0) {
            puts("under way");
            fflush(stdout);
        }
        if (until != NULL) {
            more = goes_on(until, start_s);
        } else {
            more = (seconds > 0) ? MPI_Wtime() - start_s < seconds
                                 : i + 1 < rounds;
        }
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    mt_result("all ranks exchange data", ok);
    MPI_Finalize();
    return mt_failures != 0;
}
