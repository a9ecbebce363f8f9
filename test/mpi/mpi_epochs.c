/*
 * Tests further parts of one-sided communication: post-start-complete-wait,
 * exclusive and shared locks, forms of accumulate, requests, derived datatypes,
 * and all kinds of windows.
 */
#include "config.h"
#include "mpi_test.h"

#include <string.h>

enum { CELLS = 5000, LARGE = 3000001 };

static int me, size;

static int at(int step)
{
    return (me + size + step) % size;
}

/* All ranks expose their windows to both neighbours, and put to both. */
static void test_pscw(void)
{
    int ranks[2] = {at(-1), at(1)}, ok = 1;
    char *memory, *out = mt_alloc(2 * LARGE);
    MPI_Group topology, neighbours;
    MPI_Win win;

    MPI_Win_allocate(2 * LARGE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory,
                     &win);
    MPI_Comm_group(MPI_COMM_WORLD, &topology);
    MPI_Group_incl(topology, 2, ranks, &neighbours);
    for (int round = 0; round < 5; ++round) {
        int length = (round == 0) ? 1 : LARGE / (1 << (3 * (4 - round)));

        MPI_Win_post(neighbours, 0, win);
        MPI_Win_start(neighbours, 0, win);
        for (int i = 0; i < 2; ++i) {
            mt_fill(out + i * LARGE, (size_t)length,
                    mt_seed(me, ranks[i], (uint64_t)round));
            /* In the left neighbour's window, this rank is the right neighbour,
             * and vice versa. */
            MPI_Put(out + i * LARGE, length, MPI_BYTE, ranks[i],
                    (1 - i) * (MPI_Aint)LARGE, length, MPI_BYTE, win);
        }
        MPI_Win_complete(win);
        MPI_Win_wait(win);
        for (int i = 0; i < 2; ++i) {
            ok &= mt_check(memory + i * LARGE, (size_t)length,
                           mt_seed(ranks[i], me, (uint64_t)round));
        }
    }
    MPI_Group_free(&neighbours);
    MPI_Group_free(&topology);
    MPI_Win_free(&win);
    free(out);
    mt_result("post, start, complete, wait", ok);
}

/* Reads, modifies and writes under an exclusive lock. No update is lost. */
static void test_exclusive(void)
{
    enum { EACH = 25 };
    int64_t *memory, value[2];
    MPI_Win win;
    int ok = 1;

    MPI_Win_allocate(2 * sizeof(int64_t), sizeof(int64_t), MPI_INFO_NULL,
                     MPI_COMM_WORLD, &memory, &win);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, win);
    memory[0] = memory[1] = 0;
    MPI_Win_unlock(me, win);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < EACH; ++i) {
        int target = i % size;

        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, win);
        MPI_Get(value, 2, MPI_INT64_T, target, 0, 2, MPI_INT64_T, win);
        MPI_Win_flush(target, win);
        ok &= (value[0] == value[1]);
        ++value[0];
        ++value[1];
        MPI_Put(value, 2, MPI_INT64_T, target, 0, 2, MPI_INT64_T, win);
        MPI_Win_unlock(target, win);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, me, 0, win);
    ok &= (memory[0] == (int64_t)size * ((EACH - 1 - me) / size + 1));
    MPI_Win_unlock(me, win);
    MPI_Win_free(&win);
    mt_result("exclusive locks", ok);
}

/* All ranks update the same cells at the same time, with several types and
 * operations. */
static void test_accumulate(void)
{
    int32_t *memory, *ones = mt_alloc(CELLS * sizeof(*ones));
    int ok = 1;
    MPI_Win win;

    MPI_Win_allocate(3 * CELLS * sizeof(*memory), sizeof(*memory),
                     MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    for (int i = 0; i < CELLS; ++i) {
        ones[i] = me + 1;
    }
    memset(memory, 0, 3 * CELLS * sizeof(*memory));
    for (int op = 0; op < 3; ++op) {
        const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_REPLACE};

        MPI_Win_fence(0, win);
        MPI_Accumulate(ones, CELLS, MPI_INT32_T, at(1), op * CELLS, CELLS,
                       MPI_INT32_T, ops[op], win);
        if (op != 2) {
            MPI_Accumulate(ones, CELLS, MPI_INT32_T, 0, op * CELLS, CELLS,
                           MPI_INT32_T, ops[op], win);
        }
        MPI_Win_fence(0, win);
    }
    for (int i = 0; i < CELLS; ++i) {
        int left = at(-1) + 1;

        ok &= memory[i] == left + (me == 0 ? size * (size + 1) / 2 : 0);
        ok &= memory[CELLS + i] == (me == 0 ? size : left);
        ok &= memory[2 * CELLS + i] == left;
    }
    MPI_Win_free(&win);
    free(ones);
    mt_result("accumulate: sum, maximum, replace", ok);
}

static void test_fetching(void)
{
    double *memory, *add = mt_alloc(CELLS * sizeof(*add)),
                    *old = mt_alloc(CELLS * sizeof(*old));
    int64_t expect, mine = me, got;
    MPI_Win win;
    int ok = 1;

    MPI_Win_allocate(CELLS * sizeof(*memory), sizeof(*memory), MPI_INFO_NULL,
                     MPI_COMM_WORLD, &memory, &win);
    for (int i = 0; i < CELLS; ++i) {
        memory[i] = me * 1000.0 + i;
        add[i] = 0.5;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, at(1), 0, win);
    MPI_Get_accumulate(add, CELLS, MPI_DOUBLE, old, CELLS, MPI_DOUBLE, at(1), 0,
                       CELLS, MPI_DOUBLE, MPI_SUM, win);
    MPI_Win_unlock(at(1), win);
    for (int i = 0; i < CELLS; ++i) {
        ok &= (old[i] == at(1) * 1000.0 + i);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < CELLS; ++i) {
        ok &= (memory[i] == me * 1000.0 + i + 0.5);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    /* The ranks swap in their numbers one after another. */
    memcpy(memory, &(int64_t){0}, sizeof(int64_t));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    do {
        expect = me;
        ++mine;
        MPI_Compare_and_swap(&mine, &expect, &got, MPI_INT64_T, 0, 0, win);
        MPI_Win_flush(0, win);
        --mine;
    } while (got < expect);
    ok &= (got == expect);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    free(add);
    free(old);
    mt_result("get-accumulate, compare-and-swap", ok);
}

static void test_requests(void)
{
    char *memory, *out = mt_alloc(LARGE), *in = mt_alloc(LARGE);
    MPI_Request requests[2];
    MPI_Datatype column;
    MPI_Win win;
    int ok;

    MPI_Win_allocate(LARGE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    mt_fill(out, LARGE, mt_seed(me, at(1), 7));
    MPI_Win_lock_all(0, win);
    MPI_Rput(out, LARGE, MPI_BYTE, at(1), 0, LARGE, MPI_BYTE, win,
             &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Win_flush_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Rget(in, LARGE, MPI_BYTE, at(2), 0, LARGE, MPI_BYTE, win, &requests[1]);
    MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    ok = mt_check(in, LARGE, mt_seed(at(1), at(2), 7));
    MPI_Barrier(MPI_COMM_WORLD);

    /* Transfers every third 1000-byte block to the start of the window. */
    MPI_Type_vector(100, 1000, 3000, MPI_BYTE, &column);
    MPI_Type_commit(&column);
    MPI_Put(out, 1, column, at(1), 0, 100000, MPI_BYTE, win);
    MPI_Win_flush(at(1), win);
    MPI_Win_unlock_all(win);
    MPI_Barrier(MPI_COMM_WORLD);
    mt_fill(in, LARGE, mt_seed(at(-1), me, 7));
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, me, 0, win);
    for (int i = 0; i < 100; ++i) {
        ok &= (memcmp(memory + i * 1000, in + i * 3000, 1000) == 0);
    }
    MPI_Win_unlock(me, win);
    MPI_Type_free(&column);
    MPI_Win_free(&win);
    free(out);
    free(in);
    mt_result("requests, a derived datatype", ok);
}

static void test_dynamic(void)
{
    char *memory = mt_alloc(LARGE), *out = mt_alloc(LARGE);
    MPI_Aint *places = mt_alloc((size_t)size * sizeof(*places));
    MPI_Win win;
    int ok;

    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_attach(win, memory, LARGE);
    MPI_Get_address(memory, &places[me]);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, places, 1, MPI_AINT,
                  MPI_COMM_WORLD);
    mt_fill(out, LARGE, mt_seed(me, at(1), 9));
    MPI_Win_fence(0, win);
    MPI_Put(out, LARGE, MPI_BYTE, at(1), places[at(1)], LARGE, MPI_BYTE, win);
    MPI_Win_fence(0, win);
    ok = mt_check(memory, LARGE, mt_seed(at(-1), me, 9));
    MPI_Win_detach(win, memory);
    MPI_Win_free(&win);
    free(memory);
    free(out);
    free(places);
    mt_result("a dynamic window", ok);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    me = mt_rank(MPI_COMM_WORLD);
    size = mt_size(MPI_COMM_WORLD);
    test_pscw();
    test_exclusive();
    test_accumulate();
    test_fetching();
    test_requests();
    test_dynamic();
    MPI_Finalize();
    return mt_failures != 0;
}
