/*
 * Times MPI's basic operations by message size: point-to-point, one-sided and
 * all-to-all. The method is that of the OSU micro-benchmarks. The program
 * prints one JSON object per test and size.
 *
 * Usage: mpi_osu TEST,... SIZES MILLISECONDS [corrupt]
 *
 * Rank r of the lower half is paired with rank r + P/2. All pairs run at the
 * same time. Collectives use all ranks. SIZES are as in `mrail bench`. Each
 * size takes about MILLISECONDS: the program chooses the number of iterations
 * from the time of the first ones. It checks data before and after the timed
 * iterations, but not in between. With "corrupt", one byte changes before the
 * check, which then fails.
 */
#include "config.h"
#include "base/json.h"
#include "base/number.h"
#include "base/util.h"
#include "tools/bench.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 64
#define BATCHES 5        /* batches of timed iterations; the median counts */
#define FEWEST_BATCHES 2 /* if an iteration takes longer than one */
#define RAMP_SHARE 8     /* first iterations: 1/8 of the time of a size */
#define SMALL_ITERATION 65536u /* bytes; a few of them come before any timing */
#define SMALL_RAMP 8u
#define MAX_ITERATIONS 200000u
#define STAGGER 64u /* bytes between the starts of two messages in a window */
#define MAX_SIZE ((uint64_t)64 << 20)

typedef struct task {
    int rank, ranks, peer;
    int lower; /* 1 if this rank is the initiator, whose time counts */
    size_t size;
    char *send, *recv;
    int *counts, *places; /* arguments of MPI_Alltoallv, one per rank */
    MPI_Request requests[2 * WINDOW];
    MPI_Win window; /* in one-sided tests, this rank's memory */
} task_t;

/* ---- one iteration of each test ---- */

static char *sent(const task_t *task, unsigned i)
{
    return task->send + (size_t)i * STAGGER;
}

static char *received(const task_t *task, unsigned i)
{
    return task->recv + i * task->size;
}

static void send_to_peer(const task_t *task)
{
    MPI_Send(task->send, (int)task->size, MPI_BYTE, task->peer, 1,
             MPI_COMM_WORLD);
}

static void receive_from_peer(const task_t *task)
{
    MPI_Recv(task->recv, (int)task->size, MPI_BYTE, task->peer, 1,
             MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void ping_pong(task_t *task)
{
    if (task->lower) {
        send_to_peer(task);
        receive_from_peer(task);
    } else {
        receive_from_peer(task);
        send_to_peer(task);
    }
}

static void post_sends(const task_t *task, MPI_Request *requests)
{
    for (unsigned i = 0; i < WINDOW; ++i) {
        MPI_Isend(sent(task, i), (int)task->size, MPI_BYTE, task->peer, 2,
                  MPI_COMM_WORLD, &requests[i]);
    }
}

static void post_receives(const task_t *task, MPI_Request *requests)
{
    for (unsigned i = 0; i < WINDOW; ++i) {
        MPI_Irecv(received(task, i), (int)task->size, MPI_BYTE, task->peer, 2,
                  MPI_COMM_WORLD, &requests[i]);
    }
}

/* The receiver replies once per window. */
static void stream(task_t *task)
{
    char answer = 0;

    if (task->lower) {
        post_sends(task, task->requests);
        MPI_Waitall(WINDOW, task->requests, MPI_STATUSES_IGNORE);
        MPI_Recv(&answer, 1, MPI_BYTE, task->peer, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    } else {
        post_receives(task, task->requests);
        MPI_Waitall(WINDOW, task->requests, MPI_STATUSES_IGNORE);
        MPI_Send(&answer, 1, MPI_BYTE, task->peer, 3, MPI_COMM_WORLD);
    }
}

static void both_ways(task_t *task)
{
    post_receives(task, task->requests);
    post_sends(task, task->requests + WINDOW);
    MPI_Waitall(2 * WINDOW, task->requests, MPI_STATUSES_IGNORE);
}

static void put_messages(const task_t *task, unsigned count)
{
    int size = (int)task->size;

    if (!task->lower) {
        return;
    }
    for (unsigned i = 0; i < count; ++i) {
        MPI_Put(sent(task, i), size, MPI_BYTE, task->peer,
                (MPI_Aint)(i * task->size), size, MPI_BYTE, task->window);
    }
    MPI_Win_flush(task->peer, task->window);
}

static void put_one(task_t *task)
{
    put_messages(task, 1);
}

static void put_many(task_t *task)
{
    put_messages(task, WINDOW);
}

static void get_one(task_t *task)
{
    int size = (int)task->size;

    if (task->lower) {
        MPI_Get(task->recv, size, MPI_BYTE, task->peer, 0, size, MPI_BYTE,
                task->window);
        MPI_Win_flush(task->peer, task->window);
    }
}

static void all_to_all(task_t *task)
{
    MPI_Alltoall(task->send, (int)task->size, MPI_BYTE, task->recv,
                 (int)task->size, MPI_BYTE, MPI_COMM_WORLD);
}

static void all_to_all_v(task_t *task)
{
    MPI_Alltoallv(task->send, task->counts, task->places, MPI_BYTE, task->recv,
                  task->counts, task->places, MPI_BYTE, MPI_COMM_WORLD);
}

/* ---- the tests ---- */

typedef enum receivers {
    RECEIVERS_ALL,
    RECEIVERS_LOWER,
    RECEIVERS_UPPER
} receivers_t;

typedef enum exposed { EXPOSED_NOTHING, EXPOSED_RECV, EXPOSED_SEND } exposed_t;

typedef struct test {
    const char *name;
    void (*iterate)(task_t *task);
    unsigned slots;    /* messages that a rank receives from its peer */
    unsigned messages; /* messages of a pair in one iteration */
    unsigned in_turn;  /* consecutive messages */
    int is_collective;
    receivers_t receivers;
    exposed_t exposed; /* memory that other ranks access */
} test_t;

static const test_t tests[] = {
    {"latency", ping_pong, 1, 2, 2, 0, RECEIVERS_ALL, EXPOSED_NOTHING},
    {"bw", stream, WINDOW, WINDOW, 1, 0, RECEIVERS_UPPER, EXPOSED_NOTHING},
    {"bibw", both_ways, WINDOW, 2 * WINDOW, 1, 0, RECEIVERS_ALL,
     EXPOSED_NOTHING},
    {"rate", stream, WINDOW, WINDOW, 1, 0, RECEIVERS_UPPER, EXPOSED_NOTHING},
    {"put_latency", put_one, 1, 1, 1, 0, RECEIVERS_UPPER, EXPOSED_RECV},
    {"get_latency", get_one, 1, 1, 1, 0, RECEIVERS_LOWER, EXPOSED_SEND},
    {"put_bw", put_many, WINDOW, WINDOW, 1, 0, RECEIVERS_UPPER, EXPOSED_RECV},
    {"alltoall", all_to_all, 0, 0, 1, 1, RECEIVERS_ALL, EXPOSED_NOTHING},
    {"alltoallv", all_to_all_v, 0, 0, 1, 1, RECEIVERS_ALL, EXPOSED_NOTHING},
};

static const test_t *find_test(const char *name, size_t length)
{
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(tests); ++i) {
        if (strlen(tests[i].name) == length &&
            strncmp(tests[i].name, name, length) == 0) {
            return &tests[i];
        }
    }
    return NULL;
}

/* Returns the number of messages that all ranks send in one iteration. */
static double num_messages(const test_t *test, const task_t *task)
{
    return test->is_collective ? (double)task->ranks * (task->ranks - 1)
                               : (double)test->messages * (task->ranks / 2);
}

/* ---- buffers and data ---- */

static uint64_t seed_of(int from, int to, size_t size)
{
    return mrail_bench_seed((unsigned)from, (unsigned)to, size);
}

static unsigned num_slots(const test_t *test, const task_t *task)
{
    return test->is_collective ? (unsigned)task->ranks : test->slots;
}

/* The messages of a window are overlapping parts of one buffer, so that each
 * one differs although the sender needs little memory. */
static size_t send_bytes(const test_t *test, const task_t *task)
{
    return test->is_collective ? (size_t)task->ranks * task->size
                               : task->size + test->slots * STAGGER;
}

static void clear(const test_t *test, task_t *task)
{
    memset(task->recv, 0x5a, num_slots(test, task) * task->size);
}

static void fill(const test_t *test, task_t *task)
{
    size_t size = task->size;

    if (!test->is_collective) {
        mrail_bench_fill(task->send, send_bytes(test, task),
                         seed_of(task->rank, task->peer, size));
        return;
    }
    for (int to = 0; to < task->ranks; ++to) {
        mrail_bench_fill(task->send + (size_t)to * size, size,
                         seed_of(task->rank, to, size));
    }
}

static int is_receiver(const test_t *test, const task_t *task)
{
    return test->receivers == RECEIVERS_ALL ||
           (test->receivers == RECEIVERS_LOWER) == task->lower;
}

/* Returns the first wrong byte of a message, or its size. */
static size_t compare(const char *message, const char *expected, size_t size)
{
    size_t at = 0;

    while (at < size && message[at] == expected[at]) {
        ++at;
    }
    return at;
}

/* Returns 1 if all messages that this rank received are correct. */
static int check(const test_t *test, const task_t *task)
{
    char *expected = NULL; /* the send buffer of the peer */
    int is_right = 1;

    if (!is_receiver(test, task)) {
        return 1;
    }
    if (!test->is_collective) {
        expected = mrail_bench_allocate(send_bytes(test, task));
        mrail_bench_fill(expected, send_bytes(test, task),
                         seed_of(task->peer, task->rank, task->size));
    }
    for (unsigned i = 0; is_right && i < num_slots(test, task); ++i) {
        int from = test->is_collective ? (int)i : task->peer;
        size_t mismatch =
            test->is_collective
                ? mrail_bench_check(received(task, i), task->size,
                                    seed_of(from, task->rank, task->size))
                : compare(received(task, i), expected + (size_t)i * STAGGER,
                          task->size);

        if (mismatch != task->size) {
            fprintf(stderr,
                    "mpi_osu: rank %d, %s: wrong data from rank %d at byte "
                    "%zu of message %u of %zu bytes\n",
                    task->rank, test->name, from, mismatch, i, task->size);
            is_right = 0;
        }
    }
    free(expected);
    return is_right;
}

static void open_window(const test_t *test, task_t *task)
{
    size_t bytes = (test->exposed == EXPOSED_RECV)
                       ? num_slots(test, task) * task->size
                       : send_bytes(test, task);

    if (test->exposed == EXPOSED_NOTHING) {
        return;
    }
    /* Memory from MPI_Win_allocate() would be shared within this machine. */
    MPI_Win_create(test->exposed == EXPOSED_RECV ? task->recv : task->send,
                   (MPI_Aint)bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                   &task->window);
    MPI_Win_lock(MPI_LOCK_SHARED, task->peer, MPI_MODE_NOCHECK, task->window);
}

static void close_window(const test_t *test, task_t *task)
{
    if (test->exposed != EXPOSED_NOTHING) {
        MPI_Win_unlock(task->peer, task->window);
        MPI_Win_free(&task->window);
    }
}

static void task_open(const test_t *test, task_t *task)
{
    task->send = mrail_bench_allocate(send_bytes(test, task));
    task->recv = mrail_bench_allocate(num_slots(test, task) * task->size);
    for (int i = 0; i < task->ranks; ++i) {
        task->counts[i] = (int)task->size;
        task->places[i] = i * (int)task->size;
    }
    fill(test, task);
    clear(test, task);
    open_window(test, task);
}

static void task_close(const test_t *test, task_t *task)
{
    close_window(test, task);
    free(task->send);
    free(task->recv);
}

/* ---- time ---- */

/* Returns the time in seconds of a batch of iterations, measured by the slowest
 * of the ranks that start them. Collective. */
static double batch(const test_t *test, task_t *task, unsigned iterations)
{
    double time_s, slowest_s;

    MPI_Barrier(MPI_COMM_WORLD);
    time_s = MPI_Wtime();
    for (unsigned i = 0; i < iterations; ++i) {
        test->iterate(task);
    }
    time_s = MPI_Wtime() - time_s;
    if (!task->lower && !test->is_collective) {
        time_s = 0;
    }
    MPI_Allreduce(&time_s, &slowest_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest_s;
}

/* Returns the time of one iteration in seconds. Doubles the number of iterations
 * until a batch takes 1 / RAMP_SHARE of the budget. These iterations also open connections and
 * register the memory. */
static double ramp(const test_t *test, task_t *task, double budget_s)
{
    size_t bytes = num_slots(test, task) * task->size;
    unsigned fewest = (bytes <= SMALL_ITERATION) ? SMALL_RAMP : 1;
    unsigned num = 1;
    double time_s = batch(test, task, num);

    while ((num < fewest || time_s < budget_s / RAMP_SHARE) &&
           num < MAX_ITERATIONS / 2) {
        num *= 2;
        time_s = batch(test, task, num);
    }
    return time_s / num;
}

typedef struct result {
    double iteration_s; /* the median of the batches */
    double cpu_load;    /* see mrail_bench_load() */
    unsigned iterations;
    int data_ok;
} result_t;

/* All ranks have the same times, so they agree on the number of iterations. */
static void run_batches(const test_t *test, task_t *task, double budget_s,
                        result_t *result)
{
    double one_s = ramp(test, task, budget_s);
    double num = budget_s / BATCHES / one_s;
    unsigned iterations =
        (unsigned)MRAIL_MAX(MRAIL_MIN(num, MAX_ITERATIONS), 1);
    double batches = budget_s / (iterations * one_s);
    double times_s[BATCHES], cpu_s = mrail_bench_cpu_now(), all_cpu_s;
    mrail_bench_result_t load = {.wall_s = 0};

    result->iterations = 0;
    batches = MRAIL_MAX(MRAIL_MIN(batches + 0.5, BATCHES), FEWEST_BATCHES);
    for (unsigned i = 0; i < (unsigned)batches; ++i) {
        times_s[i] = batch(test, task, iterations);
        load.wall_s += times_s[i];
        times_s[i] /= iterations;
        result->iterations += iterations;
    }
    cpu_s = mrail_bench_cpu_now() - cpu_s;
    MPI_Allreduce(&cpu_s, &all_cpu_s, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    load.cpu_s = all_cpu_s;
    result->cpu_load = MRAIL_MIN(mrail_bench_load(&load), 1.0);
    result->iteration_s = mrail_bench_median(times_s, (unsigned)batches);
}

static void print_result(const test_t *test, const task_t *task,
                         const result_t *result)
{
    double rate = num_messages(test, task) / result->iteration_s;
    mrail_json_t json = mrail_json_to(stdout);
    char transport[256];

    mrail_bench_transport(transport, sizeof(transport));
    mrail_json_object(&json, NULL);
    mrail_json_string(&json, "test", test->name);
    mrail_json_string(&json, "transport", transport);
    mrail_json_int(&json, "ranks", task->ranks);
    mrail_json_uint(&json, "size", task->size);
    mrail_json_uint(&json, "iterations", result->iterations);
    mrail_json_real(&json, "seconds", result->iteration_s / test->in_turn, 6);
    mrail_json_real(&json, "messages_per_s", rate, 6);
    mrail_json_real(&json, "bytes_per_s", (double)task->size * rate, 6);
    mrail_json_fixed(&json, "cpu_load", result->cpu_load, 3);
    mrail_json_bool(&json, "data_ok", result->data_ok);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
    fflush(stdout);
}

/* Returns 1 if the data was correct. */
static int run_size(const test_t *test, task_t *task, double budget_s,
                    int corrupt)
{
    result_t result;
    int ok;

    task_open(test, task);
    batch(test, task, 1);
    ok = check(test, task);
    clear(test, task);
    run_batches(test, task, budget_s, &result);
    if (corrupt && is_receiver(test, task)) {
        task->recv[task->size / 2] ^= 1;
    }
    ok &= check(test, task);
    MPI_Allreduce(&ok, &result.data_ok, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (task->rank == 0) {
        print_result(test, task, &result);
    }
    task_close(test, task);
    return result.data_ok;
}

/* Returns 1 if all data was correct, 0 if not, or -1 if a name is invalid. */
static int run_tests(const char *names, const char *list, double budget_s,
                     int corrupt, task_t *task)
{
    uint64_t sizes[MRAIL_BENCH_MAX_SIZES];
    unsigned num_sizes;
    int ok = 1;

    if (mrail_number_sizes(list, MAX_SIZE, sizes, MRAIL_BENCH_MAX_SIZES,
                           &num_sizes) != 0) {
        return -1;
    }
    for (const char *name = names;; ++name) {
        size_t length = strcspn(name, ",");
        const test_t *test = find_test(name, length);

        if (test == NULL) {
            return -1;
        }
        for (unsigned i = 0; i < num_sizes; ++i) {
            task->size = MRAIL_MAX((size_t)sizes[i], 1);
            ok &= run_size(test, task, budget_s, corrupt);
        }
        name += length;
        if (*name == '\0') {
            return ok;
        }
    }
}

int main(int argc, char **argv)
{
    task_t task = {0};
    int half, corrupt = (argc == 5) && strcmp(argv[4], "corrupt") == 0;
    int ok = -1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &task.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &task.ranks);
    half = task.ranks / 2;
    task.lower = task.rank < half;
    task.peer = task.lower ? task.rank + half : task.rank - half;
    task.counts = mrail_bench_allocate((size_t)task.ranks * sizeof(int));
    task.places = mrail_bench_allocate((size_t)task.ranks * sizeof(int));
    if (argc == 4 + corrupt && task.ranks % 2 == 0 && atof(argv[3]) > 0) {
        ok = run_tests(argv[1], argv[2], 1e-3 * atof(argv[3]), corrupt, &task);
    }
    if (ok < 0) {
        fprintf(stderr, "Usage: mpi_osu TEST,... SIZES MILLISECONDS "
                        "[corrupt], an even number of ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Finalize();
    free(task.counts);
    free(task.places);
    return !ok;
}
