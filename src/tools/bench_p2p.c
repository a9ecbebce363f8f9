/*
 * Times and checks messages between pairs of ranks: rank r of the lower half
 * and rank r + P/2. Two values are measured for each size. The latency is half
 * the round trip of one message in a ping-pong over distinct buffers. The
 * bandwidth is measured for a stream with a window of messages in flight, in
 * one direction or both.
 */
#include "config.h"
#include "tools/bench.h"
#include "base/json.h"

#include "base/util.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_MAX ((uint64_t)256 << 20) /* bytes in one window */
#define PINGS_MAX ((uint64_t)256 << 10)  /* bytes in one round of ping-pong */

typedef struct pair {
    int ranks, rank, peer;
    int lower;       /* 1 for the rank that starts the ping-pong and sends the
                      * stream */
    unsigned window; /* messages in one round */
    unsigned phase;  /* distinguishes the data of the kernels */
    size_t size;
    mrail_bench_buffer_t send, recv; /* `window` messages each */
    MPI_Request *requests;           /* 2 * window */
    /* half of each round trip in seconds; `window` values */
    double *halves;
} pair_t;

static uint64_t message_seed(const pair_t *pair, int from, int to,
                             unsigned iteration, unsigned message)
{
    return mrail_bench_seed((unsigned)from, (unsigned)to,
                            ((uint64_t)pair->phase << 62) ^
                                ((uint64_t)iteration << 30) ^ message);
}

static void fill_window(const pair_t *pair, unsigned iteration)
{
    for (unsigned i = 0; i < pair->window; ++i) {
        mrail_bench_buffer_fill(
            &pair->send, i * pair->size, pair->size,
            message_seed(pair, pair->rank, pair->peer, iteration, i));
    }
}

static int check_window(const pair_t *pair, unsigned iteration)
{
    for (unsigned i = 0; i < pair->window; ++i) {
        size_t mismatch = mrail_bench_buffer_check(
            &pair->recv, i * pair->size, pair->size,
            message_seed(pair, pair->peer, pair->rank, iteration, i));

        if (mismatch != pair->size) {
            fprintf(
                stderr,
                "mrail bench: rank %d, iteration %u: wrong data from rank %d "
                "at byte %zu of message %u of %zu bytes\n",
                pair->rank, iteration, pair->peer, mismatch, i, pair->size);
            return 0;
        }
    }
    return 1;
}

/* Returns the time of half a round trip in seconds, as measured by the lower
 * rank. */
static double ping_pong(const pair_t *pair)
{
    double start_s = MPI_Wtime(), last_s = start_s, now_s;
    int size = (int)pair->size;

    for (unsigned i = 0; i < pair->window; ++i) {
        char *send = pair->send.mpi + i * pair->size;
        char *recv = pair->recv.mpi + i * pair->size;

        if (pair->lower) {
            MPI_Send(send, size, MPI_BYTE, pair->peer, 1, MPI_COMM_WORLD);
            MPI_Recv(recv, size, MPI_BYTE, pair->peer, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(recv, size, MPI_BYTE, pair->peer, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            MPI_Send(send, size, MPI_BYTE, pair->peer, 1, MPI_COMM_WORLD);
        }
        now_s = MPI_Wtime();
        pair->halves[i] = (now_s - last_s) / 2;
        last_s = now_s;
    }
    return (last_s - start_s) / (2.0 * pair->window);
}

/* Returns the seconds per message for a full window, including the receiver's
 * reply. */
static double stream(const pair_t *pair)
{
    double start_s = MPI_Wtime();
    int size = (int)pair->size;
    char answer = 0;

    for (unsigned i = 0; i < pair->window; ++i) {
        if (pair->lower) {
            MPI_Isend(pair->send.mpi + i * pair->size, size, MPI_BYTE,
                      pair->peer, 2, MPI_COMM_WORLD, &pair->requests[i]);
        } else {
            MPI_Irecv(pair->recv.mpi + i * pair->size, size, MPI_BYTE,
                      pair->peer, 2, MPI_COMM_WORLD, &pair->requests[i]);
        }
    }
    MPI_Waitall((int)pair->window, pair->requests, MPI_STATUSES_IGNORE);
    if (pair->lower) {
        MPI_Recv(&answer, 1, MPI_BYTE, pair->peer, 3, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    } else {
        MPI_Send(&answer, 1, MPI_BYTE, pair->peer, 3, MPI_COMM_WORLD);
    }
    return (MPI_Wtime() - start_s) / pair->window;
}

/* Returns the seconds per message for two full windows, one in each
 * direction. */
static double both_ways(const pair_t *pair)
{
    double start_s = MPI_Wtime();
    int size = (int)pair->size;

    for (unsigned i = 0; i < pair->window; ++i) {
        MPI_Irecv(pair->recv.mpi + i * pair->size, size, MPI_BYTE, pair->peer,
                  2, MPI_COMM_WORLD, &pair->requests[2 * i]);
        MPI_Isend(pair->send.mpi + i * pair->size, size, MPI_BYTE, pair->peer,
                  2, MPI_COMM_WORLD, &pair->requests[2 * i + 1]);
    }
    MPI_Waitall((int)(2 * pair->window), pair->requests, MPI_STATUSES_IGNORE);
    return (MPI_Wtime() - start_s) / (2.0 * pair->window);
}

/* `both`: both ranks receive. `times`: number of windows in a round. */
typedef struct kernel {
    double (*func)(const pair_t *pair);
    int both;
    unsigned times;
} kernel_t;

static const kernel_t kernels[] = {
    {ping_pong, 1, 2}, {stream, 0, 1}, {both_ways, 1, 2}};

enum { PING_PONG, STREAM, BOTH_WAYS };

/* Runs one iteration: fills, times and checks the messages. */
static void one_iteration(const pair_t *pair,
                          const mrail_bench_options_t *options,
                          const kernel_t *kernel, unsigned iteration,
                          int is_timed, mrail_bench_result_t *result)
{
    double time_s, slowest_s, cpu_s;

    fill_window(pair, iteration);
    MPI_Barrier(MPI_COMM_WORLD);
    cpu_s = mrail_bench_cpu_now();
    time_s = kernel->func(pair);
    cpu_s = mrail_bench_cpu_now() - cpu_s;
    if (options->corrupt && !pair->lower && pair->size > 0) {
        mrail_bench_buffer_corrupt(&pair->recv);
    }
    if (kernel->both || !pair->lower) {
        result->data_ok &= check_window(pair, iteration);
    }
    MPI_Allreduce(&time_s, &slowest_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (is_timed) {
        result->times_s[result->num_times++] = slowest_s;
        result->wall_s += slowest_s * pair->window * kernel->times;
        result->cpu_s += cpu_s;
    } else {
        result->warm_s += slowest_s * pair->window * kernel->times;
    }
}

/* Runs all rounds of one kernel. data_ok and cpu_s cover all ranks. If `halves`
 * is not NULL, it receives half of each timed round trip. */
static void run_kernel(pair_t *pair, const mrail_bench_options_t *options,
                       const kernel_t *kernel, double *halves,
                       mrail_bench_result_t *result)
{
    unsigned timed = mrail_bench_iterations(options, pair->size);
    unsigned warm = 0;
    double *scratch =
        mrail_bench_allocate(pair->window * sizeof(*pair->halves));
    double cpu_s;
    int ok;

    result->data_ok = 1;
    result->times_s = mrail_bench_allocate(timed * sizeof(double));
    pair->halves = scratch;
    for (; mrail_bench_is_cold(options, warm, result->warm_s); ++warm) {
        one_iteration(pair, options, kernel, warm, 0, result);
    }
    for (unsigned i = 0; i < timed; ++i) {
        pair->halves =
            (halves != NULL) ? halves + (size_t)i * pair->window : scratch;
        one_iteration(pair, options, kernel, warm + i, 1, result);
    }
    free(scratch);
    MPI_Allreduce(&result->cpu_s, &cpu_s, 1, MPI_DOUBLE, MPI_SUM,
                  MPI_COMM_WORLD);
    MPI_Allreduce(&result->data_ok, &ok, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    result->cpu_s = cpu_s;
    result->data_ok = ok;
}

/* The results of one size. */
typedef struct figures {
    mrail_bench_result_t latency, bandwidth;
    double p50_s, p99_s; /* over the individual half round trips of all pairs */
} figures_t;

/* Measures the latency. All ranks must call this function. The percentiles are
 * valid only on rank 0. */
static void run_latency(pair_t *pair, const mrail_bench_options_t *options,
                        figures_t *figures)
{
    unsigned num = mrail_bench_iterations(options, pair->size) * pair->window;
    unsigned all = num * (unsigned)pair->ranks / 2;
    double *halves = mrail_bench_allocate(num * sizeof(*halves));
    double *gathered =
        mrail_bench_allocate(2 * (size_t)all * sizeof(*gathered));

    run_kernel(pair, options, &kernels[PING_PONG], halves, &figures->latency);
    /* Only the lower ranks start round trips, and their values come first. */
    MPI_Gather(halves, (int)num, MPI_DOUBLE, gathered, (int)num, MPI_DOUBLE, 0,
               MPI_COMM_WORLD);
    if (pair->rank == 0) {
        figures->p50_s = mrail_bench_percentile(gathered, all, 50);
        figures->p99_s = mrail_bench_percentile(gathered, all, 99);
    }
    free(gathered);
    free(halves);
}

static void print_json(const mrail_bench_options_t *options, const pair_t *pair,
                       const figures_t *figures, double median_s,
                       double messages_per_s, const char *transport)
{
    mrail_json_t json = mrail_json_to(stdout);

    mrail_json_object(&json, NULL);
    mrail_json_string(&json, "what", "p2p");
    mrail_json_string(&json, "transport", transport);
    mrail_json_int(&json, "ranks", pair->ranks);
    mrail_json_uint(&json, "size", pair->size);
    mrail_json_uint(&json, "hotspot", 0);
    mrail_json_uint(&json, "iterations", figures->latency.num_times);
    mrail_json_uint(&json, "window", pair->window);
    mrail_json_bool(&json, "bidirectional", options->bidirectional);
    mrail_json_string(&json, "memory", mrail_bench_memory(options));
    mrail_json_real(&json, "median_s", median_s, 9);
    mrail_json_real(&json, "p50_s", figures->p50_s, 9);
    mrail_json_real(&json, "p99_s", figures->p99_s, 9);
    mrail_json_real(&json, "bytes_per_s", (double)pair->size * messages_per_s,
                    6);
    mrail_json_real(&json, "messages_per_s", messages_per_s, 6);
    mrail_json_fixed(&json, "cpu_load", mrail_bench_load(&figures->bandwidth),
                     3);
    mrail_json_bool(&json, "data_ok",
                    figures->latency.data_ok && figures->bandwidth.data_ok);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
}

static void print_result(const mrail_bench_options_t *options,
                         const pair_t *pair, figures_t *figures)
{
    double median_s = mrail_bench_median(figures->latency.times_s,
                                         figures->latency.num_times);
    double message_s = mrail_bench_median(figures->bandwidth.times_s,
                                          figures->bandwidth.num_times);
    double messages_per_s = pair->ranks / 2 / message_s;
    int ok = figures->latency.data_ok && figures->bandwidth.data_ok;
    char transport[256];

    mrail_bench_transport(transport, sizeof(transport));
    if (options->json) {
        print_json(options, pair, figures, median_s, messages_per_s, transport);
    } else {
        printf("%12zu %12.2f %10.2f %12.1f %12.0f %6.0f %%  %s\n", pair->size,
               median_s * 1e6, figures->p99_s * 1e6,
               (double)pair->size * messages_per_s / 1e6, messages_per_s,
               mrail_bench_load(&figures->bandwidth) * 100,
               ok ? "ok" : "WRONG");
    }
    fflush(stdout);
}

static void print_header(const mrail_bench_options_t *options, int ranks)
{
    char transport[256];

    mrail_bench_transport(transport, sizeof(transport));
    printf("# messages between %d pairs of ranks%s, %s", ranks / 2,
           options->bidirectional ? ", stream both ways" : "", transport);
    mrail_bench_print_iterations(options);
    printf(", %s memory\n", mrail_bench_memory(options));
    printf("# %10s %12s %10s %12s %12s %8s  %s\n", "bytes", "1/2 rtt us",
           "p99 us", "MB/s, all", "messages/s", "cpu", "data");
}

/* Returns the number of messages in a window of at most `bytes` bytes, at least
 * 1. */
static unsigned window_of(uint64_t size, uint64_t bytes, unsigned wanted)
{
    return (unsigned)MRAIL_MAX(MRAIL_MIN(bytes / MRAIL_MAX(size, 1), wanted),
                               1);
}

static int bench_size(pair_t *pair, const mrail_bench_options_t *options,
                      uint64_t size)
{
    unsigned window = window_of(size, MEMORY_MAX, options->window);
    figures_t figures = {.p50_s = 0};
    size_t bytes = (size_t)size * window;

    pair->size = (size_t)size;
    mrail_bench_buffer_init(&pair->send, bytes, options->memory);
    mrail_bench_buffer_init(&pair->recv, bytes, options->memory);
    pair->requests = mrail_bench_allocate(2 * window * sizeof(*pair->requests));
    /* A single round trip of a large message takes long enough to be timed
     * accurately. */
    pair->phase = 0;
    pair->window = window_of(size, PINGS_MAX, window);
    run_latency(pair, options, &figures);
    pair->phase = 1;
    pair->window = window;
    run_kernel(pair, options,
               &kernels[options->bidirectional ? BOTH_WAYS : STREAM], NULL,
               &figures.bandwidth);
    if (pair->rank == 0) {
        print_result(options, pair, &figures);
    }
    free(figures.latency.times_s);
    free(figures.bandwidth.times_s);
    mrail_bench_buffer_cleanup(&pair->send);
    mrail_bench_buffer_cleanup(&pair->recv);
    free(pair->requests);
    return !(figures.latency.data_ok && figures.bandwidth.data_ok);
}

/* Without CUDA support, UCX mistakes device memory for host memory, and the
 * ranks crash. */
static int moves_device_memory(void)
{
    const char *tls = getenv("UCX_TLS");

    return tls == NULL || strstr(tls, "cuda") != NULL;
}

int mrail_bench_p2p(const mrail_bench_options_t *options)
{
    pair_t pair = {0};
    int wrong = 0;
    int half;

    MPI_Comm_size(MPI_COMM_WORLD, &pair.ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &pair.rank);
    half = pair.ranks / 2;
    if (pair.ranks % 2 != 0) {
        if (pair.rank == 0) {
            fprintf(
                stderr,
                "mrail bench: p2p requires an even number of ranks, not %d\n",
                pair.ranks);
        }
        return 1;
    }
    if (options->memory != MRAIL_BENCH_HOST && !moves_device_memory()) {
        if (pair.rank == 0) {
            fprintf(
                stderr,
                "mrail bench: p2p of device memory requires a UCX with CUDA "
                "support, and cuda_copy in UCX_TLS\n");
        }
        return 1;
    }
    pair.lower = pair.rank < half;
    pair.peer = pair.lower ? pair.rank + half : pair.rank - half;
    if (pair.rank == 0 && !options->json) {
        print_header(options, pair.ranks);
    }
    for (unsigned i = 0; i < options->num_sizes; ++i) {
        if (options->sizes[i] > INT_MAX) {
            fprintf(stderr, "mrail bench: messages are limited to 2 GiB\n");
            return 1;
        }
        wrong |= bench_size(&pair, options, options->sizes[i]);
    }
    return wrong;
}
