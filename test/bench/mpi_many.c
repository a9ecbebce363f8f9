/*
 * Runs many ranks. Each rank sends to all other ranks with MPI_Alltoallv, and
 * then waits in MPI_Barrier. All data is checked. The lengths differ between
 * ranks and rounds.
 *
 * Rank 0 prints one line of JSON: the number of ranks, the times of three calls
 * in seconds, and the largest resident set size of a rank in bytes. The calls
 * are the first exchange, which connects the ranks, a later one, and a barrier.
 *
 * usage: mpi_many BYTES ROUNDS
 */
#include "config.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

typedef struct exchange {
    unsigned char *send, *recv;
    int *send_counts, *send_at, *recv_counts, *recv_at;
} exchange_t;

static int rank, size;

static void *need(void *memory)
{
    if (memory == NULL) {
        fputs("mpi_many: out of memory\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

static int length_of(int from, int to, int round, int bytes)
{
    return 1 + (from * 7919 + to * 104729 + round * 31) % bytes;
}

static unsigned char byte_of(int from, int to, int round, int i)
{
    return (unsigned char)(from * 3 + to * 5 + round * 7 + i);
}

static void create(exchange_t *x, int bytes)
{
    size_t ranks = (size_t)size;

    x->send = need(malloc(ranks * (size_t)bytes));
    x->recv = need(malloc(ranks * (size_t)bytes));
    x->send_counts = need(calloc(ranks, sizeof(int)));
    x->send_at = need(calloc(ranks, sizeof(int)));
    x->recv_counts = need(calloc(ranks, sizeof(int)));
    x->recv_at = need(calloc(ranks, sizeof(int)));
}

static void fill(exchange_t *x, int round, int bytes)
{
    for (int to = 0; to < size; ++to) {
        x->send_counts[to] = length_of(rank, to, round, bytes);
        x->recv_counts[to] = length_of(to, rank, round, bytes);
        x->send_at[to] = x->recv_at[to] = to * bytes;
        for (int i = 0; i < x->send_counts[to]; ++i) {
            x->send[x->send_at[to] + i] = byte_of(rank, to, round, i);
        }
        for (int i = 0; i < x->recv_counts[to]; ++i) {
            x->recv[x->recv_at[to] + i] = 0;
        }
    }
}

static int check(const exchange_t *x, int round)
{
    int wrong = 0;

    for (int from = 0; from < size; ++from) {
        for (int i = 0; i < x->recv_counts[from]; ++i) {
            wrong += (x->recv[x->recv_at[from] + i] !=
                      byte_of(from, rank, round, i));
        }
    }
    return wrong;
}

/* Runs one exchange. Returns its time in seconds. */
static double exchange(exchange_t *x, int round, int bytes, int *wrong)
{
    double begin_s;

    fill(x, round, bytes);
    begin_s = MPI_Wtime();
    MPI_Alltoallv(x->send, x->send_counts, x->send_at, MPI_BYTE, x->recv,
                  x->recv_counts, x->recv_at, MPI_BYTE, MPI_COMM_WORLD);
    begin_s = MPI_Wtime() - begin_s;
    *wrong += check(x, round);
    return begin_s;
}

static double slowest(double seconds)
{
    double most;

    MPI_Allreduce(&seconds, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return most;
}

static double resident_bytes(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss * 1024;
}

int main(int argc, char **argv)
{
    int bytes = (argc > 1) ? atoi(argv[1]) : 0;
    int rounds = (argc > 2) ? atoi(argv[2]) : 0;
    int wrong = 0, all_wrong;
    double first_s, later_s = 0, barrier_s, resident;
    exchange_t x;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if ((bytes < 1) || (rounds < 1)) {
        fputs("usage: mpi_many BYTES ROUNDS\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    create(&x, bytes);
    first_s = slowest(exchange(&x, 0, bytes, &wrong));
    for (int round = 1; round <= rounds; ++round) {
        later_s += slowest(exchange(&x, round, bytes, &wrong)) / rounds;
    }
    barrier_s = MPI_Wtime();
    for (int round = 0; round < rounds; ++round) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    barrier_s = slowest((MPI_Wtime() - barrier_s) / rounds);
    resident = slowest(resident_bytes());
    MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("{\"ranks\": %d, \"size\": %d, \"data_ok\": %s, "
               "\"first_s\": %.6f, \"later_s\": %.6f, \"barrier_s\": %.6f, "
               "\"resident_bytes\": %.0f}\n",
               size, bytes, (all_wrong == 0) ? "true" : "false", first_s,
               later_s, barrier_s, resident);
    }
    free(x.send);
    free(x.recv);
    free(x.send_counts);
    free(x.send_at);
    free(x.recv_counts);
    free(x.recv_at);
    MPI_Finalize();
    return all_wrong != 0;
}
