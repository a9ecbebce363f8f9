/*
 * Computes a 3-D transform with FFTW-MPI, forward and back. Prints a checksum
 * of every bit of the spectrum and of the result, so that runs over different
 * transports can be compared. Also checks the result against the input. With
 * FFTW_ESTIMATE, the plan does not depend on timing.
 */
#include "config.h"
#include "mpi_test.h"

#include <fftw3-mpi.h>
#include <math.h>
#include <string.h>

enum { N0 = 64, N1 = 48, N2 = 40 };

static double input(ptrdiff_t i, int part)
{
    return (double)(mrail_mix64((uint64_t)i * 2 + (uint64_t)part + 1) >> 11) /
               (double)(1ull << 53) -
           0.5;
}

/* Returns the sum over all ranks of a hash of each double and its index. */
static uint64_t checksum(const fftw_complex *data, ptrdiff_t first,
                         ptrdiff_t count)
{
    uint64_t sum = 0, total;

    for (ptrdiff_t i = 0; i < 2 * count; ++i) {
        uint64_t bits;

        memcpy(&bits, (const double *)data + i, sizeof(bits));
        sum += mrail_mix64(bits ^ mrail_mix64((uint64_t)(2 * first + i)));
    }
    MPI_Allreduce(&sum, &total, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return total;
}

static void transform(fftw_complex *data, int direction)
{
    fftw_plan plan = fftw_mpi_plan_dft_3d(
        N0, N1, N2, data, data, MPI_COMM_WORLD, direction, FFTW_ESTIMATE);

    fftw_execute(plan);
    fftw_destroy_plan(plan);
}

/* Returns the largest difference from the input. */
static double largest_error(const fftw_complex *data, ptrdiff_t first,
                            ptrdiff_t count)
{
    double scale = 1.0 / ((double)N0 * N1 * N2);
    double most = 0;

    for (ptrdiff_t i = 0; i < count; ++i) {
        most = fmax(most, fabs(data[i][0] * scale - input(first + i, 0)));
        most = fmax(most, fabs(data[i][1] * scale - input(first + i, 1)));
    }
    return most;
}

int main(int argc, char **argv)
{
    ptrdiff_t local, rows, first_row, first, count;
    uint64_t forward, back;
    fftw_complex *data;
    double error;

    MPI_Init(&argc, &argv);
    fftw_mpi_init();
    local =
        fftw_mpi_local_size_3d(N0, N1, N2, MPI_COMM_WORLD, &rows, &first_row);
    data = fftw_alloc_complex((size_t)local);
    first = first_row * N1 * N2;
    count = rows * N1 * N2;
    for (ptrdiff_t i = 0; i < count; ++i) {
        data[i][0] = input(first + i, 0);
        data[i][1] = input(first + i, 1);
    }
    transform(data, FFTW_FORWARD);
    forward = checksum(data, first, count);
    transform(data, FFTW_BACKWARD);
    back = checksum(data, first, count);
    error = largest_error(data, first, count);
    if (mt_rank(MPI_COMM_WORLD) == 0) {
        printf("spectrum %016llx result %016llx\n", (unsigned long long)forward,
               (unsigned long long)back);
    }
    mt_result("forward and back gives the input", error < 1e-14 * N0);
    fftw_free(data);
    MPI_Finalize();
    return mt_failures != 0;
}
