/*
 * Messages between pairs of ranks, timed and checked: rank r of the lower half
 * with rank r + P/2.  Two figures for each size: half a round trip of one
 * message (a ping-pong over distinct buffers) and a one-way stream with a
 * window of messages under way.
 */
#include "config.h"
#include "tools/bench.h"
#include "tools/tool.h"

#include "base/util.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define MEMORY_MAX ((uint64_t)256 << 20) /* bytes of one window */
#define PINGS_MAX ((uint64_t)256 << 10)  /* bytes of one round of ping-pong */

typedef struct pair {
    int ranks, rank, peer;
    int lower;       /* 1: starts the ping-pong and sends the stream */
    unsigned window; /* messages of one round */
    unsigned phase;  /* makes the data of each kernel its own */
    size_t size;
    char *send, *recv; /* window messages each */
    MPI_Request *requests;
} pair_t;

static uint64_t message_seed(const pair_t *pair, int from, int to,
                             unsigned round, unsigned message)
{
    return mrail_bench_seed((unsigned)from, (unsigned)to,
                            ((uint64_t)pair->phase << 62) ^
                                ((uint64_t)round << 30) ^ message);
}

static void fill_window(const pair_t *pair, unsigned round)
{
    for (unsigned i = 0; i < pair->window; ++i) {
        mrail_bench_fill(pair->send + i * pair->size, pair->size,
                         message_seed(pair, pair->rank, pair->peer, round, i));
    }
}

static int check_window(const pair_t *pair, unsigned round)
{
    for (unsigned i = 0; i < pair->window; ++i) {
        size_t bad = mrail_bench_check(
            pair->recv + i * pair->size, pair->size,
            message_seed(pair, pair->peer, pair->rank, round, i));

        if (bad != pair->size) {
            fprintf(stderr,
                    "mrail bench: rank %d, round %u: wrong data from rank %d "
                    "at byte %zu of message %u of %zu bytes\n",
                    pair->rank, round, pair->peer, bad, i, pair->size);
            return 0;
        }
    }
    return 1;
}

/* Seconds of half a round trip, as the lower rank sees it. */
static double ping_pong(const pair_t *pair)
{
    double start_s = MPI_Wtime();
    int size = (int)pair->size;

    for (unsigned i = 0; i < pair->window; ++i) {
        char *send = pair->send + i * pair->size;
        char *recv = pair->recv + i * pair->size;

        if (pair->lower) {
            MPI_Send(send, size, MPI_BYTE, pair->peer, 1, MPI_COMM_WORLD);
            MPI_Recv(recv, size, MPI_BYTE, pair->peer, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(recv, size, MPI_BYTE, pair->peer, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
            MPI_Send(send, size, MPI_BYTE, pair->peer, 1, MPI_COMM_WORLD);
        }
    }
    return (MPI_Wtime() - start_s) / (2.0 * pair->window);
}

/* Seconds of one message of a full window, with the receiver's answer. */
static double stream(const pair_t *pair)
{
    double start_s = MPI_Wtime();
    int size = (int)pair->size;
    char answer = 0;

    for (unsigned i = 0; i < pair->window; ++i) {
        if (pair->lower) {
            MPI_Isend(pair->send + i * pair->size, size, MPI_BYTE, pair->peer,
                      2, MPI_COMM_WORLD, &pair->requests[i]);
        } else {
            MPI_Irecv(pair->recv + i * pair->size, size, MPI_BYTE, pair->peer,
                      2, MPI_COMM_WORLD, &pair->requests[i]);
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

typedef double (*kernel_func_t)(const pair_t *pair);

/* One round: fill, time, check.  `both`: both ranks receive. */
static void one_round(const pair_t *pair, const mrail_bench_options_t *options,
                      kernel_func_t kernel, int both, unsigned round,
                      mrail_bench_result_t *result)
{
    double time_s, slowest_s, cpu_s;

    fill_window(pair, round);
    MPI_Barrier(MPI_COMM_WORLD);
    cpu_s = mrail_bench_cpu_now();
    time_s = kernel(pair);
    cpu_s = mrail_bench_cpu_now() - cpu_s;
    if (options->corrupt && !pair->lower && pair->size > 0) {
        pair->recv[pair->size / 2] ^= 1;
    }
    if (both || !pair->lower) {
        result->data_ok &= check_window(pair, round);
    }
    MPI_Allreduce(&time_s, &slowest_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (round >= options->warmup) {
        result->times_s[result->num_times++] = slowest_s;
        result->wall_s += slowest_s * pair->window * (both ? 2 : 1);
        result->cpu_s += cpu_s;
    }
}

/* All rounds of one kernel; data_ok and cpu_s over all ranks. */
static void run_kernel(const pair_t *pair, const mrail_bench_options_t *options,
                       kernel_func_t kernel, int both,
                       mrail_bench_result_t *result)
{
    unsigned timed = mrail_bench_iterations(options, pair->size);
    unsigned total = options->warmup + timed;
    double cpu_s;
    int ok;

    result->data_ok = 1;
    result->times_s = mrail_bench_allocate(timed * sizeof(double));
    for (unsigned i = 0; i < total; ++i) {
        one_round(pair, options, kernel, both, i, result);
    }
    MPI_Allreduce(&result->cpu_s, &cpu_s, 1, MPI_DOUBLE, MPI_SUM,
                  MPI_COMM_WORLD);
    MPI_Allreduce(&result->data_ok, &ok, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    result->cpu_s = cpu_s;
    result->data_ok = ok;
}

static void print_result(const mrail_bench_options_t *options,
                         const pair_t *pair, mrail_bench_result_t *latency,
                         mrail_bench_result_t *bandwidth)
{
    double median_s = mrail_bench_median(latency->times_s, latency->num_times);
    double message_s =
        mrail_bench_median(bandwidth->times_s, bandwidth->num_times);
    int pairs = pair->ranks / 2;
    double rate = (double)pair->size * pairs / message_s;
    int ok = latency->data_ok && bandwidth->data_ok;
    char transport[256];

    mrail_bench_transport(transport, sizeof(transport));
    if (options->json) {
        printf("{\"what\": \"p2p\", \"transport\": ");
        mrail_tool_json_string(stdout, transport);
        printf(", \"ranks\": %d, "
               "\"size\": %zu, \"hotspot\": 0, \"iterations\": %u, "
               "\"window\": %u, \"median_s\": %.9g, \"bytes_per_s\": %.6g, "
               "\"messages_per_s\": %.6g, \"cpu_load\": %.3f, "
               "\"data_ok\": %s}\n",
               pair->ranks, pair->size, latency->num_times, pair->window,
               median_s, rate, pairs / message_s, mrail_bench_load(bandwidth),
               ok ? "true" : "false");
    } else {
        printf("%12zu %12.2f %12.1f %12.0f %6.0f %%  %s\n", pair->size,
               median_s * 1e6, rate / 1e6, pairs / message_s,
               mrail_bench_load(bandwidth) * 100, ok ? "ok" : "WRONG");
    }
    fflush(stdout);
}

static void print_header(const mrail_bench_options_t *options, int ranks)
{
    char transport[256];

    mrail_bench_transport(transport, sizeof(transport));
    printf("# messages between %d pairs of ranks, %s", ranks / 2, transport);
    mrail_bench_print_iterations(options);
    putchar('\n');
    printf("# %10s %12s %12s %12s %8s  %s\n", "bytes", "1/2 rtt us",
           "MB/s, all", "messages/s", "cpu", "data");
}

static int bench_size(pair_t *pair, const mrail_bench_options_t *options,
                      uint64_t size)
{
    mrail_bench_result_t latency = {0}, bandwidth = {0};
    unsigned window;
    size_t bytes;
    int ok;

    pair->size = (size_t)size;
    pair->window = options->window;
    if (size * pair->window > MEMORY_MAX) {
        pair->window = (unsigned)MRAIL_MAX(MEMORY_MAX / size, 1);
    }
    bytes = pair->size * pair->window;
    pair->send = mrail_bench_allocate(bytes);
    pair->recv = mrail_bench_allocate(bytes);
    pair->requests =
        mrail_bench_allocate(pair->window * sizeof(*pair->requests));
    /* A round trip of a large message needs no company to be timed well. */
    window = pair->window;
    pair->phase = 0;
    pair->window = (unsigned)MRAIL_MAX(
        MRAIL_MIN(PINGS_MAX / MRAIL_MAX(size, 1), window), 1);
    run_kernel(pair, options, ping_pong, 1, &latency);
    pair->phase = 1;
    pair->window = window;
    run_kernel(pair, options, stream, 0, &bandwidth);
    ok = latency.data_ok && bandwidth.data_ok;
    if (pair->rank == 0) {
        print_result(options, pair, &latency, &bandwidth);
    }
    free(latency.times_s);
    free(bandwidth.times_s);
    free(pair->send);
    free(pair->recv);
    free(pair->requests);
    return !ok;
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
            fprintf(stderr,
                    "mrail bench: p2p wants pairs, an even number of "
                    "ranks, not %d\n",
                    pair.ranks);
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
            fprintf(stderr, "mrail bench: messages end at 2 GiB\n");
            return 1;
        }
        wrong |= bench_size(&pair, options, options->sizes[i]);
    }
    return wrong;
}
