/* Runs MPI_Alltoall with `size` bytes per pair, `rounds` times, and checks
 * every byte. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int size = (argc > 1) ? atoi(argv[1]) : 65536;
    int rounds = (argc > 2) ? atoi(argv[2]) : 5;
    int rank, num, wrong = 0, all_wrong = 0;
    unsigned char *out, *in;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &num);
    out = malloc((size_t)size * num);
    in = malloc((size_t)size * num);
    for (int round = 0; round < rounds; ++round) {
        for (int i = 0; i < num; ++i) {
            for (int k = 0; k < size; ++k) {
                out[(size_t)i * size + k] =
                    (unsigned char)(rank * 7 + i * 13 + round + k);
            }
        }
        memset(in, 0, (size_t)size * num);
        MPI_Alltoall(out, size, MPI_CHAR, in, size, MPI_CHAR, MPI_COMM_WORLD);
        for (int i = 0; i < num; ++i) {
            for (int k = 0; k < size; ++k) {
                wrong += in[(size_t)i * size + k] !=
                         (unsigned char)(i * 7 + rank * 13 + round + k);
            }
        }
    }
    MPI_Reduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("%s\n", all_wrong ? "wrong data" : "data ok");
    }
    MPI_Finalize();
    return all_wrong != 0;
}
