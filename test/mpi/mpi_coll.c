/*
 * Collective semantics: alltoallv with every kind of count, MPI_IN_PLACE, zero
 * counts, derived datatypes, alltoallw, and several communicators at the same
 * time.
 */
#include "config.h"
#include "mpi_test.h"

#include "base/rng.h"

#include <string.h>

/* Returns the number of bytes that rank `from` sends to rank `to` in a round.
 * Every rank can compute it. */
static int round_count(int from, int to, unsigned round)
{
    uint64_t x = mt_seed(from, to, 1000 + round);

    switch (x % 5) {
    case 0:
        return 0;
    case 1:
        return (int)(x >> 32) & 0xff;
    case 2:
        return (int)(x >> 32) & 0x3fff;
    default:
        return (int)(x >> 32) & 0x3ffff;
    }
}

typedef struct plan {
    int *send_counts, *send_offsets, *recv_counts, *recv_offsets;
    char *send, *recv;
} plan_t;

static void plan_init(plan_t *plan, MPI_Comm comm, unsigned round)
{
    int rank = mt_rank(comm), size = mt_size(comm);
    int send = 0, recv = 0;
    size_t ints = (size_t)size * sizeof(int);

    plan->send_counts = mt_alloc(ints);
    plan->send_offsets = mt_alloc(ints);
    plan->recv_counts = mt_alloc(ints);
    plan->recv_offsets = mt_alloc(ints);
    for (int i = 0; i < size; ++i) {
        plan->send_counts[i] = round_count(rank, i, round);
        plan->recv_counts[i] = round_count(i, rank, round);
        /* The offsets leave gaps, and do not follow the order of the ranks. */
        plan->send_offsets[size - 1 - i] = 0;
    }
    for (int i = size - 1; i >= 0; --i) {
        plan->send_offsets[i] = send;
        send += plan->send_counts[i] + 13;
    }
    for (int i = 0; i < size; ++i) {
        plan->recv_offsets[i] = recv;
        recv += plan->recv_counts[i] + 5;
    }
    plan->send = mt_alloc((size_t)send);
    plan->recv = mt_alloc((size_t)recv);
    memset(plan->recv, 0xEE, (size_t)recv);
    for (int i = 0; i < size; ++i) {
        mt_fill(plan->send + plan->send_offsets[i],
                (size_t)plan->send_counts[i], mt_seed(rank, i, round));
    }
}

/* Returns 1 if the data is correct and the gaps between blocks are
 * unchanged. */
static int plan_check(const plan_t *plan, MPI_Comm comm, unsigned round)
{
    int rank = mt_rank(comm), size = mt_size(comm);
    int ok = 1;

    for (int i = 0; i < size; ++i) {
        const char *data = plan->recv + plan->recv_offsets[i];

        ok &= mt_check(data, (size_t)plan->recv_counts[i],
                       mt_seed(i, rank, round));
        for (int j = 0; j < 5; ++j) {
            ok &= ((unsigned char)data[plan->recv_counts[i] + j] == 0xEE);
        }
    }
    return ok;
}

static void plan_cleanup(plan_t *plan)
{
    free(plan->send_counts);
    free(plan->send_offsets);
    free(plan->recv_counts);
    free(plan->recv_offsets);
    free(plan->send);
    free(plan->recv);
}

static void test_alltoallv(void)
{
    int ok = 1;

    for (unsigned round = 0; round < 12; ++round) {
        plan_t plan;

        plan_init(&plan, MPI_COMM_WORLD, round);
        MPI_Alltoallv(plan.send, plan.send_counts, plan.send_offsets, MPI_BYTE,
                      plan.recv, plan.recv_counts, plan.recv_offsets, MPI_BYTE,
                      MPI_COMM_WORLD);
        ok &= plan_check(&plan, MPI_COMM_WORLD, round);
        plan_cleanup(&plan);
    }
    mt_result("alltoallv, mixed counts with gaps", ok);
}

static void test_zero_counts(void)
{
    int size = mt_size(MPI_COMM_WORLD);
    int *zeros = calloc((size_t)size, sizeof(int));
    char byte = 42;
    int ok = 1;

    for (int i = 0; i < 3; ++i) {
        MPI_Alltoallv(NULL, zeros, zeros, MPI_BYTE, NULL, zeros, zeros,
                      MPI_BYTE, MPI_COMM_WORLD);
    }
    MPI_Bcast(&byte, 0, MPI_BYTE, 0, MPI_COMM_WORLD);
    MPI_Allgather(&byte, 0, MPI_BYTE, &byte, 0, MPI_BYTE, MPI_COMM_WORLD);
    ok &= (byte == 42);
    free(zeros);
    mt_result("zero counts", ok);
}

static void test_in_place(void)
{
    int rank = mt_rank(MPI_COMM_WORLD), size = mt_size(MPI_COMM_WORLD);
    enum { N = 5000 };
    int *data = mt_alloc((size_t)size * N * sizeof(int));
    int *counts = mt_alloc((size_t)size * sizeof(int));
    int *offsets = mt_alloc((size_t)size * sizeof(int));
    int ok = 1;

    for (int i = 0; i < size * N; ++i) {
        data[i] = rank * 1000000 + i;
    }
    MPI_Alltoall(MPI_IN_PLACE, N, MPI_INT, data, N, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size * N; ++i) {
        ok &= (data[i] == i / N * 1000000 + rank * N + i % N);
    }
    /* In place, a pair has the same count in both directions. */
    for (int i = 0; i < size; ++i) {
        counts[i] = (i + rank) % 7 * 100;
        offsets[i] = i * N;
    }
    for (int i = 0; i < size * N; ++i) {
        data[i] = rank * 1000000 + i;
    }
    MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, data, counts,
                  offsets, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size * N; ++i) {
        int from = (i % N < counts[i / N]) ? i / N : rank;
        int at = (from == rank) ? i : rank * N + i % N;

        ok &= (data[i] == from * 1000000 + at);
    }
    for (int i = 0; i < N; ++i) {
        data[i] = rank + i;
    }
    MPI_Allreduce(MPI_IN_PLACE, data, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < N; ++i) {
        ok &= (data[i] == size * (size - 1) / 2 + size * i);
    }
    free(data);
    free(counts);
    free(offsets);
    mt_result("MPI_IN_PLACE", ok);
}

/* Sends a column of a matrix to the neighbour: as a column, as a block of rows,
 * and as single words. */
static void test_vector(void)
{
    enum { ROWS = 700, COLUMNS = 300 };
    int rank = mt_rank(MPI_COMM_WORLD), size = mt_size(MPI_COMM_WORLD);
    int to = (rank + size / 2) % size, from = (rank - size / 2 + size) % size;
    int *a = mt_alloc(sizeof(int) * ROWS * COLUMNS);
    int *b = calloc(ROWS * COLUMNS, sizeof(int));
    MPI_Datatype columns;
    int ok = 1;

    for (int i = 0; i < ROWS * COLUMNS; ++i) {
        a[i] = rank * 10000000 + i;
    }
    MPI_Type_vector(ROWS, COLUMNS / 2, COLUMNS, MPI_INT, &columns);
    MPI_Type_commit(&columns);
    MPI_Sendrecv(a + 10, 1, columns, to, 1, b + 20, 1, columns, from, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < ROWS * COLUMNS; ++i) {
        int in = i >= 20 && (i - 20) % COLUMNS < COLUMNS / 2;

        ok &= (b[i] == (in ? from * 10000000 + i - 10 : 0));
    }
    MPI_Sendrecv(a, 1, columns, to, 2, b, ROWS * (COLUMNS / 2), MPI_INT, from,
                 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < ROWS * (COLUMNS / 2); ++i) {
        int at = i / (COLUMNS / 2) * COLUMNS + i % (COLUMNS / 2);

        ok &= (b[i] == from * 10000000 + at);
    }
    MPI_Type_free(&columns);
    free(a);
    free(b);
    mt_result("vectors, strided and packed", ok);
}

typedef struct particle {
    char kind;
    double position[3];
    int id;
} particle_t;

static MPI_Datatype particle_type(void)
{
    int lengths[] = {1, 3, 1};
    MPI_Aint offsets[] = {offsetof(particle_t, kind),
                          offsetof(particle_t, position),
                          offsetof(particle_t, id)};
    MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
    MPI_Datatype bare, whole;

    MPI_Type_create_struct(3, lengths, offsets, types, &bare);
    MPI_Type_create_resized(bare, 0, sizeof(particle_t), &whole);
    MPI_Type_commit(&whole);
    MPI_Type_free(&bare);
    return whole;
}

/* Sends structs with gaps by alltoallv, whose counts are in elements. */
static void test_struct_alltoallv(void)
{
    enum { EACH = 2000 };
    int rank = mt_rank(MPI_COMM_WORLD), size = mt_size(MPI_COMM_WORLD);
    size_t total = (size_t)size * EACH;
    particle_t *a = calloc(total, sizeof(*a)), *b = calloc(total, sizeof(*b));
    int *counts = mt_alloc((size_t)size * sizeof(int));
    int *offsets = mt_alloc((size_t)size * sizeof(int));
    MPI_Datatype type = particle_type();
    int ok = 1;

    for (int i = 0; i < size; ++i) {
        counts[i] = (i + rank) % 3 * (EACH / 2);
        offsets[i] = i * EACH;
    }
    for (int i = 0; i < (int)total; ++i) {
        a[i] = (particle_t){(char)(i % 100), {rank, i, 0.5 * i}, rank + i};
    }
    MPI_Alltoallv(a, counts, offsets, type, b, counts, offsets, type,
                  MPI_COMM_WORLD);
    for (int i = 0; i < (int)total; ++i) {
        int from = i / EACH, at = rank * EACH + i % EACH;
        int in = i % EACH < counts[from];

        ok &= (b[i].kind == (in ? at % 100 : 0));
        ok &= (b[i].position[0] == (in ? from : 0));
        ok &= (b[i].position[2] == (in ? 0.5 * at : 0));
        ok &= (b[i].id == (in ? from + at : 0));
    }
    MPI_Type_free(&type);
    free(a);
    free(b);
    free(counts);
    free(offsets);
    mt_result("alltoallv of structs with holes", ok);
}

/* Transposes a distributed matrix with alltoallw and subarrays. */
static void test_alltoallw(void)
{
    enum { EDGE = 48 };
    int rank = mt_rank(MPI_COMM_WORLD), size = mt_size(MPI_COMM_WORLD);
    int width = EDGE * size;
    int *a = mt_alloc(sizeof(int) * (size_t)(EDGE * width));
    int *b = calloc((size_t)(EDGE * width), sizeof(int));
    int *ones = mt_alloc((size_t)size * sizeof(int));
    int *zeros = calloc((size_t)size, sizeof(int));
    MPI_Datatype *types = mt_alloc((size_t)size * sizeof(*types));
    int ok = 1;

    for (int i = 0; i < EDGE * width; ++i) {
        a[i] = rank * EDGE * width + i;
    }
    for (int i = 0; i < size; ++i) {
        int whole[] = {EDGE, width}, part[] = {EDGE, EDGE};
        int start[] = {0, i * EDGE};

        ones[i] = 1;
        MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_C, MPI_INT,
                                 &types[i]);
        MPI_Type_commit(&types[i]);
    }
    MPI_Alltoallw(a, ones, zeros, types, b, ones, zeros, types, MPI_COMM_WORLD);
    for (int row = 0; row < EDGE; ++row) {
        for (int column = 0; column < width; ++column) {
            int from = column / EDGE;
            int at = row * width + rank * EDGE + column % EDGE;

            ok &= (b[row * width + column] == from * EDGE * width + at);
        }
    }
    for (int i = 0; i < size; ++i) {
        MPI_Type_free(&types[i]);
    }
    free(a);
    free(b);
    free(ones);
    free(zeros);
    free(types);
    mt_result("alltoallw of subarrays", ok);
}

/* Runs concurrent exchanges on MPI_COMM_WORLD, on its halves and on a copy with
 * reversed ranks, with messages in between. */
static void test_communicators(void)
{
    int rank = mt_rank(MPI_COMM_WORLD), size = mt_size(MPI_COMM_WORLD);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Comm comms[3];
    MPI_Request requests[5];
    int send = rank, recv = -1;
    int ok = 1;

    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &comms[1]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank, &comms[2]);
    for (unsigned round = 0; round < 5; ++round) {
        plan_t plans[3];

        for (unsigned i = 0; i < 3; ++i) {
            plan_init(&plans[i], comms[i], 50 + round * 3 + i);
            MPI_Ialltoallv(plans[i].send, plans[i].send_counts,
                           plans[i].send_offsets, MPI_BYTE, plans[i].recv,
                           plans[i].recv_counts, plans[i].recv_offsets,
                           MPI_BYTE, comms[i], &requests[i]);
        }
        MPI_Irecv(&recv, 1, MPI_INT, from, 1, MPI_COMM_WORLD, &requests[3]);
        MPI_Isend(&send, 1, MPI_INT, to, 1, MPI_COMM_WORLD, &requests[4]);
        MPI_Waitall(5, requests, MPI_STATUSES_IGNORE);
        ok &= (recv == from);
        for (unsigned i = 0; i < 3; ++i) {
            ok &= plan_check(&plans[i], comms[i], 50 + round * 3 + i);
            plan_cleanup(&plans[i]);
        }
    }
    for (unsigned i = 0; i < 3; ++i) {
        MPI_Comm_free(&comms[i]);
    }
    mt_result("concurrent exchanges on three communicators", ok);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    test_alltoallv();
    test_zero_counts();
    test_in_place();
    test_vector();
    test_struct_alltoallv();
    test_alltoallw();
    test_communicators();
    MPI_Finalize();
    return mt_failures != 0;
}
