/* Implements mrail simulate: options, input and runs. Only this file reads the
 * clock. */
#include "config.h"
#include "tools/simulate_command.h"
#include "tools/fabric_file.h"

#include "base/clock.h"
#include "base/number.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REASON_MAX 512
#define DEFAULT_METHODS "stock,ecmp,mprdma,paralet,dnlb,ethereal,spray"
/* Up to this number of flows, rates are exact. With more flows, they change
 * only once per quantum, of which there are QUANTA in the lower bound of the
 * exchange's time. */
#define EXACT_FLOWS 20000
#define QUANTA 1000
#define MAX_STAGGER_S 1

typedef struct options {
    const char *fabric, *patterns, *demand, *demand_pattern, *methods, *lanes,
        *fail, *svg, *stagger, *retry;
    uint64_t size, seed;
    unsigned seeds;
    int json, drop;
} options_t;

#define FIELD(_name) offsetof(options_t, _name)

static const mrail_option_t table[] = {
    {"--pattern", "LIST",
     "exchanges that run at the same time: alltoall, ring, shift:K, doubling, "
     "hotspot:F; @even, @odd or @FIRST-LAST selects some of the hosts "
     "(default: alltoall)",
     MRAIL_OPTION_TEXT, FIELD(patterns), 0, 0, NULL},
    {"--demand", "FILE",
     "instead of patterns, read lines FROM TO BYTES between NICs "
     "(mrail-demand(5))",
     MRAIL_OPTION_TEXT, FIELD(demand), 0, 0, NULL},
    {"--demand-pattern", "SPEC",
     "instead of patterns, use demands between NICs from a pattern of mrail "
     "plan, such as moe or zipf:size=64m",
     MRAIL_OPTION_TEXT, FIELD(demand_pattern), 0, 0, NULL},
    {"--method", "LIST",
     "methods of choosing paths (" DEFAULT_METHODS
     "): stock, ecmp, mprdma, paralet, "
     "dnlb, plan, ethereal, spray",
     MRAIL_OPTION_TEXT, FIELD(methods), 0, 0, NULL},
    {"--lanes", "LIST",
     "lanes of mprdma, paralet, dnlb and plan: numbers from 1 to 64 (default: "
     "8)",
     MRAIL_OPTION_TEXT, FIELD(lanes), 0, 0, NULL},
    {"--size", "SIZE", "bytes that each host sends in a phase (default: 256m)",
     MRAIL_OPTION_SIZE, FIELD(size), 0, (uint64_t)1 << 50, NULL},
    {"--seeds", "N",
     "number of runs of each random method, 1 to 1000 (default: 5)",
     MRAIL_OPTION_UNSIGNED, FIELD(seeds), 1, 1000, NULL},
    {"--seed", "N", "seed of the first run (default: 1)", MRAIL_OPTION_UINT64,
     FIELD(seed), 0, UINT64_MAX - 1000, NULL},
    {"--fail", "LINK@TIME",
     "fail a link permanently at this time; NODE:N is uplink N (from 0) of a "
     "node, such as l1:3@50ms",
     MRAIL_OPTION_TEXT, FIELD(fail), 0, 0, NULL},
    {"--drop", NULL,
     "make the port rules of a failed uplink drop packets, so that lanes fail "
     "over; otherwise packets of dnlb and plan fall through to ECMP",
     MRAIL_OPTION_FLAG, FIELD(drop), 0, 0, NULL},
    {"--stagger", "TIME",
     "ethereal: start flows at random times from 0 to TIME, at most 1s "
     "(default: 1us)",
     MRAIL_OPTION_TEXT, FIELD(stagger), 0, 0, NULL},
    {"--retry", "TIME",
     "ethereal: time after which a failed path is retried (default: 100ms)",
     MRAIL_OPTION_TEXT, FIELD(retry), 0, 0, NULL},
    {"--json", NULL, "print one JSON object, with the bytes of all links",
     MRAIL_OPTION_FLAG, FIELD(json), 0, 0, NULL},
    {"--svg", "FILE", "draw the load of each leaf uplink", MRAIL_OPTION_TEXT,
     FIELD(svg), 0, 0, NULL},
    {.names = NULL}};

static void help_on_methods(FILE *stream)
{
    fputs("\nMethods:\n", stream);
    mrail_options_row(stream, "stock",
                      "one flow, the source port of stock "
                      "UCX; ECMP");
    mrail_options_row(stream, "ecmp",
                      "one flow with a random source port; "
                      "ECMP");
    mrail_options_row(stream, "mprdma",
                      "--lanes equal flows with random "
                      "ports; ECMP");
    mrail_options_row(stream, "paralet",
                      "--lanes flows with random ports that "
                      "pull from one message; ECMP");
    mrail_options_row(stream, "dnlb",
                      "--lanes flows that pull, with mrail's "
                      "ports; port rules");
    mrail_options_row(stream, "plan",
                      "dnlb, after mrail plan has moved messages to other "
                      "rails");
    mrail_options_row(stream, "ethereal",
                      "whole flows and the fewest pieces, in random order "
                      "over all good paths; port rules that drop");
    mrail_options_row(stream, "spray",
                      "ideal packet spraying: each message "
                      "over all paths equally");
}

/* Reads the fabric, which may precede or follow options. */
static unsigned take_fabric(void *target, char **argv)
{
    options_t *options = target;

    if (argv[0][0] == '-' && argv[0][1] != '\0') {
        return 0;
    }
    if (options->fabric != NULL) {
        mrail_tool_usage(SIMULATE_COMMAND,
                         "'%s' and '%s' are two fabrics; give only one",
                         options->fabric, argv[0]);
    }
    options->fabric = argv[0];
    return 1;
}

static const char *const synopsis[] = {"FABRIC [OPTION...]", NULL};

static const mrail_command_t command = {
    .name = SIMULATE_COMMAND,
    .synopsis = synopsis,
    .about =
        "Simulates exchanges over a fabric as flows with max-min fair\n"
        "rates, and compares methods of choosing paths by time, load of\n"
        "uplinks and queue pairs. FABRIC is a file (mrail-fabric(5)), '-'\n"
        "for stdin, or the name of an installed fabric: ctccl,\n"
        "ethereal-256, ethereal-512, lab-4, lab-8, paralet-128,\n"
        "paralet-1024.\n",
    .options = table,
    .more = help_on_methods,
    .epilog =
        "Exit status: 0 done, 1 a message has no path or failure, 2 usage\n"
        "or an invalid file.\n",
    .other = take_fabric};

/* ---- Input ---- */

/* Calls `take` for each word of a comma-separated list. */
static void each_word(const char *list, void (*take)(void *arg, const char *),
                      void *arg)
{
    char *copy = strdup(list), *save = NULL;

    if (copy == NULL) {
        mrail_tool_fail(SIMULATE_COMMAND, "out of memory");
    }
    for (char *word = strtok_r(copy, ",", &save); word != NULL;
         word = strtok_r(NULL, ",", &save)) {
        take(arg, word);
    }
    free(copy);
}

typedef struct input {
    const mrail_fabric_t *fabric;
    mrail_pattern_t patterns[SIMULATE_MAX_PATTERNS];
    unsigned num_patterns;
    mrail_sim_message_t *demands; /* used instead of patterns; may be NULL */
    uint32_t num_demands;
    simulate_case_t methods[MRAIL_SIM_NUM_METHODS + 1];
    unsigned num_methods;
    unsigned lanes[16];
    unsigned num_lanes;
    mrail_ns_t stagger_ns, retry_ns; /* settings of the method ethereal */
} input_t;

static void take_pattern(void *arg, const char *word)
{
    char reason[REASON_MAX] = "";
    input_t *input = arg;

    if (input->num_patterns == SIMULATE_MAX_PATTERNS) {
        mrail_tool_usage(SIMULATE_COMMAND,
                         "--pattern: at most %d patterns can be given",
                         SIMULATE_MAX_PATTERNS);
    }
    if (mrail_pattern_parse(word, input->fabric,
                            &input->patterns[input->num_patterns++], reason,
                            sizeof(reason)) != 0) {
        mrail_tool_usage(SIMULATE_COMMAND, "--pattern: %s", reason);
    }
}

static void add_method(input_t *input, const char *word, simulate_case_t entry)
{
    for (unsigned i = 0; i < input->num_methods; ++i) {
        if (strcmp(simulate_method_name(&input->methods[i]), word) == 0) {
            mrail_tool_usage(SIMULATE_COMMAND,
                             "--method: '%s' may appear only once", word);
        }
    }
    input->methods[input->num_methods++] = entry;
}

static void take_method(void *arg, const char *word)
{
    input_t *input = arg;

    if (strcmp(word, "plan") == 0) {
        add_method(
            input, word,
            (simulate_case_t){.method = MRAIL_SIM_DNLB, .is_planned = 1});
        return;
    }
    for (unsigned m = 0; m < MRAIL_SIM_NUM_METHODS; ++m) {
        if (strcmp(word, mrail_sim_method_name((mrail_sim_method_t)m)) == 0) {
            add_method(input, word, (simulate_case_t){.method = m});
            return;
        }
    }
    mrail_tool_usage(
        SIMULATE_COMMAND,
        "--method: '%s' is not a method; the methods are stock, ecmp, mprdma, "
        "paralet, dnlb, plan, ethereal and spray",
        word);
}

static void take_lanes(void *arg, const char *word)
{
    input_t *input = arg;
    uint64_t lanes;

    if (input->num_lanes == MRAIL_ARRAY_SIZE(input->lanes) ||
        mrail_number_uint(word, 1, 64, &lanes) != 0) {
        mrail_tool_usage(SIMULATE_COMMAND,
                         "--lanes: '%s': expected up to %zu numbers from 1 to "
                         "64",
                         word, MRAIL_ARRAY_SIZE(input->lanes));
    }
    input->lanes[input->num_lanes++] = (unsigned)lanes;
}

/* ---- Runs ---- */

static int has_lanes(mrail_sim_method_t method)
{
    return method == MRAIL_SIM_MPRDMA || method == MRAIL_SIM_PARALET ||
           method == MRAIL_SIM_DNLB;
}

static int is_random(mrail_sim_method_t method)
{
    return method != MRAIL_SIM_SPRAY && method != MRAIL_SIM_DNLB;
}

static uint32_t num_phases(const input_t *input)
{
    uint32_t phases = 1;

    for (unsigned p = 0; p < input->num_patterns; ++p) {
        phases =
            MRAIL_MAX(phases, mrail_pattern_num_phases(&input->patterns[p]));
    }
    return phases;
}

static mrail_sim_message_t *copy_demands(const input_t *input, uint32_t *num_p)
{
    mrail_sim_message_t *messages =
        malloc(input->num_demands * sizeof(*messages));

    if (messages == NULL) {
        mrail_tool_fail(SIMULATE_COMMAND, "out of memory");
    }
    memcpy(messages, input->demands, input->num_demands * sizeof(*messages));
    *num_p = input->num_demands;
    return messages;
}

/* Returns all messages of a phase. The caller frees them. */
static mrail_sim_message_t *phase_messages(const input_t *input, uint32_t phase,
                                           uint64_t bytes, uint32_t *num_p)
{
    mrail_sim_message_t *messages = NULL;

    if (input->demands != NULL) {
        return copy_demands(input, num_p);
    }
    *num_p = 0;
    for (unsigned p = 0; p < input->num_patterns; ++p) {
        int ret =
            mrail_pattern_messages(&input->patterns[p], input->fabric, phase,
                                   (double)bytes, &messages, num_p);

        if (ret != 0) {
            mrail_tool_fail(SIMULATE_COMMAND, "cannot create the messages: %s",
                            strerror(-ret));
        }
    }
    return messages;
}

static void add_bound(const input_t *input, simulate_run_t *run)
{
    for (uint32_t phase = 0; phase < num_phases(input); ++phase) {
        mrail_sim_message_t *messages;
        double bound_s = 0;
        uint32_t num;

        messages = phase_messages(input, phase, run->bytes, &num);
        if (mrail_sim_bound(run->fabric, messages, num, &bound_s) != 0) {
            mrail_tool_fail(SIMULATE_COMMAND, "out of memory");
        }
        run->bound_s += bound_s;
        free(messages);
    }
}

/* Returns the messages of a phase as the method sends them. The caller frees
 * them. */
static mrail_sim_message_t *case_messages(const input_t *input,
                                          const simulate_run_t *run,
                                          const simulate_case_t *entry,
                                          uint32_t phase, uint32_t *num_p)
{
    mrail_sim_message_t *messages =
        phase_messages(input, phase, run->bytes, num_p);
    mrail_sim_message_t *planned = NULL;
    char reason[REASON_MAX] = "";
    int ret;

    if (!entry->is_planned) {
        return messages;
    }
    ret = simulate_plan(run->fabric, messages, *num_p, &planned, num_p, reason,
                        sizeof(reason));
    if (ret != 0) {
        mrail_tool_fail(SIMULATE_COMMAND, "plan: %s",
                        (reason[0] != '\0') ? reason : strerror(-ret));
    }
    free(messages);
    return planned;
}

/* Returns the time of all phases with one seed, and sums the bytes of links. */
static double run_seed(const input_t *input, const simulate_run_t *run,
                       const options_t *options, simulate_case_t *entry,
                       uint64_t seed, mrail_sim_result_t *result)
{
    mrail_sim_paths_t *paths = mrail_sim_paths_create(run->fabric);
    double time_s = 0;

    if (paths == NULL) {
        mrail_tool_fail(SIMULATE_COMMAND, "out of memory");
    }
    for (uint32_t phase = 0; phase < num_phases(input); ++phase) {
        mrail_sim_params_t params = {.method = entry->method,
                                     .lanes = entry->lanes,
                                     .seed = seed + 7919 * phase,
                                     .failed_link = run->failed_link,
                                     .failure_s =
                                         MRAIL_MAX(run->failure_s - time_s, 0),
                                     .drop = options->drop,
                                     .stagger_ns = input->stagger_ns,
                                     .retry_ns = input->retry_ns,
                                     .paths = paths,
                                     .start_ns = (mrail_ns_t)(time_s * 1e9)};
        mrail_sim_message_t *messages;
        uint32_t num;
        int ret;

        messages = case_messages(input, run, entry, phase, &num);
        if ((uint64_t)num * entry->lanes > EXACT_FLOWS) {
            params.quantum_s = run->bound_s / QUANTA;
        }
        ret = mrail_sim_run(run->fabric, &params, messages, num, result);
        free(messages);
        if (ret != 0) {
            mrail_tool_fail(SIMULATE_COMMAND, "%s: %s",
                            simulate_method_name(entry),
                            (ret == -EHOSTUNREACH) ? "a message has no path"
                                                   : strerror(-ret));
        }
        time_s += result->time_s;
        entry->num_flows = MRAIL_MAX(entry->num_flows, result->num_flows);
        entry->most_qps = MRAIL_MAX(entry->most_qps, result->most_qps);
    }
    mrail_sim_paths_destroy(paths);
    return time_s;
}

static void add_load(mrail_sim_load_t *sum, const mrail_sim_load_t *load,
                     double share)
{
    sum->mean += share * load->mean;
    sum->least += share * load->least;
    sum->most += share * load->most;
    sum->cv += share * load->cv;
    sum->variance_percent += share * load->variance_percent;
    sum->num = load->num;
}

/* Returns the index of the leaf at either end of the failed link. If the link
 * joins other tiers, returns MRAIL_FABRIC_NONE for all leaves. */
static uint32_t failed_leaf(const simulate_run_t *run)
{
    const mrail_fabric_link_t *link = &run->fabric->links[run->failed_link];
    const mrail_fabric_node_t *lower = &run->fabric->nodes[link->lower];
    const mrail_fabric_node_t *upper = &run->fabric->nodes[link->upper];

    if (lower->tier == MRAIL_FABRIC_LEAF) {
        return lower->place;
    }
    return (upper->tier == MRAIL_FABRIC_LEAF) ? upper->place
                                              : MRAIL_FABRIC_NONE;
}

static void run_case(const input_t *input, simulate_run_t *run,
                     const options_t *options, simulate_case_t *entry)
{
    size_t num = 2 * (size_t)run->fabric->num_links;
    mrail_ns_t began_ns = mrail_clock_now();

    for (unsigned s = 0; s < entry->seeds; ++s) {
        mrail_sim_result_t result = {.link_bytes = calloc(num, sizeof(double)),
                                     .after_bytes =
                                         calloc(num, sizeof(double))};
        mrail_sim_load_t load;
        double time_s;

        if (result.link_bytes == NULL || result.after_bytes == NULL) {
            mrail_tool_fail(SIMULATE_COMMAND, "out of memory");
        }
        time_s =
            run_seed(input, run, options, entry, options->seed + s, &result);
        entry->time_s += time_s / entry->seeds;
        entry->least_s = (s == 0) ? time_s : MRAIL_MIN(entry->least_s, time_s);
        entry->most_s = MRAIL_MAX(entry->most_s, time_s);
        load = mrail_sim_uplinks(run->fabric, MRAIL_FABRIC_NONE,
                                 result.link_bytes, time_s, MRAIL_FABRIC_NONE);
        add_load(&entry->load, &load, 1.0 / entry->seeds);
        if (run->failed_link != MRAIL_FABRIC_NONE && time_s > run->failure_s) {
            load = mrail_sim_uplinks(run->fabric, failed_leaf(run),
                                     result.after_bytes,
                                     time_s - run->failure_s, run->failed_link);
            add_load(&entry->after, &load, 1.0 / entry->seeds);
        }
        free(result.after_bytes);
        if (s == 0) {
            entry->link_bytes = result.link_bytes;
            entry->first_time_s = time_s;
        } else {
            free(result.link_bytes);
        }
    }
    entry->seconds = (double)(mrail_clock_now() - began_ns) / 1e9;
}

static void add_cases(const input_t *input, const options_t *options,
                      simulate_run_t *run)
{
    for (unsigned m = 0; m < input->num_methods; ++m) {
        mrail_sim_method_t method = input->methods[m].method;
        unsigned count = has_lanes(method) ? input->num_lanes : 1;

        for (unsigned i = 0; i < count; ++i) {
            if (run->num_cases == SIMULATE_MAX_CASES) {
                mrail_tool_usage(SIMULATE_COMMAND,
                                 "at most %d cases are supported",
                                 SIMULATE_MAX_CASES);
            }
            run->cases[run->num_cases++] = (simulate_case_t){
                .method = method,
                .is_planned = input->methods[m].is_planned,
                .lanes = has_lanes(method) ? input->lanes[i] : 1,
                .seeds = is_random(method) ? options->seeds : 1};
        }
    }
}

static void write_svg(const simulate_run_t *run, const char *path)
{
    FILE *file = fopen(path, "we");

    if (file == NULL) {
        mrail_tool_fail(SIMULATE_COMMAND, "%s: %s", path, strerror(errno));
    }
    simulate_svg(run, file);
    if (fclose(file) != 0) {
        mrail_tool_fail(SIMULATE_COMMAND, "%s: %s", path, strerror(errno));
    }
}

/* Reads patterns, the demands in a file, or a demand pattern of `mrail
 * plan`. */
static void read_exchange(const options_t *options, input_t *input,
                          simulate_run_t *run)
{
    if ((options->patterns != NULL) + (options->demand != NULL) +
            (options->demand_pattern != NULL) >
        1) {
        mrail_tool_usage(SIMULATE_COMMAND,
                         "give only one of --pattern, --demand and "
                         "--demand-pattern");
    }
    if (options->demand != NULL || options->demand_pattern != NULL) {
        run->pattern = (options->demand != NULL)
                           ? mrail_tool_file_name(options->demand)
                           : options->demand_pattern;
        input->demands = simulate_demands(run->fabric, options->demand,
                                          options->demand_pattern,
                                          options->seed, &input->num_demands);
        return;
    }
    run->pattern = (options->patterns != NULL) ? options->patterns : "alltoall";
    run->bytes = options->size;
    each_word(run->pattern, take_pattern, input);
}

static mrail_ns_t read_time(const char *option, const char *text, double min_s,
                            double max_s)
{
    double time_s;

    if (mrail_number_seconds(text, min_s, max_s, &time_s) != 0) {
        mrail_tool_usage(SIMULATE_COMMAND,
                         "%s %s: expected a time from %gs to %gs", option, text,
                         min_s, max_s);
    }
    return (mrail_ns_t)(time_s * 1e9 + 0.5);
}

int main(int argc, char **argv)
{
    options_t options = {.methods = DEFAULT_METHODS,
                         .lanes = "8",
                         .stagger = "1us",
                         .retry = "100ms",
                         .size = (uint64_t)256 << 20,
                         .seeds = 5,
                         .seed = 1};
    static simulate_run_t run;
    input_t input = {.num_lanes = 0};

    mrail_options_parse(&command, argv, &options);
    if (options.fabric == NULL) {
        mrail_tool_usage(
            SIMULATE_COMMAND,
            "the fabric is missing; give a file, or a name such as ctccl");
    }
    if (options.demand != NULL && strcmp(options.demand, "-") == 0 &&
        strcmp(options.fabric, "-") == 0) {
        mrail_tool_usage(
            SIMULATE_COMMAND,
            "only one of the fabric and --demand can be '-' (standard input)");
    }
    if (options.size == 0) {
        mrail_tool_usage(SIMULATE_COMMAND, "--size must be above 0");
    }
    run.fabric_name = options.fabric;
    run.fabric = input.fabric =
        mrail_tool_fabric(SIMULATE_COMMAND, options.fabric, NULL, NULL);
    read_exchange(&options, &input, &run);
    each_word(options.methods, take_method, &input);
    each_word(options.lanes, take_lanes, &input);
    input.stagger_ns =
        read_time("--stagger", options.stagger, 0, MAX_STAGGER_S);
    input.retry_ns = read_time("--retry", options.retry, 1e-6, 1e6);
    if (input.num_patterns + input.num_demands == 0 || input.num_methods == 0 ||
        input.num_lanes == 0) {
        mrail_tool_usage(SIMULATE_COMMAND, "the list of %s is empty",
                         (input.num_patterns + input.num_demands == 0)
                             ? "patterns"
                         : (input.num_methods == 0) ? "methods"
                                                    : "lanes");
    }
    simulate_failure(options.fail, &run);
    add_bound(&input, &run);
    add_cases(&input, &options, &run);
    for (unsigned i = 0; i < run.num_cases; ++i) {
        mrail_tool_progress(SIMULATE_COMMAND, i, run.num_cases, "cases");
        run_case(&input, &run, &options, &run.cases[i]);
    }
    mrail_tool_progress(SIMULATE_COMMAND, run.num_cases, run.num_cases,
                        "cases");
    if (options.json) {
        simulate_json(&run, stdout);
    } else {
        simulate_table(&run, stdout);
    }
    if (options.svg != NULL) {
        write_svg(&run, options.svg);
    }
    free(input.demands);
    return 0;
}
