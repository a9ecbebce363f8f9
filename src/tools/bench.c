/*
 * mrail bench: options, then one area.  Under mpirun it is a rank; started by
 * hand with -np it starts itself through `mrail run`.
 */
#include "config.h"
#include "tools/bench.h"
#include "tools/tool.h"

#include <errno.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VERB "bench"
#define MAX_SIZE ((uint64_t)1 << 31)

static const char help_text[] =
    "Usage: mrail bench alltoallv|p2p [-np N] [RUN OPTION...] [OPTION...]\n"
    "       mrail run -np N [...] -- mrail bench alltoallv|p2p [OPTION...]\n"
    "\n"
    "Times MPI and checks every byte of every iteration, outside the timed\n"
    "part. Run options are those of mrail run, and so of mpirun.\n"
    "\n"
    "alltoallv: each rank sends SIZE bytes in all to the others.\n"
    "  --hotspot F,...    the fraction F (0 to 1) of it to rank + P/2, the\n"
    "                     rest evenly; without it, or 'even': all evenly.\n"
    "                     Several in turn\n"
    "  --dst WHERE        with --hotspot, the receiver of that fraction: shift\n"
    "                     (rank + P/2), single (rank 0), or both, one after the\n"
    "                     other (shift)\n"
    "p2p: rank r of the lower half and rank r + P/2, P even: half a round\n"
    "  trip, and a one-way stream.\n"
    "  --window N         messages under way in the stream (64); fewer where\n"
    "                     a window would pass 256 MiB\n"
    "Both:\n"
    "  --sizes LIST       bytes, comma-separated, suffixes k, m, g\n"
    "  --iterations N     timed (10)\n"
    "  --small-iterations N\n"
    "                     of sizes up to 8 KB (as --iterations), whose times\n"
    "                     vary more\n"
    "  --warmup N         before them (2)\n"
    "  --json             one object per size, on one line each\n"
    "  -h, --help         this text\n"
    "\n"
    "Exit status: 0 done, 1 wrong data or failure, 2 usage.\n";

typedef int (*area_func_t)(const mrail_bench_options_t *options);

typedef struct area {
    const char *name;
    area_func_t func;
    const char *sizes;
    int pairs; /* works on pairs of ranks */
} area_t;

static const area_t areas[] = {
    {"alltoallv", mrail_bench_alltoallv, "64k,1m,4m,16m", 0},
    {"p2p", mrail_bench_p2p, "8,1k,8k,64k,1m,4m", 1},
};

typedef struct bench {
    const area_t *area;
    mrail_bench_options_t options;
    mrail_tool_args_t run; /* for `mrail run`, if anything is given */
    mrail_tool_args_t own; /* the rest, in order */
    int run_last;          /* index of the last unknown word, or 0 */
    unsigned np;           /* 0: not given */
    int soft;              /* --soft is given: there is a default for np */
    const char *hotspots;  /* NULL: not given */
    const char *dst;       /* NULL: not given */
} bench_t;

static void parse_sizes(mrail_bench_options_t *options, const char *list)
{
    char word[32];

    options->num_sizes = 0;
    for (const char *p = list;; ++p) {
        size_t length = strcspn(p, ",");
        uint64_t *size_p = &options->sizes[options->num_sizes];

        if (options->num_sizes == MRAIL_BENCH_MAX_SIZES) {
            mrail_tool_usage(VERB, "--sizes: at most %u sizes",
                             MRAIL_BENCH_MAX_SIZES);
        }
        snprintf(word, sizeof(word), "%.*s", (int)length, p);
        if (length >= sizeof(word) ||
            mrail_tool_parse_size(word, MAX_SIZE - 1, size_p) < 0) {
            mrail_tool_usage(VERB,
                             "--sizes %s: '%s' is not a size below 2g "
                             "(digits, then k, m or g)",
                             list, word);
        }
        ++options->num_sizes;
        p += length;
        if (*p == '\0') {
            return;
        }
    }
}

static unsigned parse_count(const char *name, const char *text, unsigned min)
{
    uint64_t value;

    if (mrail_tool_parse_uint(text, min, 1000000, &value) < 0) {
        mrail_tool_usage(VERB, "%s %s: a number from %u to 1000000 is wanted",
                         name, text, min);
    }
    return (unsigned)value;
}

/* The value of option argv[*i_p]: behind '=' or the next word. */
static const char *value_of(char **argv, int *i_p, const char *name)
{
    size_t length = strlen(name);

    if (argv[*i_p][length] == '=') {
        return argv[*i_p] + length + 1;
    }
    if (argv[*i_p + 1] == NULL) {
        mrail_tool_usage(VERB, "%s wants a value", name);
    }
    return argv[++*i_p];
}

static int is_named(const char *word, const char *name)
{
    size_t length = strlen(name);

    return strncmp(word, name, length) == 0 &&
           (word[length] == '\0' || word[length] == '=');
}

/* 1 if argv[*i_p] says how many ranks there are. */
static int parse_np(bench_t *bench, char **argv, int *i_p)
{
    static const char *const names[] = {"-np", "--np", "-n", "--n", "-c"};

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(names); ++i) {
        if (strcmp(argv[*i_p], names[i]) == 0) {
            bench->np = parse_count("-np", value_of(argv, i_p, "-np"), 1);
            return 1;
        }
    }
    return 0;
}

/* Passes an unknown argument to `mrail run`, which separates mpirun's: an
 * option, or the word behind one. */
static void take_for_run(bench_t *bench, char **argv, int i)
{
    if (argv[i][0] != '-' && bench->run_last != i - 1) {
        mrail_tool_usage(VERB, "unknown argument '%s'", argv[i]);
    }
    bench->run_last = i;
    bench->soft |= is_named(argv[i], "--soft");
}

static void add_skew(mrail_bench_options_t *options, uint32_t hotspot_ppm,
                     mrail_demand_pattern_t pattern)
{
    if (options->num_skews == MRAIL_BENCH_MAX_SKEWS) {
        mrail_tool_usage(VERB, "--hotspot: at most %u in all",
                         MRAIL_BENCH_MAX_SKEWS);
    }
    options->skews[options->num_skews++] =
        (mrail_bench_skew_t){hotspot_ppm, pattern};
}

static void parse_hotspot(bench_t *bench, const char *text)
{
    mrail_bench_options_t *options = &bench->options;
    uint32_t hotspot_ppm;

    if (strcmp(text, "even") == 0) {
        add_skew(options, MRAIL_DEMAND_UNIFORM, MRAIL_DEMAND_SHIFT);
        return;
    }
    if (mrail_tool_parse_ppm(text, &hotspot_ppm) < 0) {
        mrail_tool_usage(VERB,
                         "--hotspot %s: a fraction from 0 to 1 with at "
                         "most six decimals is wanted, or 'even'",
                         text);
    }
    if (strcmp(bench->dst, "single") != 0) {
        add_skew(options, hotspot_ppm, MRAIL_DEMAND_SHIFT);
    }
    if (strcmp(bench->dst, "shift") != 0) {
        add_skew(options, hotspot_ppm, MRAIL_DEMAND_SINGLE);
    }
}

/* When it is known to whom. */
static void parse_hotspots(bench_t *bench)
{
    char word[32];

    for (const char *p = bench->hotspots;; ++p) {
        size_t length = strcspn(p, ",");

        snprintf(word, sizeof(word), "%.*s", (int)length, p);
        parse_hotspot(bench, word);
        p += length;
        if (*p == '\0') {
            return;
        }
    }
}

/* 1 if argv[*i_p] was an option of ours. */
static int parse_own_option(bench_t *bench, char **argv, int *i_p)
{
    mrail_bench_options_t *options = &bench->options;
    const char *word = argv[*i_p];

    if (is_named(word, "--sizes")) {
        parse_sizes(options, value_of(argv, i_p, "--sizes"));
    } else if (is_named(word, "--iterations")) {
        options->iterations =
            parse_count("--iterations", value_of(argv, i_p, "--iterations"), 1);
    } else if (is_named(word, "--small-iterations")) {
        options->small_iterations = parse_count(
            "--small-iterations", value_of(argv, i_p, "--small-iterations"), 1);
    } else if (is_named(word, "--warmup")) {
        options->warmup =
            parse_count("--warmup", value_of(argv, i_p, "--warmup"), 0);
    } else if (is_named(word, "--window")) {
        options->window =
            parse_count("--window", value_of(argv, i_p, "--window"), 1);
    } else if (is_named(word, "--hotspot")) {
        bench->hotspots = value_of(argv, i_p, "--hotspot");
    } else if (is_named(word, "--dst")) {
        bench->dst = value_of(argv, i_p, "--dst");
    } else if (strcmp(word, "--json") == 0) {
        options->json = 1;
    } else if (strcmp(word, "--self-test-corrupt") == 0) {
        options->corrupt = 1;
    } else {
        return 0;
    }
    return 1;
}

/* --dst may come before --hotspot, so this runs after all options. */
static void check_dst(bench_t *bench)
{
    if (bench->dst == NULL) {
        bench->dst = "shift";
        return;
    }
    if (strcmp(bench->dst, "shift") != 0 && strcmp(bench->dst, "single") != 0 &&
        strcmp(bench->dst, "both") != 0) {
        mrail_tool_usage(VERB, "--dst %s: shift, single or both is wanted",
                         bench->dst);
    }
    if (bench->hotspots == NULL) {
        mrail_tool_usage(VERB, "--dst is about --hotspot F: give that, too");
    }
}

static void parse_args(bench_t *bench, int argc, char **argv)
{
    for (int i = 1; i < argc; ++i) {
        mrail_tool_version(argv[i]);
        if (mrail_tool_is_help(argv[i])) {
            fputs(help_text, stdout);
            exit(0);
        }
    }
    for (unsigned i = 0; argc > 1 && i < MRAIL_ARRAY_SIZE(areas); ++i) {
        if (strcmp(argv[1], areas[i].name) == 0) {
            bench->area = &areas[i];
        }
    }
    if (bench->area == NULL) {
        mrail_tool_usage(VERB, "which area: alltoallv or p2p?");
    }
    parse_sizes(&bench->options, bench->area->sizes);
    for (int i = 2; i < argc; ++i) {
        int first = i;

        mrail_tool_args_t *args = &bench->own;

        if (!parse_own_option(bench, argv, &i)) {
            if (!parse_np(bench, argv, &i)) {
                take_for_run(bench, argv, i);
            }
            args = &bench->run;
        }
        for (int j = first; j <= i; ++j) {
            mrail_tool_args_add(args, argv[j]);
        }
    }
    if (bench->area->pairs && bench->np % 2 != 0) {
        mrail_tool_usage(VERB,
                         "-np %u: p2p wants pairs, an even number of "
                         "ranks",
                         bench->np);
    }
    check_dst(bench);
    bench->hotspots = (bench->hotspots != NULL) ? bench->hotspots : "even";
    parse_hotspots(bench);
}

/* Becomes `mrail run RUN OPTIONS -- mrail-bench AREA OPTIONS`. */
static _Noreturn void start_ranks(const bench_t *bench)
{
    mrail_tool_args_t args = {0};
    char run[MRAIL_TOOL_PATH_MAX], self[MRAIL_TOOL_PATH_MAX];

    if (bench->np == 0 && !bench->soft) {
        mrail_tool_usage(VERB, "how many ranks? Give -np N, or start it with "
                               "mrail run -np N -- mrail bench ...");
    }
    mrail_tool_installed(MRAIL_PKGLIBEXECDIR "/mrail-run", run, sizeof(run));
    mrail_tool_installed(MRAIL_PKGLIBEXECDIR "/mrail-bench", self,
                         sizeof(self));
    mrail_tool_args_add(&args, "run");
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
    mrail_tool_fail(VERB, "%s: %s", run, strerror(errno));
}

int main(int argc, char **argv)
{
    bench_t bench = {.options = {.iterations = 10, .warmup = 2, .window = 64}};
    int wrong;

    parse_args(&bench, argc, argv);
    if (getenv("OMPI_COMM_WORLD_SIZE") == NULL) {
        start_ranks(&bench);
    }
    if (bench.run.count > 0) {
        mrail_tool_usage(VERB,
                         "%s is no option of a rank; options of mpirun "
                         "and mrail run come before it",
                         bench.run.items[0]);
    }
    MPI_Init(NULL, NULL);
    wrong = bench.area->func(&bench.options);
    MPI_Finalize();
    return wrong ? MRAIL_TOOL_FAILED : 0;
}
