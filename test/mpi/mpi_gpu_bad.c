/*
 * Device memory that cannot be exchanged, on one rank, while the buffers of all
 * other ranks are valid. With MPI_ERRORS_RETURN, the call must fail on all
 * ranks, and the next exchange must be correct. Usage: mpi_gpu_bad CASE, on at
 * least 3 ranks.
 *
 *   half   the buffer begins in host memory and ends in device memory
 *   freed  the buffer was freed
 *   late   the same, after many small calls without an agreement round; with
 *          the default error handler, which must end the job
 *   again  nothing is wrong: nonblocking calls of the same shape, between host
 *          memory and memory that no NIC can access
 */
#include "config.h"
#include "mpi_test.h"

#include "tools/bench_buffer.h"

#include <sys/mman.h>

enum { BYTES = 1 << 20, BAD_RANK = 1 };

static int size, rank;

static int bad_block(void)
{
    return BYTES / size;
}

/* ---- bad buffers ---- */

/* Maps host memory directly before device memory, if that address range is
 * free. */
static char *make_half(void)
{
    for (int i = 0; i < 64; ++i) {
        char *device = mrail_bench_device_allocate(BYTES, MRAIL_BENCH_DEVICE);
        void *host =
            mmap(device - BYTES, BYTES, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

        if (host != MAP_FAILED) {
            return device - bad_block() / 2;
        }
    }
    fprintf(stderr, "the addresses before device memory are in use\n");
    exit(1);
}

static char *make_freed(void)
{
    char *device = mrail_bench_device_allocate(BYTES, MRAIL_BENCH_DEVICE);

    mrail_bench_device_free(device);
    return device;
}

/* ---- exchanges ---- */

/* Exchanges blocks of `block` bytes between device buffers. On one rank, the
 * result of `make` replaces the send buffer, unless it is NULL. Returns the
 * code of MPI_Alltoall, or -1 if a byte is wrong. */
static int exchange(char *(*make)(void), int block, uint64_t seed)
{
    size_t bytes = (size_t)block * (size_t)size;
    char *host = mt_alloc(bytes),
         *send = mrail_bench_device_allocate(bytes, MRAIL_BENCH_DEVICE);
    char *recv = mrail_bench_device_allocate(bytes, MRAIL_BENCH_DEVICE);
    char *buffer = (make != NULL && rank == BAD_RANK) ? make() : send;
    int code;

    for (int to = 0; to < size; ++to) {
        mt_fill(host + to * block, (size_t)block, mt_seed(rank, to, seed));
    }
    mrail_bench_device_copy(send, host, bytes);
    code = MPI_Alltoall(buffer, block, MPI_BYTE, recv, block, MPI_BYTE,
                        MPI_COMM_WORLD);
    mrail_bench_device_copy(host, recv, bytes);
    for (int from = 0; from < size && code == MPI_SUCCESS; ++from) {
        if (!mt_check(host + from * block, (size_t)block,
                      mt_seed(from, rank, seed))) {
            code = -1;
        }
    }
    mrail_bench_device_free(send);
    mrail_bench_device_free(recv);
    free(host);
    return code;
}

static void test_bad(char *(*make)(void))
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    mt_result("the call fails on all ranks",
              exchange(make, bad_block(), 1) > MPI_SUCCESS);
    mt_result("the next call is correct",
              exchange(NULL, bad_block(), 2) == MPI_SUCCESS);
}

/* Small calls seldom have an agreement round. */
static void test_late(void)
{
    int ok = 1;

    for (uint64_t i = 0; i < 40; ++i) {
        ok &= exchange(NULL, 100, i) == MPI_SUCCESS;
    }
    mt_result("small calls are correct", ok);
    (void)exchange(make_freed, 100, 41);
    mt_result("the job ends", 0);
}

/* Copies between the managed memory of a buffer and its host memory. */
static void copy(const mrail_bench_buffer_t *buffer, void *to, const void *from)
{
    if (to != from) {
        mrail_bench_device_copy(to, from, buffer->size);
    }
}

/* Messages of 2 MB consist of chunks. The later calls reuse the first call's
 * plan. */
static void test_again(void)
{
    int block = 2 << 20, ok = 1;
    size_t bytes = (size_t)block * (size_t)size;
    mrail_bench_memory_t memory =
        (rank % 2 == 0) ? MRAIL_BENCH_HOST : MRAIL_BENCH_MANAGED;
    mrail_bench_buffer_t send, recv;

    mrail_bench_buffer_init(&send, bytes, memory);
    mrail_bench_buffer_init(&recv, bytes, memory);
    for (uint64_t call = 0; call < 4; ++call) {
        MPI_Request request;

        for (int to = 0; to < size; ++to) {
            mt_fill(send.host + (size_t)to * (size_t)block, (size_t)block,
                    mt_seed(rank, to, call));
        }
        copy(&send, send.mpi, send.host);
        MPI_Ialltoall(send.mpi, block, MPI_BYTE, recv.mpi, block, MPI_BYTE,
                      MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        copy(&recv, recv.host, recv.mpi);
        for (int from = 0; from < size; ++from) {
            ok &= mt_check(recv.host + (size_t)from * (size_t)block,
                           (size_t)block, mt_seed(from, rank, call));
        }
    }
    mrail_bench_buffer_cleanup(&send);
    mrail_bench_buffer_cleanup(&recv);
    mt_result("nonblocking calls of the same shape are correct", ok);
}

int main(int argc, char **argv)
{
    const char *name = (argc > 1) ? argv[1] : "";

    mt_hangs_after(60, "mpi_gpu_bad");
    mrail_bench_device_open();
    MPI_Init(NULL, NULL);
    rank = mt_rank(MPI_COMM_WORLD);
    size = mt_size(MPI_COMM_WORLD);
    if (strcmp(name, "half") == 0) {
        test_bad(make_half);
    } else if (strcmp(name, "freed") == 0) {
        test_bad(make_freed);
    } else if (strcmp(name, "late") == 0) {
        test_late();
    } else if (strcmp(name, "again") == 0) {
        test_again();
    } else {
        mt_result("the case exists", 0);
    }
    MPI_Finalize();
    return mt_failures != 0;
}
