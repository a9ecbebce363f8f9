/* The table and the JSON objects of mrail bench moe. */
#include "config.h"
#include "tools/bench_moe.h"

#include "base/json.h"
#include "base/util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Figures of a mode for the table and the JSON object. Speed-ups are medians
 * over the steps, of the time without a plan over the time with one. */
typedef struct figures {
    double phases_s[MRAIL_MOE_NUM_PHASES], rates[MRAIL_MOE_NUM_EXCHANGES];
    double planned, relayed;               /* fractions; negative if unknown */
    double speedups[MRAIL_MOE_NUM_PHASES]; /* 0 if there is no other mode */
} figures_t;

static double median_speedup(const mrail_moe_run_t *run, int phase)
{
    const mrail_moe_mode_t *modes = run->modes;
    double *ratios = mrail_bench_allocate(run->num_steps * sizeof(*ratios));
    double median;

    for (unsigned i = 0; i < run->num_steps; ++i) {
        ratios[i] = modes[MRAIL_MOE_UNPLANNED].times_s[phase][i] /
                    modes[MRAIL_MOE_PLANNED].times_s[phase][i];
    }
    median = mrail_bench_median(ratios, run->num_steps);
    free(ratios);
    return median;
}

/* Sorts the times of the mode. Call it only after the speed-ups have been
 * computed. */
static void figures_set(const mrail_moe_run_t *run, int which,
                        figures_t *figures)
{
    const mrail_moe_mode_t *mode = &run->modes[which];

    for (int phase = 0; phase < MRAIL_MOE_NUM_PHASES; ++phase) {
        figures->phases_s[phase] =
            mrail_bench_median(mode->times_s[phase], run->num_steps);
    }
    for (int i = 0; i < MRAIL_MOE_NUM_EXCHANGES; ++i) {
        figures->rates[i] = mrail_bench_median(mode->rates[i], run->num_steps);
    }
    figures->planned = figures->relayed = -1;
    if (run->coll.present) {
        double bytes = MRAIL_MAX(mode->bytes, 1);

        /* the counter includes unplanned exchanges of device memory */
        figures->planned =
            (which == MRAIL_MOE_PLANNED) ? mode->planned_bytes / bytes : 0;
        figures->relayed = mode->relayed_bytes / bytes;
    }
}

static const char *const phase_names[MRAIL_MOE_NUM_PHASES] = {
    "dispatch", "combine", "compute", "block"};

static void json_phases(mrail_json_t *json, const figures_t *figures)
{
    char key[64];

    for (int phase = 0; phase < MRAIL_MOE_NUM_PHASES; ++phase) {
        snprintf(key, sizeof(key), "%s_s", phase_names[phase]);
        mrail_json_real(json, key, figures->phases_s[phase], 9);
    }
    mrail_json_real(json, "dispatch_bytes_per_s",
                    figures->rates[MRAIL_MOE_DISPATCH], 6);
    mrail_json_real(json, "combine_bytes_per_s",
                    figures->rates[MRAIL_MOE_COMBINE], 6);
    for (int phase = 0; phase < MRAIL_MOE_NUM_PHASES; ++phase) {
        snprintf(key, sizeof(key), "%s_speedup", phase_names[phase]);
        if (phase == MRAIL_MOE_COMPUTE) {
            continue;
        }
        if (figures->speedups[phase] > 0) {
            mrail_json_fixed(json, key, figures->speedups[phase], 4);
        } else {
            mrail_json_null(json, key);
        }
    }
}

static void print_json(const mrail_moe_run_t *run, int which,
                       const figures_t *figures)
{
    const mrail_bench_options_t *options = run->options;
    const mrail_moe_t *moe = &run->layer.moe;
    mrail_json_t json = mrail_json_to(stdout);
    char transport[256];

    mrail_bench_transport(transport, sizeof(transport));
    mrail_json_object(&json, NULL);
    mrail_json_string(&json, "what", "moe");
    mrail_json_string(&json, "transport", transport);
    mrail_json_int(&json, "ranks", run->layer.ranks);
    mrail_json_uint(&json, "tokens", moe->tokens);
    mrail_json_uint(&json, "hidden", options->hidden);
    mrail_json_uint(&json, "experts", moe->experts);
    mrail_json_uint(&json, "top_k", moe->top_k);
    mrail_json_real(&json, "skew", moe->skew_ppm / 1e6, 6);
    mrail_json_real(&json, "capacity", moe->capacity, 6);
    mrail_json_uint(&json, "seed", moe->seed);
    mrail_json_string(&json, "memory", mrail_bench_memory(options));
    mrail_json_string(&json, "computation",
                      mrail_bench_moe_has_kernel(&run->layer) ? "kernel"
                                                              : "wait");
    mrail_json_bool(&json, "plan", which == MRAIL_MOE_PLANNED);
    mrail_json_uint(&json, "iterations", run->num_steps);
    json_phases(&json, figures);
    mrail_json_real(&json, "tokens_per_s",
                    (double)moe->tokens / figures->phases_s[MRAIL_MOE_BLOCK],
                    6);
    mrail_bench_share_json(&json, "planned", figures->planned);
    mrail_bench_share_json(&json, "relayed", figures->relayed);
    mrail_json_fixed(&json, "dropped", run->dropped / run->num_steps, 4);
    mrail_json_fixed(&json, "hottest", run->hottest / run->num_steps, 4);
    mrail_json_bool(&json, "data_ok", run->data_ok);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
}

static void print_row(const mrail_moe_run_t *run, int which,
                      const figures_t *figures)
{
    char planned[16], relayed[16];

    printf("%8llu %4s %11.1f %9.1f %11.1f %11.1f %9.1f %11.1f %8s %8s",
           (unsigned long long)run->layer.moe.tokens,
           (which == MRAIL_MOE_PLANNED) ? "yes" : "no",
           figures->phases_s[MRAIL_MOE_DISPATCH] * 1e6,
           figures->rates[MRAIL_MOE_DISPATCH] / 1e6,
           figures->phases_s[MRAIL_MOE_COMPUTE] * 1e6,
           figures->phases_s[MRAIL_MOE_COMBINE] * 1e6,
           figures->rates[MRAIL_MOE_COMBINE] / 1e6,
           figures->phases_s[MRAIL_MOE_BLOCK] * 1e6,
           mrail_bench_share_text(figures->planned, planned),
           mrail_bench_share_text(figures->relayed, relayed));
    if (figures->speedups[MRAIL_MOE_BLOCK] > 0) {
        printf("   x%-5.2f x%-5.2f x%-5.2f",
               figures->speedups[MRAIL_MOE_DISPATCH],
               figures->speedups[MRAIL_MOE_COMBINE],
               figures->speedups[MRAIL_MOE_BLOCK]);
    } else {
        printf("   %-6s %-6s %-6s", "-", "-", "-");
    }
    printf(" %s\n", run->data_ok ? "ok" : "WRONG");
}

void mrail_bench_moe_show_header(const mrail_moe_run_t *run)
{
    const mrail_bench_options_t *options = run->options;
    const mrail_moe_t *moe = &run->layer.moe;
    char transport[256];

    mrail_bench_transport(transport, sizeof(transport));
    printf("# MoE layer, %d ranks, %s", run->layer.ranks, transport);
    mrail_bench_print_iterations(options);
    printf(", %s memory\n# %u experts, top %u, skew %g, hidden size %u",
           mrail_bench_memory(options), moe->experts, moe->top_k,
           moe->skew_ppm / 1e6, options->hidden);
    if (moe->capacity > 0) {
        printf(", capacity %g", moe->capacity);
    }
    printf(", %u ns a token\n", options->token_ns);
    printf("# %6s %4s %11s %9s %11s %11s %9s %11s %8s %8s   %-20s %s\n",
           "tokens", "plan", "dispatch us", "MB/s", "compute us", "combine us",
           "MB/s", "block us", "planned", "relayed", "speed-up of the three",
           "data");
}

void mrail_bench_moe_show(mrail_moe_run_t *run)
{
    const mrail_moe_mode_t *modes = run->modes;
    double speedups[MRAIL_MOE_NUM_PHASES] = {0};

    if (modes[MRAIL_MOE_PLANNED].is_used &&
        modes[MRAIL_MOE_UNPLANNED].is_used) {
        for (int phase = 0; phase < MRAIL_MOE_NUM_PHASES; ++phase) {
            speedups[phase] = median_speedup(run, phase);
        }
    }
    for (int which = 0; which < MRAIL_MOE_NUM_MODES; ++which) {
        figures_t figures = {.planned = -1};

        if (!modes[which].is_used) {
            continue;
        }
        if (which == MRAIL_MOE_PLANNED) {
            memcpy(figures.speedups, speedups, sizeof(speedups));
        }
        figures_set(run, which, &figures);
        if (run->options->json) {
            print_json(run, which, &figures);
        } else {
            print_row(run, which, &figures);
        }
    }
    if (!run->options->json && run->dropped > 0) {
        printf("# %.1f %% of the copies were dropped\n",
               run->dropped / run->num_steps * 100);
    }
    fflush(stdout);
}
