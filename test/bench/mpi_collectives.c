/*
 * Times the exchanges that coll/mrail plans besides MPI_Alltoall and its
 * relatives, and prints one JSON object for each size and skew.
 *
 * Usage: mpi_collectives OPERATION SIZE,... HOTSPOT,... ITERATIONS
 *
 *   allgatherv           SIZE bytes in total. Rank 0 contributes HOTSPOT of
 *                        them, all other ranks equal parts.
 *   neighbor_alltoallv   On a distributed graph, rank r sends to r - 1, r + 1 and
 *                        r + P/2. Rank 0 sends HOTSPOT of SIZE bytes to rank
 *                        P/2. All other blocks are equal, SIZE bytes for each
 *                        rank in total.
 *   persistent           MPI_Alltoallv as a persistent request on a communicator
 *                        whose ranks start requests in the same order. Rank 0
 *                        sends HOTSPOT of SIZE bytes to rank P/2; all other
 *                        blocks are equal.
 *
 * A HOTSPOT of 0 stands for equal blocks. A SIZE may end in k or m. The time of
 * an iteration is that of the slowest rank, from a barrier on.
 */
#include "config.h"
#include "base/json.h"
#include "base/util.h"
#include "tools/bench_coll.h"

#include "mpi_test.h"
#include "persistent.h"

#include <limits.h>
#include <string.h>

enum { WARMUP = 3, MAX_ITERATIONS = 1000 };

typedef struct task {
    const char *operation;
    MPI_Comm comm;
    int rank, ranks;
    /* indexed by block: a rank, or a neighbour */
    int num_out, num_in;
    int *out, *in; /* ranks of the blocks */
    int *counts, *disps, *recv_counts, *recv_disps;
    char *send, *recv;
    MPI_Request request; /* of "persistent" */
} task_t;

static int is_operation(const task_t *task, const char *name)
{
    return strcmp(task->operation, name) == 0;
}

/* ---- set-up ---- */

static int *numbers(int num)
{
    return mt_alloc((size_t)MRAIL_MAX(num, 1) * sizeof(int));
}

static void set_all_ranks(task_t *task)
{
    task->num_in = task->num_out = task->ranks;
    for (int i = 0; i < task->ranks; ++i) {
        task->in[i] = task->out[i] = i;
    }
}

/* With few ranks, some of the three neighbours are equal. */
static void set_neighbors(task_t *task)
{
    const int steps[] = {1, task->ranks - 1, task->ranks / 2};
    const int weights[] = {1, 1, 1};

    for (int i = 0; i < 3; ++i) {
        int is_new = steps[i] % task->ranks != 0;

        for (int k = 0; k < i; ++k) {
            is_new &= steps[k] % task->ranks != steps[i] % task->ranks;
        }
        if (is_new) {
            task->out[task->num_out++] = (task->rank + steps[i]) % task->ranks;
            task->in[task->num_in++] =
                (task->rank + task->ranks - steps[i]) % task->ranks;
        }
    }
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, task->num_in, task->in,
                                   weights, task->num_out, task->out, weights,
                                   MPI_INFO_NULL, 0, &task->comm);
}

static int task_init(task_t *task, const char *operation)
{
    *task = (task_t){.operation = operation,
                     .comm = MPI_COMM_WORLD,
                     .rank = mt_rank(MPI_COMM_WORLD),
                     .ranks = mt_size(MPI_COMM_WORLD),
                     .request = MPI_REQUEST_NULL};
    task->out = numbers(task->ranks);
    task->in = numbers(task->ranks);
    task->counts = numbers(task->ranks);
    task->disps = numbers(task->ranks);
    task->recv_counts = numbers(task->ranks);
    task->recv_disps = numbers(task->ranks);
    if (is_operation(task, "allgatherv")) {
        set_all_ranks(task);
        return 1;
    }
    if (is_operation(task, "neighbor_alltoallv")) {
        set_neighbors(task);
        return 1;
    }
#ifdef MT_HAS_PERSISTENT
    if (is_operation(task, "persistent")) {
        set_all_ranks(task);
        task->comm = mt_dup_ordered(MPI_COMM_WORLD);
        return 1;
    }
#endif
    return 0;
}

/* Returns the bytes of a block. */
static int block_bytes(const task_t *task, double size, double hotspot,
                       int from, int to)
{
    int ranks = task->ranks;

    if (is_operation(task, "allgatherv")) {
        return (int)((hotspot == 0) ? size / ranks
                     : (from == 0)  ? size * hotspot
                                    : size * (1 - hotspot) / (ranks - 1));
    }
    if (hotspot == 0) {
        return (int)(size / task->num_out);
    }
    return (int)((from == 0 && to == ranks / 2)
                     ? size * hotspot
                     : size * (1 - hotspot) / (task->num_out - 1));
}

/* Places the blocks one after another. Returns their total size. */
static size_t set_blocks(const task_t *task, double size, double hotspot,
                         int is_send)
{
    int num = is_send ? task->num_out : task->num_in;
    int *counts = is_send ? task->counts : task->recv_counts;
    int *disps = is_send ? task->disps : task->recv_disps;
    size_t total = 0;

    for (int i = 0; i < num; ++i) {
        counts[i] =
            is_send ? block_bytes(task, size, hotspot, task->rank, task->out[i])
                    : block_bytes(task, size, hotspot, task->in[i], task->rank);
        disps[i] = (int)total;
        total += (size_t)counts[i];
    }
    return total;
}

static uint64_t seed_of(const task_t *task, int from, int to)
{
    return mt_seed(from, is_operation(task, "allgatherv") ? 0 : to, 1);
}

static void fill(task_t *task, double size, double hotspot)
{
    size_t out = set_blocks(task, size, hotspot, 1);
    size_t in = set_blocks(task, size, hotspot, 0);

    task->send = mt_alloc(out);
    task->recv = mt_alloc(in);
    memset(task->recv, 0, in);
    for (int i = 0; i < task->num_out; ++i) {
        mt_fill(task->send + task->disps[i], (size_t)task->counts[i],
                seed_of(task, task->rank, task->out[i]));
    }
}

/* ---- measurement ---- */

static void run_once(task_t *task)
{
    if (is_operation(task, "allgatherv")) {
        MPI_Allgatherv(task->send, task->counts[0], MPI_BYTE, task->recv,
                       task->recv_counts, task->recv_disps, MPI_BYTE,
                       task->comm);
        return;
    }
    if (is_operation(task, "neighbor_alltoallv")) {
        MPI_Neighbor_alltoallv(task->send, task->counts, task->disps, MPI_BYTE,
                               task->recv, task->recv_counts, task->recv_disps,
                               MPI_BYTE, task->comm);
        return;
    }
#ifdef MT_HAS_PERSISTENT
    if (task->request == MPI_REQUEST_NULL) {
        MPI_Alltoallv_init(task->send, task->counts, task->disps, MPI_BYTE,
                           task->recv, task->recv_counts, task->recv_disps,
                           MPI_BYTE, task->comm, MPI_INFO_NULL, &task->request);
    }
    MPI_Start(&task->request);
    MPI_Wait(&task->request, MPI_STATUS_IGNORE);
#endif
}

static double time_once_s(task_t *task)
{
    double start_s, own_s, slowest_s;

    MPI_Barrier(MPI_COMM_WORLD);
    start_s = MPI_Wtime();
    run_once(task);
    own_s = MPI_Wtime() - start_s;
    MPI_Allreduce(&own_s, &slowest_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest_s;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median_s(task_t *task, int iterations)
{
    double times_s[MAX_ITERATIONS];

    for (int i = 0; i < iterations; ++i) {
        times_s[i] = time_once_s(task);
    }
    qsort(times_s, (size_t)iterations, sizeof(*times_s), compare);
    return (times_s[(iterations - 1) / 2] + times_s[iterations / 2]) / 2;
}

static int is_received(const task_t *task)
{
    int ok = 1, all;

    for (int i = 0; i < task->num_in; ++i) {
        ok &= mt_check(task->recv + task->recv_disps[i],
                       (size_t)task->recv_counts[i],
                       seed_of(task, task->in[i], task->rank));
    }
    MPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

/* ---- results ---- */

static void print(const task_t *task, double size, double hotspot,
                  int iterations, double time_s, double planned, int ok)
{
    mrail_json_t json = mrail_json_to(stdout);

    mrail_json_object(&json, NULL);
    mrail_json_string(&json, "operation", task->operation);
    mrail_json_int(&json, "ranks", task->ranks);
    mrail_json_uint(&json, "size", (uint64_t)size);
    mrail_json_string(&json, "pattern", (hotspot == 0) ? "uniform" : "shift");
    mrail_json_fixed(&json, "hotspot", hotspot, 2);
    mrail_json_int(&json, "iterations", iterations);
    mrail_json_real(&json, "median_s", time_s, 6);
    mrail_json_fixed(&json, "planned", planned, 3);
    mrail_json_bool(&json, "data_ok", ok);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
    fflush(stdout);
}

/* Returns the number of planned calls of this rank so far. */
static uint64_t planned_calls(const mrail_bench_coll_t *coll)
{
    uint64_t values[MRAIL_BENCH_COLL_NUM];

    mrail_bench_coll_read(coll, values);
    return values[MRAIL_BENCH_COLL_PLANNED_CALLS];
}

static int measure(task_t *task, const mrail_bench_coll_t *coll, double size,
                   double hotspot, int iterations)
{
    uint64_t before;
    double time_s;
    int ok;

    fill(task, size, hotspot);
    for (int i = 0; i < WARMUP; ++i) {
        run_once(task);
    }
    before = planned_calls(coll);
    time_s = median_s(task, iterations);
    ok = is_received(task);
    if (task->rank == 0) {
        print(task, size, hotspot, iterations, time_s,
              (double)(planned_calls(coll) - before) / iterations, ok);
    }
    if (task->request != MPI_REQUEST_NULL) {
        MPI_Request_free(&task->request);
    }
    free(task->send);
    free(task->recv);
    return ok;
}

/* ---- program ---- */

/* Reads up to `most` numbers. Returns how many, or 0 if the list is invalid. */
static int parse(const char *text, double *values, int most)
{
    int num = 0;

    while (num < most) {
        char *end;

        values[num] = strtod(text, &end);
        if (end == text || values[num] < 0) {
            return 0;
        }
        if (*end == 'k' || *end == 'm') {
            values[num] *= (*end++ == 'k') ? 1 << 10 : 1 << 20;
        }
        ++num;
        if (*end != ',') {
            return (*end == '\0') ? num : 0;
        }
        text = end + 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    double sizes[16], hotspots[16];
    int num_sizes = (argc == 5) ? parse(argv[2], sizes, 16) : 0;
    int num_hotspots = (argc == 5) ? parse(argv[3], hotspots, 16) : 0;
    int iterations = (argc == 5) ? atoi(argv[4]) : 0, ok = 1;
    mrail_bench_coll_t coll;
    task_t task;

    MPI_Init(&argc, &argv);
    if (num_sizes == 0 || num_hotspots == 0 || iterations < 1 ||
        iterations > MAX_ITERATIONS || mt_size(MPI_COMM_WORLD) < 4 ||
        !task_init(&task, argv[1])) {
        fprintf(stderr, "Usage: mpi_collectives OPERATION SIZE,... HOTSPOT,... "
                        "ITERATIONS, 4 ranks or more\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    mrail_bench_coll_open(&coll);
    for (int i = 0; i < num_sizes * num_hotspots; ++i) {
        ok &= measure(&task, &coll, sizes[i / num_hotspots],
                      hotspots[i % num_hotspots], iterations);
    }
    mrail_bench_coll_close(&coll);
    MPI_Finalize();
    return !ok;
}
