/*
 * Tests nonblocking exchanges, several of which are in flight.
 *
 *   left      The program makes no blocking exchange. Open MPI's previous
 *             module must perform all of its calls.
 *   served    coll/mrail must perform all of them.
 *   ordered, unordered
 *             Persistent exchanges are started several times, in the same order
 *             on all ranks or in different orders. coll/mrail must perform the
 *             ordered ones in which a rank sends more than THRESHOLD bytes to
 *             another rank, and Open MPI's previous module the others.
 *   data      Only the bytes are checked. Blocking calls are interleaved.
 *   overlap   A short exchange must complete before a long one that began
 *             earlier.
 *   planning  MPI_Test must not wait for a plan.
 *   threads   Several threads run exchanges on communicators that they create
 *             and free.
 *
 *   has-persistent
 *             Exit status 0 if this MPI has persistent exchanges; no test.
 *
 * usage: mpi_nonblocking NAME [THRESHOLD]. The calls use MPI_COMM_WORLD, and a communicator
 * of some of its ranks in reverse order.
 */
#include "config.h"
#include "mpi_test.h"
#include "persistent.h"

#include "tools/bench_coll.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { HANGS_S = 120, NUM_CALLS = 24, MOST = 20000 };

/* One exchange. Rank r sends `bytes[r][i]` bytes to rank i. */
typedef struct exchange {
    MPI_Comm comm;
    int size, rank, number;
    int *counts, *displs, *recv_counts, *recv_displs;
    MPI_Datatype *types;
    char *out, *in;
    MPI_Request request;
} exchange_t;

/* Returns the number of bytes from one rank to another. */
typedef int (*bytes_func_t)(int number, int from, int to);

static int few_bytes(int number, int from, int to)
{
    return (int)(mt_seed(from, to, (uint64_t)number) % MOST);
}

static int equal_bytes(int number, int from, int to)
{
    (void)from;
    (void)to;
    return 100 * number;
}

static void exchange_init(exchange_t *ex, MPI_Comm comm, int number,
                          bytes_func_t bytes)
{
    int sum = 0, recv_sum = 0;

    ex->comm = comm;
    ex->number = number;
    ex->size = mt_size(comm);
    ex->rank = mt_rank(comm);
    ex->counts = mt_alloc(sizeof(int) * 4 * (size_t)ex->size);
    ex->displs = ex->counts + ex->size;
    ex->recv_counts = ex->displs + ex->size;
    ex->recv_displs = ex->recv_counts + ex->size;
    ex->types = mt_alloc(sizeof(MPI_Datatype) * (size_t)ex->size);
    for (int i = 0; i < ex->size; ++i) {
        ex->counts[i] = bytes(number, ex->rank, i);
        ex->recv_counts[i] = bytes(number, i, ex->rank);
        ex->displs[i] = sum;
        ex->recv_displs[i] = recv_sum;
        ex->types[i] = MPI_BYTE;
        sum += ex->counts[i];
        recv_sum += ex->recv_counts[i];
    }
    ex->out = mt_alloc((size_t)sum + 1);
    ex->in = mt_alloc((size_t)recv_sum + 1);
    for (int i = 0; i < ex->size; ++i) {
        mt_fill(ex->out + ex->displs[i], (size_t)ex->counts[i],
                mt_seed(ex->rank, i, (uint64_t)number));
    }
}

static void exchange_start(exchange_t *ex)
{
    switch (ex->number % 3) {
    case 0:
        MPI_Ialltoall(ex->out, ex->counts[0], MPI_BYTE, ex->in,
                      ex->recv_counts[0], MPI_BYTE, ex->comm, &ex->request);
        break;
    case 1:
        MPI_Ialltoallv(ex->out, ex->counts, ex->displs, MPI_BYTE, ex->in,
                       ex->recv_counts, ex->recv_displs, MPI_BYTE, ex->comm,
                       &ex->request);
        break;
    default:
        MPI_Ialltoallw(ex->out, ex->counts, ex->displs, ex->types, ex->in,
                       ex->recv_counts, ex->recv_displs, ex->types, ex->comm,
                       &ex->request);
        break;
    }
}

/* Returns 1 if every byte is correct. */
static int exchange_is_received(const exchange_t *ex)
{
    int ok = 1;

    for (int i = 0; i < ex->size; ++i) {
        ok &= mt_check(ex->in + ex->recv_displs[i], (size_t)ex->recv_counts[i],
                       mt_seed(i, ex->rank, (uint64_t)ex->number));
    }
    return ok;
}

/* Checks and frees the exchange. */
static int exchange_end(exchange_t *ex)
{
    int ok = exchange_is_received(ex);

    free(ex->counts);
    free(ex->types);
    free(ex->out);
    free(ex->in);
    return ok;
}

/* A blocking call between nonblocking ones. */
static int run_blocking(MPI_Comm comm, int number)
{
    exchange_t ex;

    exchange_init(&ex, comm, number, few_bytes);
    MPI_Alltoallv(ex.out, ex.counts, ex.displs, MPI_BYTE, ex.in, ex.recv_counts,
                  ex.recv_displs, MPI_BYTE, comm);
    return exchange_end(&ex);
}

/* Starts all calls before it waits for any. With `blocking`, makes blocking
 * calls in between. */
static int run_calls(MPI_Comm comm, int blocking)
{
    exchange_t calls[NUM_CALLS];
    MPI_Request requests[NUM_CALLS];
    int ok = 1;

    for (int i = 0; i < NUM_CALLS; ++i) {
        exchange_init(&calls[i], comm, i,
                      (i % 3 == 0) ? equal_bytes : few_bytes);
    }
    for (int i = 0; i < NUM_CALLS; ++i) {
        exchange_start(&calls[i]);
        requests[i] = calls[i].request;
        if (blocking && i % 5 == 4) {
            ok &= run_blocking(comm, NUM_CALLS + i);
        }
    }
    MPI_Waitall(NUM_CALLS, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < NUM_CALLS; ++i) {
        ok &= exchange_end(&calls[i]);
    }
    return ok;
}

static void test_data(int blocking)
{
    int rank = mt_rank(MPI_COMM_WORLD), ok;
    MPI_Comm part;

    MPI_Comm_split(MPI_COMM_WORLD, rank == 1, -rank, &part);
    ok = run_calls(MPI_COMM_WORLD, blocking);
    if (rank != 1) {
        ok &= run_calls(part, blocking);
    }
    MPI_Comm_free(&part);
    mt_result("exchanges in flight: every byte is correct", ok);
}

static void test_calls(uint64_t wanted)
{
    uint64_t values[MRAIL_BENCH_COLL_NUM];
    mrail_bench_coll_t coll;
    int rank = mt_rank(MPI_COMM_WORLD), ok;

    mrail_bench_coll_open(&coll);
    test_data(0);
    mrail_bench_coll_read(&coll, values);
    ok = coll.present && (values[MRAIL_BENCH_COLL_NONBLOCKING_CALLS] ==
                          ((rank == 1) ? wanted / 2 : wanted));
    if (!ok) {
        fprintf(stderr, "rank %d: coll/mrail served %llu calls\n", rank,
                (unsigned long long)values[MRAIL_BENCH_COLL_NONBLOCKING_CALLS]);
    }
    mt_result((wanted == 0) ? "all calls are left to Open MPI"
                            : "all calls are served",
              ok);
    mrail_bench_coll_close(&coll);
}

/* ---- persistent exchanges ---- */

enum { STARTS = 4 };

/* Creates a persistent request with these arrays. */
static void create(exchange_t *ex, const int *counts, const MPI_Datatype *types)
{
#ifdef MT_HAS_PERSISTENT
    const int *displs = counts + ex->size;
    const int *recv_counts = displs + ex->size;
    const int *recv_displs = recv_counts + ex->size;

    switch (ex->number % 3) {
    case 0:
        MPI_Alltoall_init(ex->out, counts[0], types[0], ex->in, recv_counts[0],
                          types[0], ex->comm, MPI_INFO_NULL, &ex->request);
        break;
    case 1:
        MPI_Alltoallv_init(ex->out, counts, displs, types[0], ex->in,
                           recv_counts, recv_displs, types[0], ex->comm,
                           MPI_INFO_NULL, &ex->request);
        break;
    default:
        MPI_Alltoallw_init(ex->out, counts, displs, types, ex->in, recv_counts,
                           recv_displs, types, ex->comm, MPI_INFO_NULL,
                           &ex->request);
    }
#endif
}

/* Creates a persistent request for the exchange, with arrays and datatypes that
 * end here. Open MPI's bindings for Fortran do the same. */
static void exchange_create_briefly(exchange_t *ex)
{
    size_t length = sizeof(int) * 4 * (size_t)ex->size;
    int *counts = mt_alloc(length);
    MPI_Datatype *types = mt_alloc(sizeof(*types) * (size_t)ex->size);

    memcpy(counts, ex->counts, length);
    for (int i = 0; i < ex->size; ++i) {
        MPI_Type_dup(MPI_BYTE, &types[i]);
    }
    create(ex, counts, types);
    for (int i = 0; i < ex->size; ++i) {
        MPI_Type_free(&types[i]);
    }
    memset(counts, 0x55, length);
    free(counts);
    free(types);
}

static void exchange_clear(exchange_t *ex)
{
    for (int i = 0; i < ex->size; ++i) {
        memset(ex->in + ex->recv_displs[i], 0, (size_t)ex->recv_counts[i]);
    }
}

/* Starts all requests several times. Without `is_ordered`, ranks with odd
 * numbers start them in reverse order. */
static int run_starts(exchange_t *calls, MPI_Request *requests, int is_ordered)
{
    int ok = 1;

    for (int round = 0; round < STARTS; ++round) {
        for (int i = 0; i < NUM_CALLS; ++i) {
            exchange_clear(&calls[i]);
        }
        for (int i = 0; i < NUM_CALLS; ++i) {
            int reverse = !is_ordered && calls[0].rank % 2 == 1;

            if (round != 1) {
                MPI_Start(&requests[reverse ? NUM_CALLS - 1 - i : i]);
            }
        }
        if (round == 1) {
            MPI_Startall(NUM_CALLS, requests);
        }
        MPI_Waitall(NUM_CALLS, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < NUM_CALLS; ++i) {
            ok &= exchange_is_received(&calls[i]);
        }
    }
    return ok;
}

static bytes_func_t bytes_of(int number)
{
    return (number % 3 == 0) ? equal_bytes : few_bytes;
}

/* Returns 1 if a rank sends more than `threshold` bytes to another rank. */
static int is_large(int number, int threshold)
{
    int ranks = mt_size(MPI_COMM_WORLD), most = 0;

    for (int i = 0; i < ranks * ranks; ++i) {
        int bytes = bytes_of(number)(number, i / ranks, i % ranks);

        most = (i / ranks != i % ranks) ? MRAIL_MAX(most, bytes) : most;
    }
    return most > threshold;
}

static void test_persistent(int is_ordered, int threshold)
{
    exchange_t calls[NUM_CALLS];
    MPI_Request requests[NUM_CALLS];
    uint64_t values[MRAIL_BENCH_COLL_NUM], served = 0;
    mrail_bench_coll_t coll;
    MPI_Comm comm;
    int ok;

    mrail_bench_coll_open(&coll);
    if (is_ordered) {
        comm = mt_dup_ordered(MPI_COMM_WORLD);
    } else {
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    }
    for (int i = 0; i < NUM_CALLS; ++i) {
        exchange_init(&calls[i], comm, i + 1, bytes_of(i + 1));
        if (is_ordered && is_large(i + 1, threshold)) {
            ++served;
            exchange_create_briefly(&calls[i]);
        } else {
            create(&calls[i], calls[i].counts, calls[i].types);
        }
        requests[i] = calls[i].request;
    }
    if (served == NUM_CALLS) {
        MPI_Comm_free(&comm); /* the requests still use it */
    }
    ok = run_starts(calls, requests, is_ordered);
    for (int i = 0; i < NUM_CALLS; ++i) {
        MPI_Request_free(&requests[i]);
        ok &= exchange_end(&calls[i]);
    }
    if (served < NUM_CALLS) {
        MPI_Comm_free(&comm); /* Open MPI 4.1.4 needs it until here */
    }
    mt_result("persistent exchanges: every byte is correct", ok);
    mrail_bench_coll_read(&coll, values);
    served *= STARTS;
    if (values[MRAIL_BENCH_COLL_NONBLOCKING_CALLS] != served) {
        fprintf(stderr, "rank %d: coll/mrail served %llu calls, not %llu\n",
                mt_rank(MPI_COMM_WORLD),
                (unsigned long long)values[MRAIL_BENCH_COLL_NONBLOCKING_CALLS],
                (unsigned long long)served);
    }
    mt_result((served > 0) ? "large persistent calls are served"
                           : "all persistent calls are left to Open MPI",
              coll.present &&
                  values[MRAIL_BENCH_COLL_NONBLOCKING_CALLS] == served);
    mrail_bench_coll_close(&coll);
}

/* ---- threads ---- */

enum { THREADS = 3, ROUNDS = 6 };

typedef struct worker {
    pthread_t thread;
    MPI_Comm comm; /* belongs to this thread */
    int ok;
} worker_t;

/* Creates and frees communicators while other threads make progress. */
static void *work(void *arg)
{
    worker_t *worker = arg;

    for (int i = 0; i < ROUNDS; ++i) {
        MPI_Comm comm;

        MPI_Comm_dup(worker->comm, &comm);
        worker->ok &= run_calls(comm, i % 2);
        MPI_Comm_free(&comm);
    }
    return NULL;
}

static void test_threads(void)
{
    worker_t workers[THREADS];
    int ok = 1;

    for (int i = 0; i < THREADS; ++i) {
        workers[i].ok = 1;
        MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm);
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(workers[i].thread, NULL);
        MPI_Comm_free(&workers[i].comm);
        ok &= workers[i].ok;
    }
    mt_result("threads with exchanges in flight: every byte is correct", ok);
}

/* ---- a long exchange and a short one ---- */

enum { LONG = 1, SHORT = 4 }; /* numbers of the MPI_Ialltoallv calls */

/* In the long exchange, the first rank sends 10 MB to the last one. */
static int long_or_short(int number, int from, int to)
{
    return (number == LONG && from == 0 && to == mt_size(MPI_COMM_WORLD) - 1)
               ? 10000000
               : 10;
}

static void test_overlap(void)
{
    int first = -1, ok = 1;
    exchange_t calls[2];
    MPI_Request requests[2];

    exchange_init(&calls[0], MPI_COMM_WORLD, LONG, long_or_short);
    exchange_init(&calls[1], MPI_COMM_WORLD, SHORT, long_or_short);
    for (int i = 0; i < 2; ++i) {
        exchange_start(&calls[i]);
        requests[i] = calls[i].request;
    }
    MPI_Waitany(2, requests, &first, MPI_STATUS_IGNORE);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    ok &= exchange_end(&calls[0]);
    ok &= exchange_end(&calls[1]);
    mt_result("two exchanges: every byte is correct", ok);
    mt_result("a short exchange does not wait for a long one",
              mt_rank(MPI_COMM_WORLD) != mt_size(MPI_COMM_WORLD) - 1 ||
                  first == 1);
}

/* ---- long planning ---- */

/* Returns the duration of the longest MPI_Test call in an exchange, in
 * seconds. */
static double longest_test(int number, int *ok_p)
{
    double longest_s = 0;
    int is_done = 0;
    exchange_t ex;

    exchange_init(&ex, MPI_COMM_WORLD, number, few_bytes);
    exchange_start(&ex);
    while (!is_done) {
        double time_s = MPI_Wtime();

        MPI_Test(&ex.request, &is_done, MPI_STATUS_IGNORE);
        time_s = MPI_Wtime() - time_s;
        longest_s = (time_s > longest_s) ? time_s : longest_s;
    }
    *ok_p &= exchange_end(&ex);
    return longest_s;
}

/* A plan takes 300 ms; see slow_plan_shim.c. From the first plan, the ranks
 * learn how long plans take. On a busy machine, a process may be descheduled
 * for a while, but not in every exchange. */
static void test_planning(void)
{
    double least_s = 1e9;
    int ok = 1;

    (void)longest_test(1, &ok);
    for (int i = 1; i < 4; ++i) {
        double longest_s = longest_test(1 + 3 * i, &ok);

        least_s = (longest_s < least_s) ? longest_s : least_s;
    }
    mt_result("slow plans: every byte is correct", ok);
    if (least_s > 0.1) {
        fprintf(stderr, "MPI_Test took %.3f s\n", least_s);
    }
    mt_result("slow plans: MPI_Test does not wait for the plan", least_s < 0.1);
}

int main(int argc, char **argv)
{
    const char *what = (argc > 1) ? argv[1] : "";
    int provided;

    if (strcmp(what, "has-persistent") == 0) {
#ifdef MT_HAS_PERSISTENT
        return 0;
#else
        return 1;
#endif
    }
    mt_hangs_after(HANGS_S, "mpi_nonblocking");
    MPI_Init_thread(&argc, &argv,
                    (strcmp(what, "threads") == 0) ? MPI_THREAD_MULTIPLE
                                                   : MPI_THREAD_SINGLE,
                    &provided);
    if (strcmp(what, "threads") == 0) {
        test_threads();
    } else if (strcmp(what, "overlap") == 0) {
        test_overlap();
    } else if (strcmp(what, "planning") == 0) {
        test_planning();
    } else if (strcmp(what, "ordered") == 0 || strcmp(what, "unordered") == 0) {
        test_persistent(strcmp(what, "ordered") == 0,
                        (argc > 2) ? atoi(argv[2]) : INT_MAX);
    } else if (strcmp(what, "data") == 0) {
        test_data(1);
    } else {
        test_calls((strcmp(what, "served") == 0) ? 2 * NUM_CALLS : 0);
    }
    MPI_Finalize();
    return mt_failures != 0;
}
