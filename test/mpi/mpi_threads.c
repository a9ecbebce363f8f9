/*
 * Tests MPI_THREAD_MULTIPLE with four threads per rank. Each thread has its own
 * communicator for collectives. All threads share one communicator for
 * messages, with different tags.
 */
#include "config.h"
#include "mpi_test.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 15, MAX = 300000 };

typedef struct worker {
    pthread_t thread;
    int index;
    MPI_Comm comm;
    int ok;
} worker_t;

static int message_length(int index, int round)
{
    return (index * 7919 + round * 20011) % MAX;
}

static int exchange_messages(const worker_t *worker, int round, char *send,
                             char *recv)
{
    int rank = mt_rank(MPI_COMM_WORLD), size = mt_size(MPI_COMM_WORLD);
    int to = (rank + 1 + worker->index) % size;
    int from = (rank + 2 * size - 1 - worker->index) % size;
    int length = message_length(worker->index, round);
    uint64_t id = (uint64_t)(worker->index * 1000 + round);

    mt_fill(send, (size_t)length, mt_seed(rank, to, id));
    MPI_Sendrecv(send, length, MPI_BYTE, to, worker->index, recv, length,
                 MPI_BYTE, from, worker->index, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    return mt_check(recv, (size_t)length, mt_seed(from, rank, id));
}

static int exchange_all(const worker_t *worker, int round)
{
    int size = mt_size(worker->comm), rank = mt_rank(worker->comm);
    int each = 1 + (worker->index + 1) * round * 100;
    int *send = mt_alloc(sizeof(int) * (size_t)(each * size));
    int *recv = mt_alloc(sizeof(int) * (size_t)(each * size));
    int ok = 1;

    for (int i = 0; i < each * size; ++i) {
        send[i] = rank * 1000000 + i;
    }
    MPI_Alltoall(send, each, MPI_INT, recv, each, MPI_INT, worker->comm);
    for (int i = 0; i < each * size; ++i) {
        ok &= (recv[i] == i / each * 1000000 + rank * each + i % each);
    }
    free(send);
    free(recv);
    return ok;
}

static void *work(void *arg)
{
    worker_t *worker = arg;
    char *send = mt_alloc(MAX), *recv = mt_alloc(MAX);

    for (int round = 0; round < ROUNDS; ++round) {
        worker->ok &= exchange_messages(worker, round, send, recv);
        worker->ok &= exchange_all(worker, round);
    }
    free(send);
    free(recv);
    return NULL;
}

int main(int argc, char **argv)
{
    worker_t workers[THREADS];
    int provided, ok = 1;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided < MPI_THREAD_MULTIPLE) {
        if (mt_rank(MPI_COMM_WORLD) == 0) {
            printf("not ok - MPI_THREAD_MULTIPLE: MPI provides level %d "
                   "only\n",
                   provided);
        }
        MPI_Finalize();
        return 1;
    }
    for (int i = 0; i < THREADS; ++i) {
        workers[i] = (worker_t){.index = i, .ok = 1};
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(workers[i].thread, NULL);
        ok &= workers[i].ok;
        MPI_Comm_free(&workers[i].comm);
    }
    mt_result("MPI_THREAD_MULTIPLE, four threads", ok);
    MPI_Finalize();
    return mt_failures != 0;
}
