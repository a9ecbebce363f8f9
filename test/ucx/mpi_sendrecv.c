/*
 * Sends messages of many sizes around a ring of all ranks, once or for SECONDS.
 * Rank 0 then prints "ring ok".
 *
 *     mpi_sendrecv [SECONDS]
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE (1 << 20)

static char *out, *in;

/* Runs one round. Returns the number of wrong bytes. */
static int round_trip(int rank, int size)
{
    int from = (rank + size - 1) % size;
    int failed = 0;

    for (int length = 1; length <= SIZE; length *= 32) {
        memset(out, rank + 1, (size_t)length);
        MPI_Sendrecv(out, length, MPI_CHAR, (rank + 1) % size, 0, in, length,
                     MPI_CHAR, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < length; ++i) {
            failed += in[i] != (char)(from + 1);
        }
    }
    return failed;
}

int main(int argc, char **argv)
{
    double end_s, seconds = (argc > 1) ? atof(argv[1]) : 0;
    int rank, size, failed = 0, sum, go;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    out = malloc(SIZE);
    in = malloc(SIZE);
    end_s = MPI_Wtime() + seconds;
    do {
        failed += round_trip(rank, size);
        go = MPI_Wtime() < end_s;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
    } while (go);
    MPI_Allreduce(&failed, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s\n", sum == 0 ? "ring ok" : "ring: wrong bytes");
    }
    free(out);
    free(in);
    MPI_Finalize();
    return sum != 0;
}
