/*
 * Tests the point-to-point semantics of MPI. The tests cover sizes from 0 B to
 * 256 MB, order, unexpected messages and messages to self, wildcards, probes,
 * synchronous and persistent requests, and buffers that are unmapped and
 * remapped.
 */
#include "config.h"
#include "mpi_test.h"

#include <string.h>
#include <sys/mman.h>

/* Sizes of messages. The upper half of a huge transfer is filled by a faster
 * method. The check still reads every byte. */
static const size_t sizes[] = {
    0,      1,      2,       7,       8,       63,      64,       65,
    127,    200,    255,     256,     1000,    1023,    1024,     1025,
    4095,   4096,   8100,    8191,    8192,    8193,    16383,    16384,
    32767,  32768,  32769,   65535,   65536,   65537,   100003,   262143,
    262144, 262145, 1048575, 1048576, 1048579, 4194304, 16777216, 16777259,
};

/* Every rank sends to the rank half the job size ahead, and receives from the
 * rank half the job size behind. */
static void test_sizes(void)
{
    int rank = mt_rank(MPI_COMM_WORLD), size = mt_size(MPI_COMM_WORLD);
    int to = (rank + size / 2) % size, from = (rank - size / 2 + size) % size;
    size_t most = sizes[MRAIL_ARRAY_SIZE(sizes) - 1];
    char *send = mt_alloc(most), *recv = mt_alloc(most);
    int ok = 1;

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(sizes); ++i) {
        MPI_Status status;
        int count;

        mt_fill(send, sizes[i], mt_seed(rank, to, i));
        memset(recv, 0xEE, sizes[i]);
        MPI_Sendrecv(send, (int)sizes[i], MPI_BYTE, to, (int)i, recv,
                     (int)sizes[i], MPI_BYTE, from, (int)i, MPI_COMM_WORLD,
                     &status);
        MPI_Get_count(&status, MPI_BYTE, &count);
        ok &= (count == (int)sizes[i]);
        ok &= mt_check(recv, sizes[i], mt_seed(from, rank, i));
    }
    free(send);
    free(recv);
    mt_result("messages from 0 B to 16 MB", ok);
}

/* Uses only one pair, because 256 MB per direction take a lot of memory. */
static void test_huge(void)
{
    int rank = mt_rank(MPI_COMM_WORLD), size = mt_size(MPI_COMM_WORLD);
    size_t length = (size_t)256 << 20;
    int peer = (rank == 0) ? size - 1 : 0;
    int ok = 1;

    if (rank == 0 || rank == size - 1) {
        char *buffer = mt_alloc(length);

        if (rank == 0) {
            mt_fill(buffer, length, 256);
            MPI_Send(buffer, (int)length, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
            memset(buffer, 0, length);
        }
        MPI_Recv(buffer, (int)length, MPI_BYTE, peer, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        ok = mt_check(buffer, length, 256);
        if (rank != 0) {
            MPI_Send(buffer, (int)length, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
        }
        free(buffer);
    }
    mt_result("256 MB in each direction", ok);
}

/* Messages arrive before their receives are posted, with both protocols.
 * Messages with the same tag keep their order. Different tags may be received
 * in any order. */
static void test_unexpected(void)
{
    enum { COUNT = 120, MAX = 40000 };
    int rank = mt_rank(MPI_COMM_WORLD), size = mt_size(MPI_COMM_WORLD);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Request requests[COUNT];
    char *send = mt_alloc((size_t)COUNT * MAX), *recv = mt_alloc(MAX);
    int ok = 1;

    for (int i = 0; i < COUNT; ++i) {
        int length = (i * 733) % MAX;

        mt_fill(send + (size_t)i * MAX, (size_t)length,
                mt_seed(rank, to, (uint64_t)i));
        MPI_Isend(send + (size_t)i * MAX, length, MPI_BYTE, to, i % 3,
                  MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int tag = 2; tag >= 0; --tag) {
        for (int i = tag; i < COUNT; i += 3) {
            int length = (i * 733) % MAX;
            MPI_Status status;
            int count;

            MPI_Recv(recv, MAX, MPI_BYTE, from, tag, MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &count);
            ok &= (count == length);
            ok &= mt_check(recv, (size_t)length,
                           mt_seed(from, rank, (uint64_t)i));
        }
    }
    MPI_Waitall(COUNT, requests, MPI_STATUSES_IGNORE);
    free(send);
    free(recv);
    mt_result("unexpected messages and tag order", ok);
}

/* All ranks send to rank 0, which probes and receives from any source. */
static void test_any_source(void)
{
    enum { COUNT = 20 };
    int rank = mt_rank(MPI_COMM_WORLD), size = mt_size(MPI_COMM_WORLD);
    char *buffer = mt_alloc(70000);
    int *seen = calloc((size_t)size, sizeof(*seen));
    int ok = 1;

    for (int i = 0; rank != 0 && i < COUNT; ++i) {
        int length = (rank * 1009 + i * 3001) % 70000;

        mt_fill(buffer, (size_t)length, mt_seed(rank, 0, (uint64_t)i));
        MPI_Send(buffer, length, MPI_BYTE, 0, 5, MPI_COMM_WORLD);
    }
    for (int i = 0; rank == 0 && i < COUNT * (size - 1); ++i) {
        MPI_Message message;
        MPI_Status status;
        int count, from, expect;

        MPI_Mprobe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &message, &status);
        from = status.MPI_SOURCE;
        MPI_Get_count(&status, MPI_BYTE, &count);
        expect = (from * 1009 + seen[from] * 3001) % 70000;
        ok &= (count == expect);
        MPI_Mrecv(buffer, count, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        ok &= mt_check(buffer, (size_t)count,
                       mt_seed(from, 0, (uint64_t)seen[from]));
        ++seen[from];
    }
    free(seen);
    free(buffer);
    mt_result("any source, probed", ok);
}

static void test_self_and_sync(void)
{
    int rank = mt_rank(MPI_COMM_WORLD), size = mt_size(MPI_COMM_WORLD);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    static char send[100000], recv[100000];
    MPI_Request requests[2];
    int ok = 1;

    mt_fill(send, sizeof(send), mt_seed(rank, rank, 9));
    MPI_Sendrecv(send, sizeof(send), MPI_BYTE, rank, 7, recv, sizeof(recv),
                 MPI_BYTE, rank, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    ok &= mt_check(recv, sizeof(recv), mt_seed(rank, rank, 9));

    for (int length = 10; length <= 100000; length *= 100) {
        mt_fill(send, (size_t)length, mt_seed(rank, to, (uint64_t)length));
        MPI_Issend(send, length, MPI_BYTE, to, 8, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(recv, length, MPI_BYTE, from, 8, MPI_COMM_WORLD,
                  &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        ok &= mt_check(recv, (size_t)length,
                       mt_seed(from, rank, (uint64_t)length));
    }
    mt_result("messages to self, synchronous sends", ok);
}

static void test_persistent(void)
{
    int rank = mt_rank(MPI_COMM_WORLD), size = mt_size(MPI_COMM_WORLD);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    static char send[50000], recv[50000];
    MPI_Request requests[2];
    int ok = 1;

    MPI_Send_init(send, sizeof(send), MPI_BYTE, to, 3, MPI_COMM_WORLD,
                  &requests[0]);
    MPI_Recv_init(recv, sizeof(recv), MPI_BYTE, from, 3, MPI_COMM_WORLD,
                  &requests[1]);
    for (uint64_t i = 0; i < 10; ++i) {
        mt_fill(send, sizeof(send), mt_seed(rank, to, i));
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        ok &= mt_check(recv, sizeof(recv), mt_seed(from, rank, i));
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    mt_result("persistent requests", ok);
}

/* Maps memory at the given address. With NULL, the kernel chooses it. */
static char *map_at(char *wanted, size_t length)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (wanted ? MAP_FIXED : 0);
    char *memory = mmap(wanted, length, PROT_READ | PROT_WRITE, flags, -1, 0);

    if (memory == MAP_FAILED) {
        perror("mmap");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

/* Registered memory is unmapped, and other pages are mapped at the same
 * address. Sends must read the new bytes, and receives must land in the new
 * pages. */
static void test_remap(void)
{
    const size_t length = (size_t)2 << 20;
    int rank = mt_rank(MPI_COMM_WORLD), size = mt_size(MPI_COMM_WORLD);
    int to = (rank + size / 2) % size, from = (rank - size / 2 + size) % size;
    char *send = map_at(NULL, length), *recv = map_at(NULL, length);
    int ok = 1;

    for (uint64_t i = 0; i < 6; ++i) {
        mt_fill(send, length, mt_seed(rank, to, 100 + i));
        MPI_Sendrecv(send, (int)length, MPI_BYTE, to, 1, recv, (int)length,
                     MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        ok &= mt_check(recv, length, mt_seed(from, rank, 100 + i));
        munmap(send, length);
        munmap(recv, length);
        send = map_at(send, length);
        recv = map_at(recv, length);
    }
    munmap(send, length);
    munmap(recv, length);
    mt_result("memory unmapped, remapped and resent", ok);
}

/* As in the previous test, but with malloc(). Large blocks come from mmap() and
 * are returned immediately. */
static void test_free_again(void)
{
    const size_t length = (size_t)3 << 20;
    int rank = mt_rank(MPI_COMM_WORLD), size = mt_size(MPI_COMM_WORLD);
    int to = (rank + size / 2) % size, from = (rank - size / 2 + size) % size;
    int ok = 1;

    for (uint64_t i = 0; i < 6; ++i) {
        char *send = mt_alloc(length), *recv = mt_alloc(length);

        mt_fill(send, length, mt_seed(rank, to, 200 + i));
        MPI_Sendrecv(send, (int)length, MPI_BYTE, to, 1, recv, (int)length,
                     MPI_BYTE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        ok &= mt_check(recv, length, mt_seed(from, rank, 200 + i));
        free(send);
        free(recv);
    }
    mt_result("memory freed, reallocated and resent", ok);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    test_sizes();
    test_unexpected();
    test_any_source();
    test_self_and_sync();
    test_persistent();
    test_remap();
    test_free_again();
    test_huge();
    MPI_Finalize();
    return mt_failures != 0;
}
