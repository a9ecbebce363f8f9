/*
 * Tests further parts of MPI: communicators split by node, persistent and
 * partitioned requests, matched probes, counts beyond 2^31 bytes, and dynamic
 * processes. The argument "big" runs only the large messages, and "spawn" only
 * the dynamic processes.
 */
#include "config.h"
#include "mpi_test.h"

#include <string.h>

enum { LENGTH = 500000, ROUNDS = 6 };

static int me, size;

static int at(int step)
{
    return (me + size + step) % size;
}

/* An emulated node counts as a node for the rails, but not for Open MPI,
 * because all processes of a machine can share memory. */
static void test_split(void)
{
    int sum, ok, n;
    MPI_Comm node;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, me, MPI_INFO_NULL,
                        &node);
    n = mt_size(node);
    ok = (n >= 1) && (n <= size);
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, node);
    if (n == size) {
        ok &= (sum == size * (size - 1) / 2);
    }
    MPI_Comm_free(&node);
    mt_result("split by shared memory", ok);
}

static void test_persistent(void)
{
    char *in = mt_alloc(LENGTH), *out = mt_alloc(LENGTH);
    MPI_Request requests[2];
    int ok = 1;

    MPI_Recv_init(in, LENGTH, MPI_BYTE, at(-1), 3, MPI_COMM_WORLD,
                  &requests[0]);
    MPI_Send_init(out, LENGTH, MPI_BYTE, at(1), 3, MPI_COMM_WORLD,
                  &requests[1]);
    for (int round = 0; round < ROUNDS; ++round) {
        mt_fill(out, LENGTH, mt_seed(me, at(1), (uint64_t)round));
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        ok &= mt_check(in, LENGTH, mt_seed(at(-1), me, (uint64_t)round));
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    free(in);
    free(out);
    mt_result("persistent requests", ok);
}

#if MPI_VERSION >= 4
static void test_partitioned(void)
{
    enum { PIECES = 5 };
    char *in = mt_alloc(LENGTH), *out = mt_alloc(LENGTH);
    MPI_Request requests[2];
    int ok = 1;

    MPI_Precv_init(in, PIECES, LENGTH / PIECES, MPI_BYTE, at(-1), 4,
                   MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]);
    MPI_Psend_init(out, PIECES, LENGTH / PIECES, MPI_BYTE, at(1), 4,
                   MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]);
    for (int round = 0; round < ROUNDS; ++round) {
        mt_fill(out, LENGTH, mt_seed(me, at(1), (uint64_t)round));
        MPI_Startall(2, requests);
        for (int part = PIECES - 1; part >= 0; --part) {
            MPI_Pready(part, requests[1]);
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        ok &= mt_check(in, LENGTH, mt_seed(at(-1), me, (uint64_t)round));
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    free(in);
    free(out);
    mt_result("partitioned requests", ok);
}
#else
static void test_partitioned(void)
{
    if (me == 0) {
        printf("# partitioned requests: this Open MPI has none (MPI %d.%d)\n",
               MPI_VERSION, MPI_SUBVERSION);
    }
}
#endif

static void test_probes(void)
{
    char *in = mt_alloc(LENGTH), *out = mt_alloc(LENGTH);
    MPI_Message message;
    MPI_Request request;
    MPI_Status status;
    int ok = 1, n;

    for (int round = 0; round < ROUNDS; ++round) {
        int length = LENGTH / (1 << (3 * round));

        mt_fill(out, (size_t)length, mt_seed(me, at(1), (uint64_t)round));
        MPI_Issend(out, length, MPI_BYTE, at(1), round, MPI_COMM_WORLD,
                   &request);
        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message,
                   &status);
        MPI_Get_count(&status, MPI_BYTE, &n);
        ok &= (n == length) && (status.MPI_TAG == round) &&
              (status.MPI_SOURCE == at(-1));
        MPI_Mrecv(in, n, MPI_BYTE, &message, MPI_STATUS_IGNORE);
        ok &=
            mt_check(in, (size_t)length, mt_seed(at(-1), me, (uint64_t)round));
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(in);
    free(out);
    mt_result("matched probes, synchronous sends", ok);
}

/* Fills the buffer a word at a time, because mt_fill() is slow for 2 GiB, and
 * the remaining bytes as mt_fill() does. */
static void fill_big(char *buffer, size_t length, uint64_t seed)
{
    uint64_t *words = (uint64_t *)buffer;

    for (size_t i = 0; i < length / 8; ++i) {
        words[i] = (i + seed) * 0x9e3779b97f4a7c15ull;
    }
    mt_fill(buffer + length / 8 * 8, length % 8, seed);
}

static int check_big(const char *buffer, size_t length, uint64_t seed)
{
    const uint64_t *words = (const uint64_t *)buffer;

    for (size_t i = 0; i < length / 8; ++i) {
        if (words[i] != (i + seed) * 0x9e3779b97f4a7c15ull) {
            fprintf(stderr, "rank %d: the word at %zu of %zu is wrong\n", me,
                    i * 8, length);
            return 0;
        }
    }
    return mt_check(buffer + length / 8 * 8, length % 8, seed);
}

/* Transfers 2 GiB and 17 bytes from rank 0 to rank 1, as one message and as one
 * PUT. */
static void test_big(void)
{
    const size_t length = (2ull << 30) + 17;
    const int block = 1 << 20;
    char *buffer = NULL;
    MPI_Datatype blocks, tail, whole;
    MPI_Win win;
    int ok = 1;

    MPI_Type_contiguous(block, MPI_BYTE, &blocks);
    MPI_Type_contiguous(17, MPI_BYTE, &tail);
    MPI_Type_create_struct(2, (int[]){2048, 1},
                           (MPI_Aint[]){0, (MPI_Aint)2048 * block},
                           (MPI_Datatype[]){blocks, tail}, &whole);
    MPI_Type_commit(&whole);
    if (me < 2) {
        buffer = mt_alloc(length);
        memset(buffer, 0, length);
    }
    if (me == 0) {
        fill_big(buffer, length, 11);
        MPI_Send(buffer, 1, whole, 1, 11, MPI_COMM_WORLD);
    } else if (me == 1) {
        MPI_Recv(buffer, 1, whole, 0, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        ok = check_big(buffer, length, 11);
        memset(buffer, 0, length);
    }
    mt_result("one message of more than 2 GiB", ok);
    MPI_Win_create(me == 1 ? buffer : NULL, me == 1 ? (MPI_Aint)length : 0, 1,
                   MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    if (me == 0) {
        MPI_Put(buffer, 1, whole, 1, 0, 1, whole, win);
    }
    MPI_Win_fence(0, win);
    if (me == 1) {
        ok = check_big(buffer, length, 11);
    }
    mt_result("one PUT of more than 2 GiB", ok);
    MPI_Win_free(&win);
    MPI_Type_free(&whole);
    MPI_Type_free(&tail);
    MPI_Type_free(&blocks);
    free(buffer);
}

/* The children send the data that the parents expect, and vice versa. */
static int exchange_messages(MPI_Comm inter, int is_child)
{
    char *in = mt_alloc(LENGTH), *out = mt_alloc(LENGTH);
    int others, ok = 1;

    MPI_Comm_remote_size(inter, &others);
    for (int i = 0; i < others; ++i) {
        mt_fill(out, LENGTH, mt_seed(me, i, (uint64_t)is_child));
        MPI_Sendrecv(out, LENGTH, MPI_BYTE, i, 5, in, LENGTH, MPI_BYTE, i, 5,
                     inter, MPI_STATUS_IGNORE);
        ok &= mt_check(in, LENGTH, mt_seed(i, me, (uint64_t)!is_child));
    }
    free(in);
    free(out);
    return ok;
}

/* All processes of a communicator exchange messages of different lengths. */
static int exchange_all(MPI_Comm comm)
{
    int rank = mt_rank(comm), num = mt_size(comm), ok = 1;
    int *counts = mt_alloc(sizeof(int) * 3 * (size_t)num);
    int *recv_counts = counts + num, *displs = counts + 2 * num;
    char *in = mt_alloc(LENGTH * (size_t)num);
    char *out = mt_alloc(LENGTH * (size_t)num);
    MPI_Request request;

    for (int i = 0; i < num; ++i) {
        counts[i] = LENGTH / (1 + rank + 2 * i);
        recv_counts[i] = LENGTH / (1 + i + 2 * rank);
        displs[i] = LENGTH * i;
        mt_fill(out + displs[i], (size_t)counts[i], mt_seed(rank, i, 6));
    }
    for (int later = 0; later < 2; ++later) {
        memset(in, 0, LENGTH * (size_t)num);
        if (later) {
            MPI_Ialltoallv(out, counts, displs, MPI_BYTE, in, recv_counts,
                           displs, MPI_BYTE, comm, &request);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        } else {
            MPI_Alltoallv(out, counts, displs, MPI_BYTE, in, recv_counts,
                          displs, MPI_BYTE, comm);
        }
        for (int i = 0; i < num; ++i) {
            ok &= mt_check(in + displs[i], (size_t)recv_counts[i],
                           mt_seed(i, rank, 6));
        }
    }
    free(counts);
    free(in);
    free(out);
    return ok;
}

static void test_spawn(char *program)
{
    char child_word[] = "child", *arguments[] = {child_word, NULL};
    int codes[2], sum, mine = 1;
    MPI_Comm inter, all;
    int ok;

    MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD,
                   &inter, codes);
    ok = exchange_messages(inter, 0);
    MPI_Intercomm_merge(inter, 0, &all);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, all);
    ok &= (sum == size + 2);
    ok &= exchange_all(all);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&inter);
    mt_result("spawned processes", ok);
}

static int child(void)
{
    MPI_Comm inter, all;
    int ok, sum, mine = 1;

    MPI_Comm_get_parent(&inter);
    ok = exchange_messages(inter, 1);
    MPI_Intercomm_merge(inter, 1, &all);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, all);
    ok &= exchange_all(all);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&inter);
    return !ok;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int status = 0;

    MPI_Init(&argc, &argv);
    me = mt_rank(MPI_COMM_WORLD);
    size = mt_size(MPI_COMM_WORLD);
    if (strcmp(what, "child") == 0) {
        status = child();
    } else if (strcmp(what, "spawn") == 0) {
        test_spawn(argv[0]);
    } else if (strcmp(what, "big") == 0) {
        test_big();
    } else {
        test_split();
        test_persistent();
        test_partitioned();
        test_probes();
    }
    MPI_Finalize();
    return status || mt_failures != 0;
}
