/*
 * Implements mrail plan: options, input and planning. Only this file reads the
 * clock; the library does not.
 */
#include "config.h"
#include "tools/plan_command.h"

#include "base/clock.h"
#include "tools/plan_demand.h"
#include "tools/options.h"
#include "tools/plan_text.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_GAP_PPM 20000
#define MIN_GAP_PPM 1000
#define MAX_REPEAT 1000
#define REASON_MAX 512

typedef struct options {
    const char *topo, *demand, *pattern, *svg, *save_topo, *save_demand;
    uint64_t seed, relay_threshold;
    uint32_t gap_ppm;
    unsigned repeat;
    int json, links, pieces, compare;
} options_t;

/* ---- Options ---- */

static void print_line(void *arg, const char *line)
{
    fprintf(arg, "%s\n", line);
}

static void help_on_patterns(FILE *stream)
{
    fputs("\nPatterns, with their defaults:\n", stream);
    plan_demand_help(print_line, stream);
}

#define FIELD(_name) offsetof(options_t, _name)

static const mrail_option_t table[] = {
    {"--topo", "FILE",
     "topology file (mrail-topology(5)); 'this' is this node, as hwloc detects "
     "it; '-' is stdin",
     MRAIL_OPTION_TEXT, FIELD(topo), 0, 0, NULL},
    {"--demand", "FILE",
     "file with lines FROM TO BYTES (mrail-demand(5)); '-' is stdin",
     MRAIL_OPTION_TEXT, FIELD(demand), 0, 0, NULL},
    {"--pattern", "SPEC",
     "generate the demands from a pattern: KIND or KIND:SETTING=VALUE,...",
     MRAIL_OPTION_TEXT, FIELD(pattern), 0, 0, NULL},
    {"--seed", "N", "seed of the pattern (default: 1)", MRAIL_OPTION_UINT64,
     FIELD(seed), 0, UINT64_MAX, NULL},
    {"--gap", "G",
     "allowed excess over the minimum congestion, as a fraction, 0.001 to 1 "
     "(default: 0.02)",
     MRAIL_OPTION_PPM, FIELD(gap_ppm), MIN_GAP_PPM, 0, NULL},
    {"--relay-threshold", "SIZE",
     "let only demands above this size use relays that they do not need "
     "(default: 1000000)",
     MRAIL_OPTION_SIZE, FIELD(relay_threshold), 0, (uint64_t)1 << 62, NULL},
    {"--repeat", "N",
     "plan N times from scratch, and report the median time (default: 1)",
     MRAIL_OPTION_UNSIGNED, FIELD(repeat), 1, MAX_REPEAT, NULL},
    {"--links", NULL, "show all links, not only the most loaded ones",
     MRAIL_OPTION_FLAG, FIELD(links), 0, 0, NULL},
    {"--pieces", NULL, "show the pieces of each demand", MRAIL_OPTION_FLAG,
     FIELD(pieces), 0, 0, NULL},
    {"--compare", NULL, "show other methods for the exchange, with their times",
     MRAIL_OPTION_FLAG, FIELD(compare), 0, 0, NULL},
    {"--json", NULL, "print one JSON object, with all links", MRAIL_OPTION_FLAG,
     FIELD(json), 0, 0, NULL},
    {"--svg", "FILE", "draw the loads without and with the plan",
     MRAIL_OPTION_TEXT, FIELD(svg), 0, 0, NULL},
    {"--save-topo", "FILE", "write the topology as text, for --topo",
     MRAIL_OPTION_TEXT, FIELD(save_topo), 0, 0, NULL},
    {"--save-demand", "FILE", "write the demands as text, for --demand",
     MRAIL_OPTION_TEXT, FIELD(save_demand), 0, 0, NULL},
    {.names = NULL}};

static const char *const synopsis[] = {
    "--topo FILE|this --demand FILE [OPTION...]",
    "--topo FILE|this --pattern SPEC [--seed N] [OPTION...]", NULL};

static const mrail_command_t command = {
    .name = PLAN_COMMAND,
    .synopsis = synopsis,
    .about =
        "Plans which bytes of an exchange go over which rails and relays,\n"
        "so that the most loaded link carries as little as possible. Shows\n"
        "how much time the plan saves, with a proof of how close to the\n"
        "optimum it is.\n",
    .options = table,
    .more = help_on_patterns,
    .epilog =
        "Exit status: 0 done, 1 no plan, or failure, 2 usage or an invalid\n"
        "file.\n"};

static void parse_options(options_t *options, char **argv)
{
    mrail_options_parse(&command, argv, options);
    if (options->topo == NULL) {
        mrail_tool_usage(
            PLAN_COMMAND,
            "the topology is missing; give --topo FILE or --topo this");
    }
    if ((options->demand == NULL) == (options->pattern == NULL)) {
        mrail_tool_usage(
            PLAN_COMMAND, "%s; give either --demand FILE or --pattern SPEC",
            (options->demand == NULL) ? "the demands are missing"
                                      : "there are two sources of demands");
    }
    if (options->demand != NULL && strcmp(options->demand, "-") == 0 &&
        strcmp(options->topo, "-") == 0) {
        mrail_tool_usage(
            PLAN_COMMAND,
            "only one of --topo and --demand can be '-' (standard input)");
    }
}

/* ---- Input ---- */

/* Exits. A parse error is a usage error; all other errors are failures. */
static void end_on_error(int ret, const char *reason)
{
    if (ret == -EINVAL || ret == -ENOSPC) {
        mrail_tool_usage(PLAN_COMMAND, "%s", reason);
    }
    if (ret != 0) {
        mrail_tool_fail(PLAN_COMMAND, "%s", reason);
    }
}

/* Reads the topology and its text. The caller frees the text. */
static mrail_plan_topo_t *read_topo(const char *path, char **text_p)
{
    mrail_plan_topo_t *topo = NULL;
    char reason[REASON_MAX] = "", *text;
    size_t length;
    int ret;

    if (strcmp(path, "this") == 0) {
        end_on_error(plan_this_node(&text, reason, sizeof(reason)), reason);
        length = strlen(text);
    } else {
        text =
            mrail_tool_read(PLAN_COMMAND, path, PLAN_TEXT_MAX_BYTES, &length);
    }
    ret = plan_text_topo(mrail_tool_file_name(path), text, length, &topo,
                         reason, sizeof(reason));
    if (ret != 0) {
        free(text);
    }
    end_on_error(ret, reason);
    *text_p = text;
    return topo;
}

static mrail_plan_demand_t *demands_of_file(plan_run_t *run, const char *path,
                                            unsigned num_ranks)
{
    mrail_plan_demand_t *demands = NULL;
    char reason[REASON_MAX] = "";
    int ret;

    run->demand_text = mrail_tool_read(PLAN_COMMAND, path, PLAN_TEXT_MAX_BYTES,
                                       &run->demand_length);
    ret = plan_text_demands(mrail_tool_file_name(path), run->demand_text,
                            run->demand_length, num_ranks, &demands,
                            &run->num_demands, reason, sizeof(reason));
    if (ret != 0) {
        free(run->demand_text);
    }
    end_on_error(ret, reason);
    return demands;
}

static mrail_plan_demand_t *
demands_of_pattern(const options_t *options, unsigned num_ranks, size_t *num_p)
{
    mrail_plan_demand_t *demands = NULL;
    plan_demand_pattern_t pattern;
    char reason[REASON_MAX] = "";
    int ret;

    ret = plan_demand_parse(options->pattern, &pattern, reason, sizeof(reason));
    if (ret == 0) {
        ret = plan_demand_make(&pattern, num_ranks, options->seed, &demands,
                               num_p, reason, sizeof(reason));
    }
    if (ret == -EINVAL || ret == -ENOSPC) {
        mrail_tool_usage(PLAN_COMMAND, "--pattern %s: %s", options->pattern,
                         reason);
    }
    end_on_error(ret, reason);
    return demands;
}

/* ---- Output files ---- */

static void write_topo(const plan_run_t *run, FILE *stream)
{
    fputs(run->topo_text, stream);
}

static void write_demands(const plan_run_t *run, FILE *stream)
{
    for (size_t i = 0; i < run->num_demands; ++i) {
        const mrail_plan_demand_t *demand = &run->demands[i];

        fprintf(stream, "%u %u %llu\n", demand->from, demand->to,
                (unsigned long long)demand->bytes);
    }
}

static void write_file(const char *path, const plan_run_t *run,
                       void (*write)(const plan_run_t *run, FILE *stream))
{
    FILE *file = fopen(path, "we");
    int failed;

    if (file == NULL) {
        mrail_tool_fail(PLAN_COMMAND, "%s: %s", path, strerror(errno));
    }
    write(run, file);
    failed = ferror(file);
    if (fclose(file) != 0 || failed) {
        mrail_tool_fail(PLAN_COMMAND, "%s: %s", path, strerror(errno));
    }
}

/* ---- Planning ---- */

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Exits because planning failed. If the message refers to a demand, it is
 * prefixed with that demand's line in the file. */
static void fail_plan(const plan_run_t *run, const char *reason)
{
    size_t i = run->num_demands;

    if (run->demand_text != NULL && sscanf(reason, "demand %zu,", &i) == 1 &&
        i < run->num_demands) {
        mrail_tool_fail(
            PLAN_COMMAND, "%s:%u: %s", mrail_tool_file_name(run->demand_name),
            plan_text_demand_line(run->demand_text, run->demand_length,
                                  mrail_plan_topo_num_ranks(run->topo),
                                  run->demands[i].from, run->demands[i].to),
            reason);
    }
    mrail_tool_fail(PLAN_COMMAND, "%s: %s",
                    mrail_tool_file_name(run->topo_name), reason);
}

/* Returns the median planning time. Discards the warm start before each run, so
 * that all runs compute the same plan. */
static double plan_repeatedly(const plan_run_t *run)
{
    double *times = calloc(run->repeat, sizeof(*times)), median;
    char reason[REASON_MAX] = "";

    if (times == NULL) {
        mrail_tool_fail(PLAN_COMMAND, "out of memory");
    }
    for (unsigned i = 0; i < run->repeat; ++i) {
        mrail_ns_t begun_ns;
        int ret;

        mrail_plan_discard_warm_start(run->plan);
        begun_ns = mrail_clock_now();
        ret = mrail_plan_make(run->plan, run->demands, run->num_demands, 0,
                              reason, sizeof(reason));
        times[i] = (double)(mrail_clock_now() - begun_ns) / 1e9;
        if (ret != 0) {
            free(times);
            fail_plan(run, (reason[0] != '\0') ? reason : strerror(-ret));
        }
        mrail_tool_progress(PLAN_COMMAND, i + 1, run->repeat, "plans");
    }
    qsort(times, run->repeat, sizeof(*times), compare_times);
    median = (times[(run->repeat - 1) / 2] + times[run->repeat / 2]) / 2;
    free(times);
    return median;
}

static void show(const options_t *options, const plan_run_t *run)
{
    if (options->save_topo != NULL) {
        write_file(options->save_topo, run, write_topo);
    }
    if (options->save_demand != NULL) {
        write_file(options->save_demand, run, write_demands);
    }
    if (options->svg != NULL) {
        write_file(options->svg, run, plan_show_svg);
    }
    if (options->json) {
        plan_show_json(run);
    } else {
        plan_show(run);
    }
    if (fflush(stdout) != 0) {
        mrail_tool_fail(PLAN_COMMAND, "stdout: %s", strerror(errno));
    }
}

static void run_init(plan_run_t *run, const options_t *options)
{
    unsigned num_ranks;

    *run = (plan_run_t){.topo_name = options->topo,
                        .demand_name = (options->pattern != NULL)
                                           ? options->pattern
                                           : options->demand,
                        .seed = options->seed,
                        .wanted_gap = options->gap_ppm / 1e6,
                        .repeat = options->repeat,
                        .with_links = options->links,
                        .with_pieces = options->pieces,
                        .with_arms = options->compare};
    run->topo = read_topo(options->topo, &run->topo_text);
    num_ranks = mrail_plan_topo_num_ranks(run->topo);
    run->demands =
        (options->pattern != NULL)
            ? demands_of_pattern(options, num_ranks, &run->num_demands)
            : demands_of_file(run, options->demand, num_ranks);
    for (size_t i = 0; i < run->num_demands; ++i) {
        run->bytes += (double)run->demands[i].bytes;
    }
}

int main(int argc, char **argv)
{
    options_t options = {.seed = 1,
                         .gap_ppm = DEFAULT_GAP_PPM,
                         .relay_threshold = UINT64_MAX,
                         .repeat = 1};
    mrail_plan_options_t plan_options = MRAIL_PLAN_DEFAULTS;
    plan_run_t run;
    int ret;

    parse_options(&options, argv);
    run_init(&run, &options);
    plan_options.gap = run.wanted_gap;
    plan_options.relay_threshold = options.relay_threshold;
    ret = mrail_plan_create(run.topo, &plan_options, &run.plan);
    if (ret != 0) {
        mrail_tool_fail(PLAN_COMMAND, "%s: %s",
                        mrail_tool_file_name(run.topo_name),
                        (ret == -EINVAL)
                            ? "all rails are down, and there are no other links"
                            : strerror(-ret));
    }
    run.plan_s = plan_repeatedly(&run);
    mrail_plan_compare(run.plan);
    mrail_plan_summary(run.plan, &run.summary);
    if (run.with_arms && plan_arms_compare(run.topo, run.plan, run.demands,
                                           run.num_demands, run.arms) != 0) {
        mrail_tool_fail(PLAN_COMMAND, "out of memory");
    }
    show(&options, &run);
    mrail_plan_destroy(run.plan);
    mrail_plan_topo_destroy(run.topo);
    free(run.demands);
    free(run.topo_text);
    free(run.demand_text);
    return 0;
}
