/* mrail lanes computes how many lanes spread a flow over paths chosen by
 * hashing. */
#include "config.h"
#include "base/json.h"
#include "base/number.h"
#include "base/util.h"
#include "fabric/flowlets.h"
#include "orchestrator/ports.h"
#include "tools/options.h"
#include "tools/tool.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

#define COMMAND "lanes"
#define MAX_NODES 1000000
#define MAX_EXACT 32768 /* limit of nodes times lanes */
#define MAX_LANES 32u   /* maximum of UCX_MRAIL_LANES_PER_RAIL */
/* minimum of UCX_MRAIL_RMA_CHUNK_SIZE */
#define MIN_CHUNK (UINT64_C(4) << 10)
#define MAX_CHUNK (UINT64_C(1) << 30)

typedef struct options {
    unsigned nodes;
    uint32_t slowdown_ppm;
    uint64_t rate_bps;
    double rtt_s;
    int json;
} options_t;

#define FIELD(_name) offsetof(options_t, _name)

static void take_rate(void *target, const char *text)
{
    options_t *options = target;

    if (mrail_number_rate(text, 0, 1, UINT64_C(1) << 50, &options->rate_bps) !=
        0) {
        mrail_tool_usage(COMMAND, "--rate %s: expected a rate, such as 400Gb/s",
                         text);
    }
}

static const mrail_option_t table[] = {
    {"--nodes", "N",
     "number of senders and of equal paths, 2 to 1000000 (default: 128)",
     MRAIL_OPTION_UNSIGNED, FIELD(nodes), 2, MAX_NODES, NULL},
    {"--slowdown", "FRACTION",
     "time that collisions may add, as a fraction of the time without them "
     "(default: 0.5)",
     MRAIL_OPTION_PPM, FIELD(slowdown_ppm), 1, 0, NULL},
    {"--rate", "RATE", "rate of a NIC, such as 400Gb/s, for the chunk size",
     MRAIL_OPTION_CALL, 0, 0, 0, take_rate},
    {"--rtt", "TIME", "round-trip time, such as 10us, for the chunk size",
     MRAIL_OPTION_SECONDS, FIELD(rtt_s), 0, 10000, NULL},
    {"--json", NULL, "print one JSON object", MRAIL_OPTION_FLAG, FIELD(json), 0,
     0, NULL},
    {.names = NULL}};

static const char *const synopsis[] = {"[OPTION...]", NULL};

static const mrail_command_t command = {
    .name = COMMAND,
    .synopsis = synopsis,
    .about =
        "Shows how much longer an exchange takes if switches hash each lane to a\n"
        "random path (ECMP), and how many lanes keep that below a limit, by the\n"
        "equations of [ParaLet] 4.1 and 5.2.  With port rules (mrail acl), lanes\n"
        "do not collide, and fewer lanes are enough.\n",
    .options = table,
    .epilog = "Exit status: 0 done, 2 usage.\n"};

static uint64_t chunk_of(const options_t *options, unsigned lanes)
{
    double bdp = (double)options->rate_bps / 8 * options->rtt_s;

    return (bdp < 1) ? 0
                     : mrail_flowlets_size((uint64_t)llround(bdp), lanes,
                                           MIN_CHUNK, MAX_CHUNK);
}

/* Returns NAN if the exact computation would take too long. */
static double exact_of(const options_t *options, unsigned lanes)
{
    return ((uint64_t)options->nodes * lanes <= MAX_EXACT)
               ? mrail_flowlets_slowdown_exact(options->nodes, lanes)
               : NAN;
}

static void print_table(const options_t *options)
{
    printf("%u nodes, random paths; the time without collisions is 1\n\n"
           "%6s %12s %12s %12s\n",
           options->nodes, "lanes", "equation (1)", "exact", "chunk");
    for (unsigned lanes = 1; lanes <= MAX_LANES; lanes *= 2) {
        double exact = exact_of(options, lanes);
        uint64_t chunk = chunk_of(options, lanes);
        char exact_text[16] = "-", chunk_text[24] = "-";

        if (!isnan(exact)) {
            snprintf(exact_text, sizeof(exact_text), "%.3f", exact);
        }
        if (chunk != 0) {
            snprintf(chunk_text, sizeof(chunk_text), "%llu",
                     (unsigned long long)chunk);
        }
        printf("%6u %12.3f %12s %12s\n", lanes,
               mrail_flowlets_slowdown(options->nodes, lanes), exact_text,
               chunk_text);
    }
}

static double limit_of(const options_t *options)
{
    return 1 + options->slowdown_ppm / 1e6;
}

/* Numbers of lanes that keep the slowdown below the limit. */
typedef struct wanted {
    uint32_t equation; /* by equation (1), which underestimates */
    /* by the exact slowdown; MAX_LANES + 1 if MAX_LANES are not enough, 0 if
     * the computation would take too long */
    uint32_t exact;
} wanted_t;

/* The exact slowdown falls with each additional lane, so a binary search finds
 * the number. */
static wanted_t find_wanted(const options_t *options)
{
    wanted_t wanted = {
        .equation = mrail_flowlets_count(options->nodes, limit_of(options))};
    unsigned below = 0, enough = MAX_LANES + 1;

    if (isnan(exact_of(options, MAX_LANES))) {
        return wanted;
    }
    while (enough - below > 1) {
        unsigned lanes = (below + enough) / 2;

        if (exact_of(options, lanes) <= limit_of(options)) {
            enough = lanes;
        } else {
            below = lanes;
        }
    }
    wanted.exact = enough;
    return wanted;
}

static void print_advice(const options_t *options, const wanted_t *wanted)
{
    uint32_t lanes = (wanted->exact != 0) ? wanted->exact : wanted->equation;
    uint64_t chunk = chunk_of(options, MRAIL_MIN(lanes, MAX_LANES));
    double limit = limit_of(options);

    putchar('\n');
    if (wanted->exact == 0) {
        printf(
            "By equation (1), %u lanes keep it below %g; the exact number is "
            "larger%s",
            lanes, limit, (lanes <= MAX_LANES) ? ":\n" : ".\n");
    } else if (lanes <= MAX_LANES) {
        printf("%u lane%s it below %g (equation (1): %u):\n", lanes,
               (lanes == 1) ? " keeps" : "s keep", limit, wanted->equation);
    } else {
        printf(
            "More than %u lanes are needed to keep it below %g (equation (1): "
            "%u).\n",
            MAX_LANES, limit, wanted->equation);
    }
    if (lanes > MAX_LANES) {
        printf(
            "A rail has at most %u lanes; use port rules, see mrail-acl(1).\n",
            MAX_LANES);
        return;
    }
    printf("  UCX_MRAIL_LANES_PER_RAIL=%u\n", lanes);
    if (chunk != 0) {
        printf("  UCX_MRAIL_RMA_CHUNK_SIZE=%llu\n", (unsigned long long)chunk);
    }
}

static void print_json(const options_t *options, const wanted_t *wanted)
{
    mrail_json_t json = mrail_json_to(stdout);

    mrail_json_object(&json, NULL);
    mrail_json_uint(&json, "nodes", options->nodes);
    mrail_json_real(&json, "limit", limit_of(options), 7);
    mrail_json_uint(&json, "lanes_wanted", wanted->equation);
    if (wanted->exact != 0 && wanted->exact <= MAX_LANES) {
        mrail_json_uint(&json, "lanes_exact", wanted->exact);
    }
    mrail_json_uint(&json, "lanes_max", MAX_LANES);
    mrail_json_array(&json, "lanes");
    for (unsigned lanes = 1; lanes <= MAX_LANES; lanes *= 2) {
        double exact = exact_of(options, lanes);

        mrail_json_newline(&json);
        mrail_json_object(&json, NULL);
        mrail_json_uint(&json, "lanes", lanes);
        mrail_json_real(&json, "slowdown",
                        mrail_flowlets_slowdown(options->nodes, lanes), 9);
        if (!isnan(exact)) {
            mrail_json_real(&json, "slowdown_exact", exact, 9);
        }
        if (chunk_of(options, lanes) != 0) {
            mrail_json_uint(&json, "chunk_bytes", chunk_of(options, lanes));
        }
        mrail_json_object_end(&json);
    }
    mrail_json_newline(&json);
    mrail_json_array_end(&json);
    mrail_json_object_end(&json);
    mrail_json_end(&json);
}

int main(int argc, char **argv)
{
    options_t options = {.nodes = 128, .slowdown_ppm = 500000};
    wanted_t wanted;

    (void)argc;
    mrail_options_parse(&command, argv, &options);
    if ((options.rate_bps != 0) != (options.rtt_s > 0)) {
        mrail_tool_usage(
            COMMAND,
            "--rate and --rtt must be given together; the chunk size is a "
            "fraction of their product");
    }
    wanted = find_wanted(&options);
    if (options.json) {
        print_json(&options, &wanted);
    } else {
        print_table(&options);
        print_advice(&options, &wanted);
    }
    return 0;
}
