/*
 * Times the communication of a Mixture-of-Experts layer with expert
 * parallelism: dispatch (MPI_Alltoallv to the ranks of the experts) and combine
 * (MPI_Alltoallv back). Between them, a kernel that takes a given time, or a wait
 * of the host, replaces the computation of the experts. Source: [NIMBLE] V-D.
 *
 * Each step has its own routing. It runs on a communicator whose exchanges may
 * be planned, and directly before or after that on a communicator without
 * plans. Other work on the machine therefore disturbs both runs equally.
 */
#include "config.h"
#include "tools/bench_moe.h"

#include "tools/bench_kernels.h"

#include "base/util.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- demands ---- */

static void side_init(mrail_moe_side_t *side, int ranks)
{
    side->counts = mrail_bench_allocate((size_t)ranks * sizeof(int));
    side->offsets = mrail_bench_allocate((size_t)ranks * sizeof(int));
}

static void side_cleanup(mrail_moe_side_t *side)
{
    free(side->counts);
    free(side->offsets);
}

/* Sets the count of each rank from copies[i * stride]. */
static void side_set(mrail_moe_side_t *side, int ranks, const uint64_t *copies,
                     size_t stride)
{
    side->tokens = 0;
    for (int i = 0; i < ranks; ++i) {
        side->counts[i] = (int)copies[(size_t)i * stride];
        side->offsets[i] = (int)side->tokens;
        side->tokens += copies[(size_t)i * stride];
    }
}

/* Returns the bytes of a step between different ranks. */
static double bytes_between(const mrail_moe_layer_t *layer)
{
    size_t ranks = (size_t)layer->ranks;
    uint64_t copies = 0;

    for (size_t i = 0; i < ranks * ranks; ++i) {
        copies += (i / ranks != i % ranks) ? layer->copies[i] : 0;
    }
    return (double)copies * (double)layer->token_bytes;
}

/* Generates the random routing of a step. */
static uint64_t layer_route(mrail_moe_layer_t *layer, unsigned step)
{
    size_t rank = (size_t)layer->rank, ranks = (size_t)layer->ranks;
    uint64_t dropped =
        mrail_moe_route(&layer->moe, step, layer->copies, layer->load);

    side_set(&layer->owners, layer->ranks, layer->copies + rank * ranks, 1);
    side_set(&layer->experts, layer->ranks, layer->copies + rank, ranks);
    return dropped;
}

static void side_allocate(mrail_moe_side_t *side, uint64_t bytes,
                          mrail_bench_memory_t memory)
{
    for (int i = 0; i < MRAIL_MOE_NUM_EXCHANGES; ++i) {
        mrail_bench_buffer_init(&side->buffers[i], bytes, memory);
    }
}

static void side_free(mrail_moe_side_t *side)
{
    for (int i = 0; i < MRAIL_MOE_NUM_EXCHANGES; ++i) {
        mrail_bench_buffer_cleanup(&side->buffers[i]);
    }
}

/* Allocates buffers that are large enough for all steps. Returns -1 if the
 * token copies of all ranks might not fit into an int. */
static int layer_allocate(mrail_moe_layer_t *layer,
                          const mrail_bench_options_t *options, unsigned steps)
{
    uint64_t out = 0, in = 0;

    if (layer->moe.tokens * layer->moe.top_k > INT_MAX) {
        return -1;
    }
    for (unsigned step = 0; step < steps; ++step) {
        layer_route(layer, step);
        out = MRAIL_MAX(out, layer->owners.tokens);
        in = MRAIL_MAX(in, layer->experts.tokens);
    }
    side_allocate(&layer->owners, out * layer->token_bytes, options->memory);
    side_allocate(&layer->experts, in * layer->token_bytes, options->memory);
    return 0;
}

/* ---- data ---- */

/* `phase` and `mode` distinguish the data of a step, so that bytes left over
 * from an earlier exchange are wrong. */
static uint64_t seed_of(int from, int to, unsigned step, int phase, int mode)
{
    return mrail_bench_seed((unsigned)from, (unsigned)to,
                            4 * (uint64_t)step + 2 * (unsigned)phase +
                                (unsigned)mode);
}

static void side_fill(const mrail_moe_layer_t *layer,
                      const mrail_moe_side_t *side, unsigned step, int phase,
                      int mode)
{
    for (int to = 0; to < layer->ranks; ++to) {
        mrail_bench_buffer_fill(&side->buffers[phase],
                                (size_t)side->offsets[to] * layer->token_bytes,
                                (size_t)side->counts[to] * layer->token_bytes,
                                seed_of(layer->rank, to, step, phase, mode));
    }
}

static int side_check(const mrail_moe_layer_t *layer,
                      const mrail_moe_side_t *side, unsigned step, int phase,
                      int mode)
{
    for (int from = 0; from < layer->ranks; ++from) {
        size_t length = (size_t)side->counts[from] * layer->token_bytes;
        size_t at = mrail_bench_buffer_check(
            &side->buffers[phase],
            (size_t)side->offsets[from] * layer->token_bytes, length,
            seed_of(from, layer->rank, step, phase, mode));

        if (at != length) {
            fprintf(stderr,
                    "mrail bench: rank %d, iteration %u: %s: wrong data from "
                    "rank %d at byte %zu of %zu\n",
                    layer->rank, step,
                    (phase == MRAIL_MOE_COMBINE) ? "combine" : "dispatch", from,
                    at, length);
            return 0;
        }
    }
    return 1;
}

/* ---- one step ---- */

static void exchange(const mrail_moe_layer_t *layer,
                     const mrail_moe_side_t *out, const mrail_moe_side_t *in,
                     int phase, MPI_Comm comm)
{
    MPI_Alltoallv(out->buffers[phase].mpi, out->counts, out->offsets,
                  layer->token, in->buffers[phase].mpi, in->counts, in->offsets,
                  layer->token, comm);
}

int mrail_bench_moe_has_kernel(const mrail_moe_layer_t *layer)
{
    return mrail_bench_buffer_has_kernels(
        &layer->experts.buffers[MRAIL_MOE_DISPATCH]);
}

/* Takes as long as the experts of this rank need for their tokens. */
static void compute(const mrail_moe_layer_t *layer, unsigned token_ns)
{
    uint64_t ns = layer->experts.tokens * token_ns;
    struct timespec left = {(time_t)(ns / 1000000000u),
                            (long)(ns % 1000000000u)};

    if (ns == 0) {
        return;
    }
    if (mrail_bench_moe_has_kernel(layer)) {
        mrail_bench_kernels_run(ns);
        return;
    }
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* Runs and times one layer. The barrier before combine excludes the wait for
 * the slowest experts from the time of combine. */
static void run_layer(const mrail_moe_run_t *run, MPI_Comm comm,
                      double times_s[])
{
    const mrail_moe_layer_t *layer = &run->layer;
    double at_s[5];

    MPI_Barrier(comm);
    at_s[0] = MPI_Wtime();
    exchange(layer, &layer->owners, &layer->experts, MRAIL_MOE_DISPATCH, comm);
    at_s[1] = MPI_Wtime();
    compute(layer, run->options->token_ns);
    at_s[2] = MPI_Wtime();
    MPI_Barrier(comm);
    at_s[3] = MPI_Wtime();
    exchange(layer, &layer->experts, &layer->owners, MRAIL_MOE_COMBINE, comm);
    at_s[4] = MPI_Wtime();
    times_s[MRAIL_MOE_DISPATCH] = at_s[1] - at_s[0];
    times_s[MRAIL_MOE_COMPUTE] = at_s[2] - at_s[1];
    times_s[MRAIL_MOE_COMBINE] = at_s[4] - at_s[3];
    times_s[MRAIL_MOE_BLOCK] = at_s[4] - at_s[0];
}

static void record(mrail_moe_run_t *run, mrail_moe_mode_t *mode, unsigned at,
                   const double times_s[])
{
    double bytes = bytes_between(&run->layer);

    for (int phase = 0; phase < MRAIL_MOE_NUM_PHASES; ++phase) {
        mode->times_s[phase][at] = times_s[phase];
    }
    for (int phase = 0; phase < MRAIL_MOE_NUM_EXCHANGES; ++phase) {
        mode->rates[phase][at] = bytes / times_s[phase];
    }
    mode->bytes += 2 * bytes;
}

/* Adds the bytes of this rank that plans have moved since `before`. */
static void count(const mrail_moe_run_t *run, mrail_moe_mode_t *mode,
                  const uint64_t before[MRAIL_BENCH_COLL_NUM])
{
    uint64_t now[MRAIL_BENCH_COLL_NUM];

    mrail_bench_coll_read(&run->coll, now);
    mode->planned_bytes += (double)(now[MRAIL_BENCH_COLL_PLANNED_BYTES] -
                                    before[MRAIL_BENCH_COLL_PLANNED_BYTES]);
    mode->relayed_bytes += (double)(now[MRAIL_BENCH_COLL_RELAYED_BYTES] -
                                    before[MRAIL_BENCH_COLL_RELAYED_BYTES]);
}

static void run_mode(mrail_moe_run_t *run, int which, unsigned step)
{
    const mrail_bench_options_t *options = run->options;
    mrail_moe_layer_t *layer = &run->layer;
    mrail_moe_mode_t *mode = &run->modes[which];
    uint64_t before[MRAIL_BENCH_COLL_NUM];
    double own_s[MRAIL_MOE_NUM_PHASES], times_s[MRAIL_MOE_NUM_PHASES];

    side_fill(layer, &layer->owners, step, MRAIL_MOE_DISPATCH, which);
    side_fill(layer, &layer->experts, step, MRAIL_MOE_COMBINE, which);
    mrail_bench_coll_read(&run->coll, before);
    run_layer(run, mode->comm, own_s);
    if (options->corrupt && layer->rank == 0) {
        mrail_bench_buffer_corrupt(&layer->experts.buffers[MRAIL_MOE_DISPATCH]);
    }
    run->data_ok &=
        side_check(layer, &layer->experts, step, MRAIL_MOE_DISPATCH, which) &&
        side_check(layer, &layer->owners, step, MRAIL_MOE_COMBINE, which);
    MPI_Allreduce(own_s, times_s, MRAIL_MOE_NUM_PHASES, MPI_DOUBLE, MPI_MAX,
                  MPI_COMM_WORLD);
    if (step >= options->warmup) {
        count(run, mode, before);
        record(run, mode, step - options->warmup, times_s);
    }
}

/* Runs a step in each mode. Each mode goes first in every other step. */
static void run_step(mrail_moe_run_t *run, unsigned step)
{
    mrail_moe_layer_t *layer = &run->layer;
    double all = (double)layer->moe.tokens * layer->moe.top_k, hottest = 0;
    uint64_t dropped = layer_route(layer, step);

    for (unsigned i = 0; i < layer->moe.experts; ++i) {
        hottest = MRAIL_MAX(hottest, (double)layer->load[i]);
    }
    if (step >= run->options->warmup) {
        run->dropped += (double)dropped / all;
        run->hottest += hottest / all;
    }
    for (unsigned i = 0; i < MRAIL_MOE_NUM_MODES; ++i) {
        int which = (int)((i + step) % MRAIL_MOE_NUM_MODES);

        if (run->modes[which].is_used) {
            run_mode(run, which, step);
        }
    }
}

/* ---- the run ---- */

static void mode_begin(mrail_moe_mode_t *mode, unsigned steps)
{
    mode->bytes = mode->planned_bytes = mode->relayed_bytes = 0;
    for (int phase = 0; phase < MRAIL_MOE_NUM_PHASES; ++phase) {
        mode->times_s[phase] = mrail_bench_allocate(steps * sizeof(double));
    }
    for (int i = 0; i < MRAIL_MOE_NUM_EXCHANGES; ++i) {
        mode->rates[i] = mrail_bench_allocate(steps * sizeof(double));
    }
}

static void mode_end(mrail_moe_mode_t *mode)
{
    for (int phase = 0; phase < MRAIL_MOE_NUM_PHASES; ++phase) {
        free(mode->times_s[phase]);
    }
    for (int i = 0; i < MRAIL_MOE_NUM_EXCHANGES; ++i) {
        free(mode->rates[i]);
    }
}

/* Sums the counts of all ranks. */
static void sum_up(mrail_moe_run_t *run)
{
    int ok;

    for (int which = 0; which < MRAIL_MOE_NUM_MODES; ++which) {
        mrail_moe_mode_t *mode = &run->modes[which];
        double own[] = {mode->planned_bytes, mode->relayed_bytes}, all[2] = {0};

        MPI_Reduce(own, all, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        mode->planned_bytes = all[0];
        mode->relayed_bytes = all[1];
    }
    MPI_Allreduce(&run->data_ok, &ok, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    run->data_ok = ok;
}

/* Returns 1 if any rank received wrong data. */
static int run_tokens(mrail_moe_run_t *run)
{
    const mrail_bench_options_t *options = run->options;
    mrail_moe_layer_t *layer = &run->layer;
    unsigned total = options->warmup + options->iterations;

    run->num_steps = options->iterations;
    run->dropped = run->hottest = 0;
    run->data_ok = 1;
    if (layer_allocate(layer, options, total) < 0) {
        fprintf(stderr,
                "mrail bench: --tokens times --top-k must be below 2^31\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int which = 0; which < MRAIL_MOE_NUM_MODES; ++which) {
        mode_begin(&run->modes[which], options->iterations);
    }
    for (unsigned step = 0; step < total; ++step) {
        mrail_bench_progress(layer->rank, step, total);
        run_step(run, step);
    }
    sum_up(run);
    if (layer->rank == 0) {
        mrail_bench_moe_show(run);
    }
    for (int which = 0; which < MRAIL_MOE_NUM_MODES; ++which) {
        mode_end(&run->modes[which]);
    }
    side_free(&layer->owners);
    side_free(&layer->experts);
    return !run->data_ok;
}

static void create_comms(mrail_moe_run_t *run)
{
    unsigned plan = run->options->plan;

    run->modes[MRAIL_MOE_PLANNED].is_used = plan != MRAIL_BENCH_PLAN_NO;
    run->modes[MRAIL_MOE_UNPLANNED].is_used = plan != MRAIL_BENCH_PLAN_YES;
    run->modes[MRAIL_MOE_UNPLANNED].comm = mrail_bench_coll_unplanned();
    MPI_Comm_dup(MPI_COMM_WORLD, &run->modes[MRAIL_MOE_PLANNED].comm);
}

const char *mrail_bench_moe_refusal(unsigned experts, unsigned top_k,
                                    unsigned ranks)
{
    if (experts % ranks != 0) {
        return "the number of experts must be a multiple of the number of "
               "ranks";
    }
    return (top_k > experts) ? "--top-k exceeds the number of experts" : NULL;
}

static void run_init(mrail_moe_run_t *run)
{
    const mrail_bench_options_t *options = run->options;
    mrail_moe_layer_t *layer = &run->layer;
    size_t ranks;

    MPI_Comm_size(MPI_COMM_WORLD, &layer->ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &layer->rank);
    ranks = (size_t)layer->ranks;
    layer->moe = (mrail_moe_t){
        .ranks = (unsigned)ranks,
        .experts = (options->experts > 0) ? options->experts : (unsigned)ranks,
        .top_k = options->top_k,
        .capacity = options->capacity,
        .seed = options->seed};
    layer->token_bytes = 2 * (size_t)options->hidden; /* bfloat16 */
}

static void run_open(mrail_moe_run_t *run)
{
    mrail_moe_layer_t *layer = &run->layer;
    size_t ranks = (size_t)layer->ranks;

    layer->copies = mrail_bench_allocate(ranks * ranks * sizeof(uint64_t));
    layer->load =
        mrail_bench_allocate(2 * (size_t)layer->moe.experts * sizeof(uint64_t));
    side_init(&layer->owners, layer->ranks);
    side_init(&layer->experts, layer->ranks);
    MPI_Type_contiguous((int)layer->token_bytes, MPI_BYTE, &layer->token);
    MPI_Type_commit(&layer->token);
    mrail_bench_coll_open(&run->coll);
    create_comms(run);
}

static void run_close(mrail_moe_run_t *run)
{
    mrail_moe_layer_t *layer = &run->layer;

    MPI_Comm_free(&run->modes[MRAIL_MOE_PLANNED].comm);
    MPI_Comm_free(&run->modes[MRAIL_MOE_UNPLANNED].comm);
    mrail_bench_coll_close(&run->coll);
    MPI_Type_free(&layer->token);
    side_cleanup(&layer->owners);
    side_cleanup(&layer->experts);
    free(layer->copies);
    free(layer->load);
}

int mrail_bench_moe(const mrail_bench_options_t *options)
{
    mrail_moe_run_t run = {.options = options};
    mrail_moe_t *moe = &run.layer.moe;
    const char *reason;
    int wrong = 0;

    run_init(&run);
    reason = mrail_bench_moe_refusal(moe->experts, moe->top_k, moe->ranks);
    if (reason != NULL) {
        if (run.layer.rank == 0) {
            fprintf(stderr, "mrail bench: %u experts on %u ranks: %s\n",
                    moe->experts, moe->ranks, reason);
        }
        return 1;
    }
    run_open(&run);
    for (unsigned i = 0; i < options->num_moe_skews; ++i) {
        moe->skew_ppm = options->moe_skews[i];
        if (run.layer.rank == 0 && !options->json) {
            mrail_bench_moe_show_header(&run);
        }
        for (unsigned k = 0; k < options->num_sizes; ++k) {
            moe->tokens = options->sizes[k];
            wrong |= run_tokens(&run);
        }
    }
    run_close(&run);
    return wrong;
}
