/*
 * Tests one-sided communication: put, get, accumulate and fetch-and-op, between
 * fences and under a passive lock. The window's memory is allocated by the
 * program or by MPI. The argument "multiple" selects MPI_THREAD_MULTIPLE.
 */
#include "config.h"
#include "mpi_test.h"

#include <string.h>

/* Layout of a window: a counter, a block for puts by the previous rank, and a
 * block for gets by the next rank. */
enum { COUNTER_SIZE = 8, BLOCK = 300000, SIZE = COUNTER_SIZE + 2 * BLOCK };

static int neighbour(int step)
{
    int size = mt_size(MPI_COMM_WORLD);

    return (mt_rank(MPI_COMM_WORLD) + size + step) % size;
}

static void clear(char *memory, MPI_Win win)
{
    int rank = mt_rank(MPI_COMM_WORLD);

    /* The lock is needed even for this rank's own window: with osc/sm, the
     * owner is only one of many writers. */
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win);
    memset(memory, 0, SIZE);
    mt_fill(memory + COUNTER_SIZE + BLOCK, BLOCK, mt_seed(rank, rank, 2));
    MPI_Win_unlock(rank, win);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Puts to the next rank, gets from the previous one, and adds to the first one,
 * between fences. */
static int fenced(const char *memory, MPI_Win win)
{
    int rank = mt_rank(MPI_COMM_WORLD), size = mt_size(MPI_COMM_WORLD);
    int next = neighbour(1), previous = neighbour(-1);
    char *out = mt_alloc(BLOCK), *in = mt_alloc(BLOCK);
    int64_t mine = rank + 1, sum;
    int ok;

    mt_fill(out, BLOCK, mt_seed(rank, next, 1));
    MPI_Win_fence(0, win);
    MPI_Put(out, BLOCK, MPI_BYTE, next, COUNTER_SIZE, BLOCK, MPI_BYTE, win);
    MPI_Get(in, BLOCK, MPI_BYTE, previous, COUNTER_SIZE + BLOCK, BLOCK,
            MPI_BYTE, win);
    MPI_Accumulate(&mine, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, MPI_SUM, win);
    MPI_Win_fence(0, win);
    ok = mt_check(in, BLOCK, mt_seed(previous, previous, 2)) &&
         mt_check(memory + COUNTER_SIZE, BLOCK, mt_seed(previous, rank, 1));
    memcpy(&sum, memory, sizeof(sum));
    ok &= (rank != 0 || sum == (int64_t)size * (size + 1) / 2);
    free(out);
    free(in);
    return ok;
}

/* All ranks take numbers from one counter. Numbers must not repeat, and none
 * may be missing. */
static int counted(MPI_Win win)
{
    enum { EACH = 20 };
    int64_t one = 1, before = -1, got, sum = 0, all = 0, end;
    int64_t n = (int64_t)mt_size(MPI_COMM_WORLD) * EACH;
    int ok = 1;

    MPI_Win_lock_all(0, win);
    for (int i = 0; i < EACH; ++i) {
        MPI_Fetch_and_op(&one, &got, MPI_INT64_T, 0, 0, MPI_SUM, win);
        MPI_Win_flush(0, win);
        ok &= (got > before);
        before = got;
        sum += got;
    }
    MPI_Win_unlock_all(win);
    MPI_Allreduce(&sum, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
    MPI_Get(&end, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win);
    MPI_Win_unlock(0, win);
    return ok && end == n && all == n * (n - 1) / 2;
}

/* Several requests in flight to each rank. MPI completes a request by a message
 * behind a fence, so the data must be there after each wait. */
static int requested(void)
{
    enum { REQUESTS = 4, LENGTH = 2 << 20, ROUNDS = 4 };
    int rank = mt_rank(MPI_COMM_WORLD);
    char *in = mt_alloc((size_t)REQUESTS * LENGTH), *memory;
    MPI_Request requests[REQUESTS];
    MPI_Win win;
    int ok = 1;

    MPI_Win_allocate((MPI_Aint)REQUESTS * LENGTH, 1, MPI_INFO_NULL,
                     MPI_COMM_WORLD, &memory, &win);
    mt_fill(memory, (size_t)REQUESTS * LENGTH, mt_seed(rank, rank, 3));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, win);
    for (int round = 0; round < ROUNDS; ++round) {
        int target = neighbour(1 + round % (mt_size(MPI_COMM_WORLD) - 1));

        memset(in, 0, (size_t)REQUESTS * LENGTH);
        for (int i = 0; i < REQUESTS; ++i) {
            MPI_Rget(in + (size_t)i * LENGTH, LENGTH, MPI_BYTE, target,
                     (MPI_Aint)i * LENGTH, LENGTH, MPI_BYTE, win, &requests[i]);
        }
        for (int i = 0; i < REQUESTS; ++i) {
            MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
            ok &= mt_check(in, (size_t)(i + 1) * LENGTH,
                           mt_seed(target, target, 3));
        }
    }
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    free(in);
    return ok;
}

static void test_window(const char *kind, char *memory, MPI_Win win)
{
    char name[80];

    clear(memory, win);
    snprintf(name, sizeof(name), "%s: between fences", kind);
    mt_result(name, fenced(memory, win));
    clear(memory, win);
    snprintf(name, sizeof(name), "%s: a counter under a lock", kind);
    mt_result(name, counted(win));
    MPI_Win_free(&win);
}

int main(int argc, char **argv)
{
    int multiple = argc > 1 && strcmp(argv[1], "multiple") == 0;
    char *memory = mt_alloc(SIZE);
    MPI_Win win;
    int provided;

    MPI_Init_thread(&argc, &argv,
                    multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                    &provided);
    MPI_Win_create(memory, SIZE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    test_window("the program's memory", memory, win);
    free(memory);
    MPI_Win_allocate(SIZE, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &win);
    test_window("MPI's memory", memory, win);
    mt_result("several requests to each rank", requested());
    MPI_Finalize();
    return mt_failures != 0;
}
