/*
 * Rank 0 waits in MPI_Recv for rank 1, which computes outside of MPI for
 * --seconds before it sends. Rank 1 is alive but silent during that time.
 */
#include "mpi_test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    unsigned seconds = 60;
    int rank, value = 0;

    if ((argc == 3) && (strcmp(argv[1], "--seconds") == 0)) {
        seconds = (unsigned)atoi(argv[2]);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        printf("# rank 1 is process %d; under way\n", (int)getpid());
        fflush(stdout);
        sleep(seconds);
        value = 42;
        MPI_Send(&value, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    } else if (rank == 0) {
        MPI_Recv(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        printf("%sok - the message from rank 1 is correct\n",
               (value == 42) ? "" : "not ");
        fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
