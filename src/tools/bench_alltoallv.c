/* Times and checks a skewed MPI_Alltoallv. */
#include "config.h"
#include "tools/bench.h"
#include "base/json.h"

#include "base/util.h"
#include "tools/bench_coll.h"
#include "tools/bench_uplinks.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct exchange {
    MPI_Comm comm; /* of the measured calls */
    int ranks, rank;
    int *send_counts, *send_offsets;
    int *recv_counts, *recv_offsets;
    mrail_bench_buffer_t send, recv;
    uint64_t send_bytes, recv_bytes;
    /* Time of the iterations of each size before the timed ones, for all skews
     * together. Lanes connect only once. */
    double warm_s[MRAIL_BENCH_MAX_SIZES];
    /* Time of the slowest rank in the job's first exchange, or 0 before it. */
    double first_s;
} exchange_t;

static int offsets_of(const int *counts, int ranks, int *offsets,
                      uint64_t *total_p)
{
    uint64_t total = 0;

    for (int i = 0; i < ranks; ++i) {
        if (total > INT_MAX) {
            return -1;
        }
        offsets[i] = (int)total;
        total += (uint64_t)counts[i];
    }
    *total_p = total;
    return 0;
}

/* Fills in the counts and offsets, and allocates the buffers, for one size.
 * Returns -1 if the size, a count or an offset does not fit into an int. */
static int exchange_init(exchange_t *ex, const mrail_bench_skew_t *skew,
                         uint64_t size, mrail_bench_memory_t memory)
{
    uint64_t *row = mrail_bench_allocate((size_t)ex->ranks * sizeof(*row));
    int ret;

    for (int from = 0; from < ex->ranks; ++from) {
        mrail_demand_row((unsigned)ex->ranks, (unsigned)from, size,
                         skew->hotspot_ppm, skew->pattern, row);
        if (row[ex->rank] > INT_MAX || size > INT_MAX) {
            free(row);
            return -1;
        }
        ex->recv_counts[from] = (int)row[ex->rank];
        for (int to = 0; from == ex->rank && to < ex->ranks; ++to) {
            ex->send_counts[to] = (int)row[to];
        }
    }
    free(row);
    ret = offsets_of(ex->send_counts, ex->ranks, ex->send_offsets,
                     &ex->send_bytes);
    ret |= offsets_of(ex->recv_counts, ex->ranks, ex->recv_offsets,
                      &ex->recv_bytes);
    if (ret == 0) {
        mrail_bench_buffer_init(&ex->send, ex->send_bytes, memory);
        mrail_bench_buffer_init(&ex->recv, ex->recv_bytes, memory);
    }
    return ret;
}

static void fill_all(const exchange_t *ex, uint64_t iteration)
{
    for (int to = 0; to < ex->ranks; ++to) {
        mrail_bench_buffer_fill(
            &ex->send, (size_t)ex->send_offsets[to],
            (size_t)ex->send_counts[to],
            mrail_bench_seed((unsigned)ex->rank, (unsigned)to, iteration));
    }
}

/* Returns 1 if every received byte equals the byte that its sender wrote. */
static int check_all(const exchange_t *ex, uint64_t iteration)
{
    for (int from = 0; from < ex->ranks; ++from) {
        size_t length = (size_t)ex->recv_counts[from];
        size_t mismatch = mrail_bench_buffer_check(
            &ex->recv, (size_t)ex->recv_offsets[from], length,
            mrail_bench_seed((unsigned)from, (unsigned)ex->rank, iteration));

        if (mismatch != length) {
            fprintf(stderr,
                    "mrail bench: rank %d, iteration %llu: wrong data from "
                    "rank %d at byte %zu of %zu\n",
                    ex->rank, (unsigned long long)iteration, from, mismatch,
                    length);
            return 0;
        }
    }
    return 1;
}

/* Returns the time of the slowest rank in seconds. */
static double one_iteration(exchange_t *ex,
                            const mrail_bench_options_t *options,
                            unsigned iteration, int is_timed,
                            mrail_bench_result_t *result)
{
    double time_s, slowest_s, cpu_s;

    fill_all(ex, iteration);
    MPI_Barrier(MPI_COMM_WORLD);
    cpu_s = mrail_bench_cpu_now();
    time_s = MPI_Wtime();
    MPI_Alltoallv(ex->send.mpi, ex->send_counts, ex->send_offsets, MPI_BYTE,
                  ex->recv.mpi, ex->recv_counts, ex->recv_offsets, MPI_BYTE,
                  ex->comm);
    time_s = MPI_Wtime() - time_s;
    cpu_s = mrail_bench_cpu_now() - cpu_s;
    if (options->corrupt && ex->rank == 0) {
        mrail_bench_buffer_corrupt(&ex->recv);
    }
    result->data_ok &= check_all(ex, iteration);
    MPI_Allreduce(&time_s, &slowest_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (ex->first_s == 0) {
        ex->first_s = slowest_s;
    }
    if (is_timed) {
        result->times_s[result->num_times++] = slowest_s;
        result->wall_s += slowest_s;
        result->cpu_s += cpu_s;
    }
    return slowest_s;
}

/* Work of coll/mrail in the timed iterations over all ranks, as fractions from
 * 0 to 1. Negative values mean that the component is not loaded. */
typedef struct coll_fractions {
    double planned, relayed; /* fractions of the bytes sent */
    /* fraction of the time spent on agreement, including planning */
    double overhead;
} coll_fractions_t;

/* Returns the fractions of the measured calls. All ranks must call this
 * function, whose result is valid only on rank 0. */
static coll_fractions_t
fractions_of(const exchange_t *ex, const mrail_bench_options_t *options,
             const mrail_bench_result_t *result, const mrail_bench_coll_t *coll,
             const uint64_t before[MRAIL_BENCH_COLL_NUM])
{
    int is_planned = options->plan != MRAIL_BENCH_PLAN_NO;
    double bytes = (double)ex->send_bytes * result->num_times;
    uint64_t now[MRAIL_BENCH_COLL_NUM];
    double own[4] = {0}, all[4] = {0};

    mrail_bench_coll_read(coll, now);
    for (unsigned i = 0; i < MRAIL_BENCH_COLL_NUM; ++i) {
        now[i] -= before[i];
    }
    own[0] = bytes;
    own[1] = (double)now[MRAIL_BENCH_COLL_PLANNED_BYTES];
    own[2] = (double)now[MRAIL_BENCH_COLL_RELAYED_BYTES];
    own[3] = (double)now[MRAIL_BENCH_COLL_AGREE_NS] * 1e-9;
    MPI_Reduce(own, all, 4, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (!coll->present) {
        return (coll_fractions_t){-1, -1, -1};
    }
    return (coll_fractions_t){
        /* the counter includes unplanned exchanges of device memory */
        .planned = (is_planned && all[0] > 0) ? all[1] / all[0] : 0,
        .relayed = (all[0] > 0) ? all[2] / all[0] : 0,
        .overhead =
            (result->wall_s > 0) ? all[3] / (result->wall_s * ex->ranks) : 0};
}

/* Returns the bytes that plans have assigned to the rails of all ranks, and the
 * bytes that the rails have carried, since `before`. All ranks must call this
 * function, whose result is valid only on rank 0. */
static mrail_bench_coll_rails_t
rails_since(const mrail_bench_coll_t *coll,
            const mrail_bench_coll_rails_t *before)
{
    mrail_bench_coll_rails_t own, all;

    mrail_bench_coll_read_rails(coll, &own);
    for (unsigned i = 0; i < MRAIL_BENCH_COLL_RAILS; ++i) {
        own.planned[i] -= before->planned[i];
        own.carried[i] -= before->carried[i];
    }
    memset(&all, 0, sizeof(all));
    MPI_Reduce(&own, &all, sizeof(own) / sizeof(uint64_t), MPI_UINT64_T,
               MPI_SUM, 0, MPI_COMM_WORLD);
    return all;
}

static void json_rails(mrail_json_t *json,
                       const mrail_bench_coll_rails_t *rails)
{
    mrail_json_array(json, "rails");
    for (unsigned i = 0; i < MRAIL_BENCH_COLL_RAILS; ++i) {
        if (rails->planned[i] > 0 || rails->carried[i] > 0) {
            mrail_json_object(json, NULL);
            mrail_json_uint(json, "rail", i);
            mrail_json_uint(json, "planned_bytes", rails->planned[i]);
            mrail_json_uint(json, "carried_bytes", rails->carried[i]);
            mrail_json_object_end(json);
        }
    }
    mrail_json_array_end(json);
}

static void print_rails(const mrail_bench_coll_rails_t *rails)
{
    for (unsigned i = 0; i < MRAIL_BENCH_COLL_RAILS; ++i) {
        if (rails->planned[i] > 0 || rails->carried[i] > 0) {
            printf("# rail %u: %.3f MiB planned, %.3f MiB carried\n", i,
                   (double)rails->planned[i] / (1 << 20),
                   (double)rails->carried[i] / (1 << 20));
        }
    }
}

static const char *pattern_text(const mrail_bench_skew_t *skew)
{
    if (skew->hotspot_ppm == MRAIL_DEMAND_UNIFORM) {
        return "uniform";
    }
    return (skew->pattern == MRAIL_DEMAND_SINGLE) ? "single" : "shift";
}

/* Results of one size. Bus bandwidth is defined as in nccl-tests: the bytes
 * that a rank sends divided by the time. A correction is not necessary, because
 * ranks do not send bytes to themselves. */
typedef struct figures {
    double median_s, p50_s, p99_s, best_s, worst_s;
    double bytes_per_s;     /* all ranks together */
    double bus_bytes_per_s; /* one rank */
} figures_t;

static figures_t figures_of(mrail_bench_result_t *result, int ranks,
                            uint64_t size)
{
    double *times_s = result->times_s;
    unsigned num = result->num_times;
    figures_t figures = {.median_s = mrail_bench_median(times_s, num),
                         .p50_s = mrail_bench_percentile(times_s, num, 50),
                         .p99_s = mrail_bench_percentile(times_s, num, 99),
                         .best_s = times_s[0],
                         .worst_s = times_s[num - 1]};

    if (ranks > 1) {
        figures.bus_bytes_per_s = (double)size / figures.median_s;
        figures.bytes_per_s = figures.bus_bytes_per_s * ranks;
    }
    return figures;
}

static void print_json(const mrail_bench_options_t *options,
                       const mrail_bench_skew_t *skew, int ranks, uint64_t size,
                       const mrail_bench_result_t *result,
                       const figures_t *figures, double first_s,
                       const coll_fractions_t *coll_fractions,
                       const mrail_bench_coll_rails_t *rails)
{
    mrail_json_t json = mrail_json_to(stdout);
    char transport[256];

    mrail_bench_transport(transport, sizeof(transport));
    mrail_json_object(&json, NULL);
    mrail_json_string(&json, "what", "alltoallv");
    mrail_json_string(&json, "transport", transport);
    mrail_json_int(&json, "ranks", ranks);
    mrail_json_uint(&json, "size", size);
    mrail_json_real(&json, "hotspot",
                    (skew->hotspot_ppm == MRAIL_DEMAND_UNIFORM)
                        ? 0
                        : skew->hotspot_ppm / 1e6,
                    6);
    mrail_json_string(&json, "pattern", pattern_text(skew));
    mrail_json_string(&json, "memory", mrail_bench_memory(options));
    mrail_json_bool(&json, "plan", options->plan != MRAIL_BENCH_PLAN_NO);
    mrail_json_uint(&json, "iterations", result->num_times);
    mrail_json_real(&json, "median_s", figures->median_s, 9);
    mrail_json_real(&json, "p50_s", figures->p50_s, 9);
    mrail_json_real(&json, "p99_s", figures->p99_s, 9);
    mrail_json_real(&json, "best_s", figures->best_s, 9);
    mrail_json_real(&json, "worst_s", figures->worst_s, 9);
    mrail_json_real(&json, "first_s", first_s, 9);
    mrail_json_real(&json, "bytes_per_s", figures->bytes_per_s, 6);
    mrail_json_real(&json, "bus_bytes_per_s", figures->bus_bytes_per_s, 6);
    mrail_bench_share_json(&json, "planned", coll_fractions->planned);
    mrail_bench_share_json(&json, "relayed", coll_fractions->relayed);
    mrail_bench_share_json(&json, "planning_overhead",
                           coll_fractions->overhead);
    mrail_json_fixed(&json, "cpu_load", mrail_bench_load(result), 3);
    mrail_json_real(&json, "cpu_s", result->cpu_s / result->num_times, 9);
    json_rails(&json, rails);
    mrail_json_bool(&json, "data_ok", result->data_ok);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
}

static void print_row(uint64_t size, const mrail_bench_result_t *result,
                      const figures_t *figures,
                      const coll_fractions_t *coll_fractions)
{
    char planned[16], relayed[16], overhead[16];

    printf("%12llu %11.1f %10.1f %10.1f %9.1f %8s %8s %8s %5.0f %%  %s\n",
           (unsigned long long)size, figures->median_s * 1e6,
           figures->p99_s * 1e6, figures->bytes_per_s / 1e6,
           figures->bus_bytes_per_s / 1e6,
           mrail_bench_share_text(coll_fractions->planned, planned),
           mrail_bench_share_text(coll_fractions->relayed, relayed),
           mrail_bench_share_text(coll_fractions->overhead, overhead),
           mrail_bench_load(result) * 100, result->data_ok ? "ok" : "WRONG");
}

static void print_result(const mrail_bench_options_t *options,
                         const mrail_bench_skew_t *skew, const exchange_t *ex,
                         uint64_t size, mrail_bench_result_t *result,
                         const coll_fractions_t *coll_fractions,
                         const mrail_bench_coll_rails_t *rails)
{
    figures_t figures = figures_of(result, ex->ranks, size);

    if (options->json) {
        print_json(options, skew, ex->ranks, size, result, &figures,
                   ex->first_s, coll_fractions, rails);
    } else {
        print_row(size, result, &figures, coll_fractions);
        print_rails(rails);
    }
    fflush(stdout);
}

static void print_header(const mrail_bench_options_t *options,
                         const mrail_bench_skew_t *skew, int ranks)
{
    char transport[256];

    mrail_bench_transport(transport, sizeof(transport));
    printf("# MPI_Alltoallv, %d ranks, %s", ranks, transport);
    mrail_bench_print_iterations(options);
    printf(", %s memory, %s", mrail_bench_memory(options),
           (options->plan == MRAIL_BENCH_PLAN_NO) ? "without plans, " : "");
    if (skew->hotspot_ppm == MRAIL_DEMAND_UNIFORM) {
        printf("spread evenly\n");
    } else {
        printf("%g %% to %s\n", skew->hotspot_ppm / 1e4,
               (skew->pattern == MRAIL_DEMAND_SINGLE) ? "rank 0"
                                                      : "rank + P/2");
    }
    printf("# %10s %11s %10s %10s %9s %8s %8s %8s %7s  %s\n", "bytes/rank",
           "time us", "p99 us", "MB/s, all", "MB/s, bus", "planned", "relayed",
           "planning", "cpu", "data");
}

/* Returns 1 if any rank received wrong data. */
static int bench_size(exchange_t *ex, const mrail_bench_options_t *options,
                      const mrail_bench_skew_t *skew,
                      const mrail_bench_coll_t *coll, unsigned index)
{
    uint64_t size = options->sizes[index];
    mrail_bench_result_t result = {.data_ok = 1};
    uint64_t before[MRAIL_BENCH_COLL_NUM];
    mrail_bench_uplinks_t *uplinks = NULL;
    mrail_bench_coll_rails_t rails;
    coll_fractions_t coll_fractions;
    unsigned timed = mrail_bench_iterations(options, size);
    unsigned warm = 0;
    double cpu_s;
    int ok;

    if (exchange_init(ex, skew, size, options->memory) != 0) {
        fprintf(stderr,
                "mrail bench: %llu bytes per rank are too many: the counts and "
                "displacements of MPI_Alltoallv are limited to 2 GiB\n",
                (unsigned long long)size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    result.times_s = mrail_bench_allocate(timed * sizeof(double));
    for (; mrail_bench_is_cold(options, warm, ex->warm_s[index]); ++warm) {
        ex->warm_s[index] += one_iteration(ex, options, warm, 0, &result);
    }
    mrail_bench_coll_read(coll, before);
    mrail_bench_coll_read_rails(coll, &rails);
    uplinks = options->explain ? mrail_bench_uplinks_begin(coll) : NULL;
    for (unsigned i = 0; i < timed; ++i) {
        (void)one_iteration(ex, options, warm + i, 1, &result);
    }
    coll_fractions = fractions_of(ex, options, &result, coll, before);
    rails = rails_since(coll, &rails);
    MPI_Reduce(&result.cpu_s, &cpu_s, 1, MPI_DOUBLE, MPI_SUM, 0,
               MPI_COMM_WORLD);
    MPI_Allreduce(&result.data_ok, &ok, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    result.data_ok = ok;
    if (ex->rank == 0) {
        result.cpu_s = cpu_s;
        print_result(options, skew, ex, size, &result, &coll_fractions, &rails);
    }
    if (uplinks != NULL) {
        mrail_bench_uplinks_end(coll, uplinks, options->json);
    }
    free(result.times_s);
    mrail_bench_buffer_cleanup(&ex->send);
    mrail_bench_buffer_cleanup(&ex->recv);
    return !ok;
}

int mrail_bench_alltoallv(const mrail_bench_options_t *options)
{
    exchange_t ex = {0};
    mrail_bench_coll_t coll;
    int is_planned = options->plan != MRAIL_BENCH_PLAN_NO, wrong = 0;
    size_t ints;

    mrail_bench_coll_open(&coll);
    ex.comm = is_planned ? MPI_COMM_WORLD : mrail_bench_coll_unplanned();
    MPI_Comm_size(MPI_COMM_WORLD, &ex.ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &ex.rank);
    ints = (size_t)ex.ranks * sizeof(int);
    ex.send_counts = mrail_bench_allocate(ints);
    ex.send_offsets = mrail_bench_allocate(ints);
    ex.recv_counts = mrail_bench_allocate(ints);
    ex.recv_offsets = mrail_bench_allocate(ints);
    for (unsigned i = 0; i < options->num_skews; ++i) {
        const mrail_bench_skew_t *skew = &options->skews[i];

        if (ex.rank == 0 && !options->json) {
            print_header(options, skew, ex.ranks);
        }
        for (unsigned k = 0; k < options->num_sizes; ++k) {
            wrong |= bench_size(&ex, options, skew, &coll, k);
        }
    }
    free(ex.send_counts);
    free(ex.send_offsets);
    free(ex.recv_counts);
    free(ex.recv_offsets);
    if (!is_planned) {
        MPI_Comm_free(&ex.comm);
    }
    mrail_bench_coll_close(&coll);
    return wrong;
}
