/*
 * A token and a large message travel around all ranks; rank 0 prints "ring ok".
 */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE (1 << 20)

int main(int argc, char **argv)
{
    char *out, *in;
    int rank, size, bad = 0, sum;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    out = malloc(SIZE);
    in = malloc(SIZE);
    for (int length = 1; length <= SIZE; length *= 32) {
        int from = (rank + size - 1) % size;

        memset(out, rank + 1, (size_t)length);
        MPI_Sendrecv(out, length, MPI_CHAR, (rank + 1) % size, 0, in, length,
                     MPI_CHAR, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int i = 0; i < length; ++i) {
            bad += in[i] != (char)(from + 1);
        }
    }
    MPI_Allreduce(&bad, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s\n", sum == 0 ? "ring ok" : "ring: wrong bytes");
    }
    free(out);
    free(in);
    MPI_Finalize();
    return sum != 0;
}
