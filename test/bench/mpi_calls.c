/*
 * Repeats MPI_Alltoallv and does nothing else. contrib/bench counts the
 * instructions of run_counted() on rank 0 with callgrind.
 *
 * Usage: mpi_calls UNCOUNTED COUNTED BYTES
 *
 * Each rank sends BYTES in total, split equally among the other ranks, and
 * nothing to itself. The uncounted calls run first, to open the connections and
 * set up the communicator.
 *
 * A waiting rank polls a random number of times. Rank 0 therefore sleeps before
 * each call until all other ranks are waiting for it. It also sleeps wherever
 * Open MPI or a software rail would yield an idle core. By the time rank 0
 * polls, the event has already happened.
 */
#include "config.h"

#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLEEP_NS 4000000 /* enough for seven ranks on one core */

static int sleeps;

static int short_sleep(void)
{
    struct timespec pause = {.tv_nsec = SLEEP_NS};

    return nanosleep(&pause, NULL);
}

/* Replaces the C library's function in all libraries of the process. */
__attribute__((visibility("default"))) int sched_yield(void)
{
    return sleeps ? short_sleep() : (int)syscall(SYS_sched_yield);
}

typedef struct calls {
    int *counts, *places;
    char *send, *recv;
} calls_t;

static void *allocate(size_t size)
{
    void *memory = calloc(1, size);

    if (memory == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return memory;
}

static void calls_init(calls_t *calls, int bytes)
{
    int rank, size, place = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    calls->counts = allocate((size_t)size * sizeof(int));
    calls->places = allocate((size_t)size * sizeof(int));
    for (int i = 0; i < size; ++i) {
        calls->counts[i] = (i == rank) ? 0 : bytes / (size - 1);
        calls->places[i] = place;
        place += calls->counts[i];
    }
    calls->send = allocate((size_t)bytes);
    calls->recv = allocate((size_t)bytes);
    sleeps = (rank == 0);
}

static void run(const calls_t *calls, int number)
{
    for (int i = 0; i < number; ++i) {
        if (sleeps) {
            short_sleep();
        }
        MPI_Alltoallv(calls->send, calls->counts, calls->places, MPI_BYTE,
                      calls->recv, calls->counts, calls->places, MPI_BYTE,
                      MPI_COMM_WORLD);
    }
}

/* Must be an external function, because callgrind finds it by name. */
__attribute__((noinline)) void run_counted(const calls_t *calls, int number);
void run_counted(const calls_t *calls, int number)
{
    run(calls, number);
    /* Prevents a tail call, so that the symbol stays on the stack. */
    __asm__ volatile("" : : : "memory");
}

int main(int argc, char **argv)
{
    calls_t calls;
    int size;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 4 || size < 2 || atoi(argv[3]) < size) {
        fprintf(stderr, "Usage: mpi_calls UNCOUNTED COUNTED BYTES\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    calls_init(&calls, atoi(argv[3]));
    run(&calls, atoi(argv[1]));
    run_counted(&calls, atoi(argv[2]));
    sleeps = 0;
    MPI_Finalize();
    free(calls.counts);
    free(calls.places);
    free(calls.send);
    free(calls.recv);
    return 0;
}
