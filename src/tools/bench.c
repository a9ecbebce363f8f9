/*
 * Implements mrail bench: parses the options and runs one area. Under mpirun or
 * srun, the process is a rank. Started directly with -np, it starts its ranks
 * through `mrail run`.
 */
#include "config.h"
#include "tools/bench.h"

#include "base/launch.h"
#include "base/number.h"
#include "tools/moe.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <errno.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "bench"
#define MAX_SIZE ((uint64_t)1 << 31)
#define MAX_COUNT 1000000

typedef int (*area_func_t)(const mrail_bench_options_t *options);

typedef struct area {
    const char *name;
    area_func_t func;
    const char *sizes;
    int pairs; /* 1 if the area needs an even number of ranks */
} area_t;

static const area_t areas[] = {
    {"alltoallv", mrail_bench_alltoallv, "64k,1m,4m,16m", 0},
    {"moe", mrail_bench_moe, "2k,8k", 0},
    {"p2p", mrail_bench_p2p, "8,1k,8k,64k,1m,4m", 1},
};

/* In the order of the values of --dst. */
typedef enum bench_dst {
    DST_SHIFT,
    DST_SINGLE,
    DST_BOTH,
    DST_NONE
} bench_dst_t;

typedef struct bench {
    const area_t *area;
    mrail_bench_options_t options;
    mrail_tool_args_t run; /* options for `mrail run`, if any */
    mrail_tool_args_t own; /* all other options, in order */
    const char *last_run;  /* last word passed to `mrail run`, or NULL */
    unsigned np;           /* 0 if not given */
    /* 1 if --soft was given, so that -np has a default */
    int soft;
    const char *sizes, *tokens, *hotspots, *skews; /* NULL if not given */
    unsigned dst;                                  /* bench_dst_t */
    unsigned memory;                               /* mrail_bench_memory_t */
} bench_t;

static void parse_sizes(bench_t *bench)
{
    mrail_bench_options_t *options = &bench->options;
    int is_moe = bench->area->func == mrail_bench_moe;
    const char *given = is_moe ? bench->tokens : bench->sizes;
    const char *name = is_moe ? "tokens" : "sizes";
    const char *list = (given != NULL) ? given : bench->area->sizes;
    int ret = mrail_number_sizes(list, MAX_SIZE - 1, options->sizes,
                                 MRAIL_BENCH_MAX_SIZES, &options->num_sizes);

    if (ret == -ENOSPC) {
        mrail_tool_usage(COMMAND, "--%s %s: at most %u %s can be given", name,
                         list, MRAIL_BENCH_MAX_SIZES, name);
    }
    if (ret != 0) {
        mrail_tool_usage(COMMAND,
                         "--%s %s: expected %s below 2g (digits, then k, "
                         "m or g) or ranges FIRST:LAST:FACTOR, with commas "
                         "between them",
                         name, list, name);
    }
}

static void add_skew(mrail_bench_options_t *options, uint32_t hotspot_ppm,
                     mrail_demand_pattern_t pattern)
{
    if (options->num_skews == MRAIL_BENCH_MAX_SKEWS) {
        mrail_tool_usage(COMMAND,
                         "--hotspot: at most %u fractions can be given",
                         MRAIL_BENCH_MAX_SKEWS);
    }
    options->skews[options->num_skews++] =
        (mrail_bench_skew_t){hotspot_ppm, pattern};
}

static void parse_hotspot(bench_t *bench, const char *text)
{
    mrail_bench_options_t *options = &bench->options;
    uint32_t hotspot_ppm;

    if (strcmp(text, "uniform") == 0) {
        add_skew(options, MRAIL_DEMAND_UNIFORM, MRAIL_DEMAND_SHIFT);
        return;
    }
    if (mrail_number_ppm(text, &hotspot_ppm) < 0) {
        mrail_tool_usage(
            COMMAND,
            "--hotspot %s: expected a fraction from 0 to 1 with at "
            "most six decimals, or 'uniform'",
            text);
    }
    if (bench->dst != DST_SINGLE) {
        add_skew(options, hotspot_ppm, MRAIL_DEMAND_SHIFT);
    }
    if (bench->dst != DST_SHIFT) {
        add_skew(options, hotspot_ppm, MRAIL_DEMAND_SINGLE);
    }
}

static void parse_skew(bench_t *bench, const char *text)
{
    mrail_bench_options_t *options = &bench->options;
    uint32_t skew_ppm;

    if (mrail_number_ppm(text, &skew_ppm) < 0 || skew_ppm == 1000000) {
        mrail_tool_usage(COMMAND,
                         "--skew %s: expected a fraction from 0 to below 1 "
                         "with at most six decimals",
                         text);
    }
    if (options->num_moe_skews == MRAIL_BENCH_MAX_SKEWS) {
        mrail_tool_usage(COMMAND, "--skew: at most %u values can be given",
                         MRAIL_BENCH_MAX_SKEWS);
    }
    options->moe_skews[options->num_moe_skews++] = skew_ppm;
}

/* Calls `parse` for each word of a comma-separated list. */
static void parse_list(bench_t *bench, const char *list,
                       void (*parse)(bench_t *bench, const char *word))
{
    char word[32];

    for (const char *p = list;; ++p) {
        size_t length = strcspn(p, ",");

        snprintf(word, sizeof(word), "%.*s", (int)length, p);
        parse(bench, word);
        p += length;
        if (*p == '\0') {
            return;
        }
    }
}

static void parse_capacity(void *target, const char *value)
{
    bench_t *bench = target;
    char *end;

    bench->options.capacity = strtod(value, &end);
    if (end == value || *end != '\0' || value[0] < '0' || value[0] > '9' ||
        bench->options.capacity > 1e6) {
        mrail_tool_usage(COMMAND,
                         "--capacity %s: expected a number from 0 to 1000000, "
                         "such as 1.25",
                         value);
    }
}

/* Reserves words for `mrail run`: an unknown option, or the word after an
 * unknown option. `mrail run` separates mpirun's options from its own. */
static unsigned take_for_run(void *target, char **argv)
{
    bench_t *bench = target;

    for (unsigned i = 0; bench->area == NULL && i < MRAIL_ARRAY_SIZE(areas);
         ++i) {
        if (strcmp(argv[0], areas[i].name) == 0) {
            bench->area = &areas[i];
            return 1;
        }
    }
    if (argv[0][0] != '-' && bench->last_run != argv[-1]) {
        if (bench->area == NULL) {
            mrail_tool_usage(
                COMMAND, "unknown area '%s': expected alltoallv, moe or p2p",
                argv[0]);
        }
        return 0;
    }
    bench->last_run = argv[0];
    bench->soft |= strncmp(argv[0], "--soft", strlen("--soft")) == 0;
    mrail_tool_args_add(&bench->run, argv[0]);
    return 1;
}

#define FIELD(_name) offsetof(bench_t, _name)

/* Passes our own options on to the ranks, except for -np. */
static void keep_for_ranks(void *target, const mrail_option_t *option,
                           char *const *words, unsigned num)
{
    bench_t *bench = target;

    for (unsigned i = 0; option->offset != FIELD(np) && i < num; ++i) {
        mrail_tool_args_add(&bench->own, words[i]);
    }
}

#define OPTION(_name) offsetof(bench_t, options._name)

static const mrail_option_t bench_options[] = {
    {.type = MRAIL_OPTION_HEADING,
     .help =
         "alltoallv: each rank sends SIZE bytes in total to the other ranks."},
    {"--hotspot", "F,...",
     "send the fraction F (0 to 1) to rank + P/2, and the rest in equal parts "
     "to the other ranks; 'uniform' sends equal parts to all (uniform). "
     "Several values are measured one after the other",
     MRAIL_OPTION_TEXT, FIELD(hotspots), 0, 0, NULL},
    {"--dst", "shift|single|both",
     "with --hotspot: send that fraction to rank + P/2 (shift), to rank 0 "
     "(single), or measure both one after the other (default: "
     "shift)",
     MRAIL_OPTION_CHOICE, FIELD(dst), 0, 0, NULL},
    {.type = MRAIL_OPTION_HEADING,
     .help = "p2p: rank r of the lower half exchanges messages with rank r + "
             "P/2: half\n  a round trip, then a stream. P must be even."},
    {"--window", "N",
     "messages in flight in the stream (default: 64), limited to 256 MiB",
     MRAIL_OPTION_UNSIGNED, OPTION(window), 1, MAX_COUNT, NULL},
    {"--bidirectional", NULL,
     "stream in both directions at the same time, and report the sum of the "
     "rates",
     MRAIL_OPTION_FLAG, OPTION(bidirectional), 0, 0, NULL},
    {.type = MRAIL_OPTION_HEADING,
     .help = "moe: a Mixture-of-Experts layer dispatches tokens to experts on "
             "other\n  ranks, computes, and combines the results."},
    {"--tokens", "LIST",
     "total tokens of all ranks, written like --sizes (default: 2k,8k)",
     MRAIL_OPTION_TEXT, FIELD(tokens), 0, 0, NULL},
    {"--hidden", "N", "2-byte elements per token (default: 4096)",
     MRAIL_OPTION_UNSIGNED, OPTION(hidden), 1, MAX_COUNT, NULL},
    {"--experts", "N",
     "number of experts, a multiple of the number of ranks (default: one per "
     "rank)",
     MRAIL_OPTION_UNSIGNED, OPTION(experts), 1, MRAIL_MOE_MAX_EXPERTS, NULL},
    {"--top-k", "N", "number of experts that process a token (default: 2)",
     MRAIL_OPTION_UNSIGNED, OPTION(top_k), 1, MRAIL_MOE_MAX_EXPERTS, NULL},
    {"--skew", "F,...",
     "probability, from 0 to below 1, that the first expert of a token is "
     "expert 0; several values are measured one after the other (default: "
     "0,0.5,0.9)",
     MRAIL_OPTION_TEXT, FIELD(skews), 0, 0, NULL},
    {"--capacity", "F",
     "make experts drop tokens beyond F times their even share; the default, "
     "0, means no limit",
     MRAIL_OPTION_CALL, 0, 0, 0, parse_capacity},
    {"--token-ns", "N",
     "nanoseconds that a rank computes for each token (default: 1000)",
     MRAIL_OPTION_UNSIGNED, OPTION(token_ns), 0, 1000000000, NULL},
    {"--seed", "N", "seed of the random choice of experts (default: 1)",
     MRAIL_OPTION_UINT64, OPTION(seed), 0, UINT64_MAX, NULL},
    {.type = MRAIL_OPTION_HEADING, .help = "All:"},
    /* order of mrail_bench_plan_t */
    {"--plan", "both|yes|no",
     "alltoallv, moe: whether plans are allowed (default: yes); both: moe "
     "measures each step with and without a plan, one directly after the other "
     "(default for moe)",
     MRAIL_OPTION_CHOICE, OPTION(plan), 0, 0, NULL},
    {"--sizes", "LIST",
     "alltoallv, p2p: comma-separated sizes in bytes, with k, m or g (KiB, "
     "MiB, GiB); FIRST:LAST:FACTOR is a range, such as 1:64m:2",
     MRAIL_OPTION_TEXT, FIELD(sizes), 0, 0, NULL},
    /* order of mrail_bench_memory_t */
    {"--memory", "host|device|managed",
     "allocate the buffers in this memory (default: host); with device and "
     "managed, rank i of a node uses GPU i",
     MRAIL_OPTION_CHOICE, FIELD(memory), 0, 0, NULL},
    {"--iterations", "N", "number of timed iterations (default: 10)",
     MRAIL_OPTION_UNSIGNED, OPTION(iterations), 1, MAX_COUNT, NULL},
    {"--small-iterations", "N",
     "number of timed iterations for sizes up to 8 KiB, whose times vary more "
     "(default: same as --iterations)",
     MRAIL_OPTION_UNSIGNED, OPTION(small_iterations), 1, MAX_COUNT, NULL},
    {"--warmup", "N",
     "minimum number of iterations before the timed ones (default: 2)",
     MRAIL_OPTION_UNSIGNED, OPTION(warmup), 0, MAX_COUNT, NULL},
    {"--warmup-time", "SECONDS",
     "minimum time of the iterations before the timed ones (0.5; 0 with "
     "--warmup, with --explain and for moe)",
     MRAIL_OPTION_SECONDS, OPTION(warmup_s), 0, 3600000, NULL},
    {"-np|--np|-n|--n|-c", "N", "number of ranks to start",
     MRAIL_OPTION_UNSIGNED, FIELD(np), 1, 1000000, NULL},
    {"--json", NULL, "print one JSON object per size, each on a line",
     MRAIL_OPTION_FLAG, OPTION(json), 0, 0, NULL},
    {"--explain", NULL,
     "print coll/mrail's forecast for each MPI_Alltoallv, whether it executes "
     "a plan, and the bytes of each link",
     MRAIL_OPTION_FLAG, OPTION(explain), 0, 0, NULL},
    {"--self-test-corrupt", NULL, NULL, MRAIL_OPTION_FLAG, OPTION(corrupt), 0,
     0, NULL},
    {.names = NULL}};

static const char *const synopsis[] = {
    "alltoallv|moe|p2p [-np N] [RUN OPTION...] [OPTION...]", NULL};

static const mrail_command_t command = {
    .name = COMMAND,
    .synopsis = synopsis,
    .about =
        "Times MPI operations, and checks every byte of every iteration outside\n"
        "the timed part. RUN OPTION is any option of mrail run, and thus of mpirun.\n"
        "Under mpirun, mrail run or srun, this process is one of the ranks.\n",
    .options = bench_options,
    .epilog = "Exit status: 0 done, 1 wrong data or failure, 2 usage.\n",
    .other = take_for_run,
    .took = keep_for_ranks};

/* The ranks check this again, because their number may be unknown here. */
static void check_experts(const bench_t *bench)
{
    unsigned np = (bench->np > 0) ? bench->np : 1;
    unsigned experts = bench->options.experts;
    const char *reason;

    if (experts == 0 && bench->np == 0) {
        return;
    }
    experts = (experts > 0) ? experts : np;
    reason = mrail_bench_moe_refusal(experts, bench->options.top_k, np);
    if (reason != NULL) {
        mrail_tool_usage(COMMAND, "%u experts on %u ranks: %s", experts, np,
                         reason);
    }
}

/* Lanes connect during the first exchanges, which must not be timed. */
static void choose_warmup(mrail_bench_options_t *options)
{
    int is_auto = (options->warmup == MRAIL_BENCH_AUTO);

    options->warmup = is_auto ? 2 : options->warmup;
    if (options->warmup_s < 0) {
        options->warmup_s = (is_auto && !options->explain) ? 0.5 : 0;
    }
}

static void choose_plan(bench_t *bench)
{
    int is_moe = bench->area->func == mrail_bench_moe;

    if (bench->options.plan == MRAIL_BENCH_PLAN_UNSET) {
        bench->options.plan =
            is_moe ? MRAIL_BENCH_PLAN_BOTH : MRAIL_BENCH_PLAN_YES;
    }
    if (!is_moe && bench->options.plan == MRAIL_BENCH_PLAN_BOTH) {
        mrail_tool_usage(COMMAND, "--plan both requires the area moe");
    }
}

static void parse_args(bench_t *bench, char **argv)
{
    mrail_options_parse(&command, argv, bench);
    if (bench->area == NULL) {
        mrail_tool_usage(COMMAND,
                         "missing area: expected alltoallv, moe or p2p");
    }
    if (bench->area->pairs && bench->np % 2 != 0) {
        mrail_tool_usage(
            COMMAND, "-np %u: p2p requires an even number of ranks", bench->np);
    }
    if (bench->area->func == mrail_bench_moe) {
        check_experts(bench);
    }
    if (bench->dst != DST_NONE && bench->hotspots == NULL) {
        mrail_tool_usage(COMMAND, "--dst requires --hotspot F");
    }
    parse_sizes(bench);
    choose_warmup(&bench->options);
    choose_plan(bench);
    bench->options.memory = (mrail_bench_memory_t)bench->memory;
    bench->dst = (bench->dst == DST_NONE) ? DST_SHIFT : bench->dst;
    bench->hotspots = (bench->hotspots != NULL) ? bench->hotspots : "uniform";
    parse_list(bench, bench->hotspots, parse_hotspot);
    parse_list(bench, (bench->skews != NULL) ? bench->skews : "0,0.5,0.9",
               parse_skew);
}

/* Executes `mrail run RUN OPTIONS -- mrail-bench AREA OPTIONS`. */
static _Noreturn void start_ranks(const bench_t *bench)
{
    mrail_tool_args_t args = {0};
    char run[MRAIL_TOOL_PATH_MAX], self[MRAIL_TOOL_PATH_MAX];

    if (bench->np == 0 && !bench->soft) {
        mrail_tool_usage(
            COMMAND,
            "the number of ranks is missing; give -np N, or start the program "
            "with mrail run -np N -- mrail bench ...");
    }
    mrail_tool_installed(MRAIL_PKGLIBEXECDIR "/mrail-run", run, sizeof(run));
    mrail_tool_installed(MRAIL_PKGLIBEXECDIR "/mrail-bench", self,
                         sizeof(self));
    mrail_tool_args_add(&args, "run");
    if (bench->np > 0) {
        mrail_tool_args_add(&args, "-np");
        mrail_tool_args_addf(&args, "%u", bench->np);
    }
    for (unsigned i = 0; i < bench->run.count; ++i) {
        mrail_tool_args_add(&args, bench->run.items[i]);
    }
    mrail_tool_args_add(&args, "--");
    mrail_tool_args_add(&args, self);
    mrail_tool_args_add(&args, bench->area->name);
    for (unsigned i = 0; i < bench->own.count; ++i) {
        mrail_tool_args_add(&args, bench->own.items[i]);
    }
    execv(run, args.items);
    mrail_tool_fail(COMMAND, "%s: %s", run, strerror(errno));
}

int main(int argc, char **argv)
{
    bench_t bench = {.options = {.iterations = 10,
                                 .warmup = MRAIL_BENCH_AUTO,
                                 .warmup_s = -1,
                                 .window = 64,
                                 .hidden = 4096,
                                 .top_k = 2,
                                 .token_ns = 1000,
                                 .seed = 1,
                                 .plan = MRAIL_BENCH_PLAN_UNSET},
                     .dst = DST_NONE};
    int wrong;

    parse_args(&bench, argv);
    if (!mrail_launch_read(getenv).is_mpi) {
        start_ranks(&bench);
    }
    if (bench.run.count > 0) {
        mrail_tool_usage(
            COMMAND,
            "%s is not an option for ranks; put options of mpirun and mrail "
            "run before 'mrail bench'",
            bench.run.items[0]);
    }
    if (bench.options.explain) {
        setenv("OMPI_MCA_coll_mrail_verbose", "3", 0);
    }
    if (bench.options.memory != MRAIL_BENCH_HOST) {
        mrail_bench_device_open(); /* load the driver before coll/mrail looks
                                    * for it */
    }
    MPI_Init(NULL, NULL);
    wrong = bench.area->func(&bench.options);
    MPI_Finalize();
    return wrong ? MRAIL_TOOL_FAILED : 0;
}
