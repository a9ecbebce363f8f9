/*
 * mrail run: mpirun with everything set.  Reads the options, lets run_plan.c
 * make the command, and starts it.
 */
#include "config.h"
#include "rail/mrail.h"
#include "tools/rates.h"
#include "tools/mpirun_cmd.h"
#include "tools/soft_file.h"
#include "tools/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VERB "run"

static const char help_text[] =
    "Usage: mrail run [-np N] [OPTION...] [MPIRUN OPTION...] [--] CMD [ARG...]\n"
    "\n"
    "Runs CMD under mpirun with mrail as its only network transport.\n"
    "CMD begins at the first word that is neither an option nor the value of\n"
    "one, or after --; from there on nothing is changed. Other options go to\n"
    "mpirun; an unknown one that has a value needs the --. What you set yourself (--mca KEY, -x NAME, UCX_* and OMPI_MCA_*\n"
    "variables) is not set again.\n"
    "\n"
    "  -np N                 number of ranks\n"
    "  --soft NODESxRAILS    on software rails: that many emulated nodes on\n"
    "                        this machine (ranks in blocks), each with that\n"
    "                        many rails; needs no NIC. Default for -np: NODES;\n"
    "                        with fewer ranks some nodes are empty\n"
    "  --rate LIST           rates of the software rails, as in mrail soft\n"
    "  --script FILE         faults of the software rails while the job runs,\n"
    "                        as in mrail soft\n"
    "  --session NAME        name of the software rails, to share or steer\n"
    "                        them; default: one that is unique to this job\n"
    "  --bind-rails[=A,B]    each rank of a node sees one rail only: soft0,\n"
    "                        soft1, ... or the devices A,B, in turn\n"
    "  --stock[=all|=1]      stock UCX instead of mrail, on all rails with\n"
    "                        its best settings (default) or on one rail\n"
    "  --print               show the mpirun command, do not run it\n"
    "  -h, --help            this text\n"
    "\n"
    "Exit status: that of mpirun; 1 it could not start, 2 usage.\n";

typedef struct run {
    mrail_run_options_t options;
    mrail_tool_args_t user;
    char session[64];
    char devices[16 * MRAIL_RUN_MAX_RAILS];
    int bind;
    int print;
} run_t;

static unsigned parse_count(const char *option, const char *text, unsigned max)
{
    uint64_t value;

    if (mrail_tool_parse_uint(text, 1, max, &value) < 0) {
        mrail_tool_usage(VERB, "%s %s: a number from 1 to %u is wanted", option,
                         text, max);
    }
    return (unsigned)value;
}

static void parse_soft(mrail_run_options_t *options, const char *text)
{
    char nodes[16];
    const char *x = strchr(text, 'x');

    if (x == NULL || (size_t)(x - text) >= sizeof(nodes)) {
        mrail_tool_usage(
            VERB, "--soft %s: NODESxRAILS is wanted, for example 2x4", text);
    }
    snprintf(nodes, sizeof(nodes), "%.*s", (int)(x - text), text);
    options->nodes = parse_count("--soft", nodes, MRAIL_RUN_MAX_NODES);
    options->rails = parse_count("--soft", x + 1, MRAIL_RUN_MAX_RAILS);
}

static void parse_stock(mrail_run_options_t *options, const char *text)
{
    if (text == NULL || strcmp(text, "all") == 0) {
        options->stock = MRAIL_RUN_STOCK_ALL;
    } else if (strcmp(text, "1") == 0) {
        options->stock = MRAIL_RUN_STOCK_ONE;
    } else {
        mrail_tool_usage(VERB, "--stock=%s: '1' or 'all' is wanted", text);
    }
}

/* If argv[*i_p] is `name`, "name value" or "name=value", the value. */
static const char *option_value(char **argv, int *i_p, const char *name)
{
    size_t length = strlen(name);
    const char *word = argv[*i_p];

    if (strncmp(word, name, length) != 0) {
        return NULL;
    }
    if (word[length] == '=') {
        return word + length + 1;
    }
    if (word[length] != '\0') {
        return NULL;
    }
    if (argv[*i_p + 1] == NULL || strcmp(argv[*i_p + 1], "--") == 0) {
        mrail_tool_usage(VERB, "%s wants a value", name);
    }
    return argv[++*i_p];
}

/* "--name" or "--name=value": 1, with *value_p NULL or the value. */
static int option_flag(const char *word, const char *name, const char **value_p)
{
    size_t length = strlen(name);

    if (strncmp(word, name, length) != 0 ||
        (word[length] != '\0' && word[length] != '=')) {
        return 0;
    }
    *value_p = (word[length] == '=') ? word + length + 1 : NULL;
    return 1;
}

static int has_separator(char **argv)
{
    while (*argv != NULL && strcmp(*argv, "--") != 0) {
        ++argv;
    }
    return *argv != NULL;
}

/* An option of mpirun with its values.  The words after an unknown option are
 * its values if "--" shows where the command begins. */
static void take_for_mpirun(run_t *run, char **argv, int *i_p)
{
    int values = mrail_run_num_values(argv[*i_p]);
    int is_open = values < 0 && has_separator(argv + *i_p);

    mrail_tool_args_add(&run->user, argv[*i_p]);
    while (argv[*i_p + 1] != NULL && strcmp(argv[*i_p + 1], "--") != 0 &&
           (values > 0 || (is_open && argv[*i_p + 1][0] != '-'))) {
        mrail_tool_args_add(&run->user, argv[++*i_p]);
        --values;
    }
}

static void parse_word(run_t *run, char **argv, int *i_p)
{
    static const char *const np_names[] = {"-np", "--np", "-n", "--n", "-c"};
    mrail_run_options_t *options = &run->options;
    const char *value;

    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(np_names); ++i) {
        if (strcmp(argv[*i_p], np_names[i]) == 0) {
            value = option_value(argv, i_p, np_names[i]);
            options->np = parse_count("-np", value, 1000000);
            return;
        }
    }
    if ((value = option_value(argv, i_p, "--soft")) != NULL) {
        parse_soft(options, value);
    } else if ((value = option_value(argv, i_p, "--rate")) != NULL) {
        options->rate = value;
    } else if ((value = option_value(argv, i_p, "--script")) != NULL) {
        options->script = value;
    } else if ((value = option_value(argv, i_p, "--session")) != NULL) {
        options->session = value;
    } else if (option_flag(argv[*i_p], "--bind-rails", &value)) {
        run->bind = 1;
        options->devices = value;
    } else if (option_flag(argv[*i_p], "--stock", &value)) {
        parse_stock(options, value);
    } else if (strcmp(argv[*i_p], "--print") == 0) {
        run->print = 1;
    } else if (mrail_tool_is_help(argv[*i_p])) {
        fputs(help_text, stdout);
        exit(0);
    } else {
        take_for_mpirun(run, argv, i_p);
    }
}

static void parse_args(run_t *run, char **argv)
{
    int i;

    for (i = 1;
         argv[i] != NULL && argv[i][0] == '-' && strcmp(argv[i], "--") != 0;
         ++i) {
        mrail_tool_version(argv[i]);
        parse_word(run, argv, &i);
    }
    if (argv[i] != NULL && strcmp(argv[i], "--") == 0) {
        ++i;
    }
    if (argv[i] == NULL) {
        mrail_tool_usage(VERB, "no command: it comes after the options");
    }
    run->options.command = (const char *const *)(argv + i);
    run->options.user = (const char *const *)run->user.items;
    run->options.num_user = run->user.count;
}

/* Rank 0 will read it again: a pipe would not do. */
static void check_script(const mrail_run_options_t *options)
{
    char why[SOFT_FILE_WHY_MAX];
    struct stat st;

    if (stat(options->script, &st) != 0) {
        mrail_tool_usage(VERB, "--script %s: %s", options->script,
                         strerror(errno));
    }
    if (!S_ISREG(st.st_mode)) {
        mrail_tool_usage(VERB, "--script %s: not a file", options->script);
    }
    /* A session that has a name may be there, with checksums. */
    if (soft_file_check(options->script, options->nodes, options->rails,
                        options->session != NULL, why, sizeof(why)) != 0) {
        mrail_tool_usage(VERB, "%s", why);
    }
}

/* What `mrail soft` would refuse in every rank is refused here, once. */
static void check_soft(const mrail_run_options_t *options)
{
    uint64_t rates_bps[MRAIL_RUN_MAX_RAILS];
    char why[256];

    if (options->nodes * options->rails > MRAIL_RUN_MAX_DEVS) {
        mrail_tool_usage(VERB, "--soft %ux%u: more than %u devices",
                         options->nodes, options->rails, MRAIL_RUN_MAX_DEVS);
    }
    if (options->script != NULL) {
        check_script(options);
    }
    if (options->rate != NULL &&
        mrail_rates_parse(options->rate, options->rails, rates_bps, why,
                          sizeof(why)) != 0) {
        mrail_tool_usage(VERB, "%s", why);
    }
}

/* Options that only make sense together; fills in names. */
static void complete_options(run_t *run)
{
    mrail_run_options_t *options = &run->options;
    size_t used = 0;

    if (options->nodes == 0) {
        if (options->rate != NULL || options->session != NULL ||
            options->script != NULL) {
            mrail_tool_usage(VERB, "--rate, --script and --session are about "
                                   "software rails: give --soft too");
        }
        if (run->bind && options->devices == NULL) {
            mrail_tool_usage(VERB, "--bind-rails on real NICs wants their "
                                   "names: --bind-rails=DEV,DEV,...");
        }
        return;
    }
    check_soft(options);
    if (options->session == NULL) {
        snprintf(run->session, sizeof(run->session), "run-%ld", (long)getpid());
        options->session = run->session;
    }
    if (run->bind && options->devices == NULL) {
        for (unsigned i = 0; i < options->rails; ++i) {
            used += (size_t)snprintf(run->devices + used,
                                     sizeof(run->devices) - used, "%ssoft%u",
                                     (i > 0) ? "," : "", i);
        }
        options->devices = run->devices;
    }
}

/* The words that come first are variables: run_plan.h. */
static _Noreturn void exec_mpirun(char **argv)
{
    for (; strchr(argv[0], '=') != NULL; ++argv) {
        (void)putenv(argv[0]);
    }
    execvp(argv[0], argv);
    mrail_tool_fail(VERB, "%s: %s%s", argv[0], strerror(errno),
                    (errno == ENOENT) ? " (is openmpi-bin installed?)" : "");
}

static void ignore_rail(void *arg, const mrail_rail_attr_t *attr)
{
}

/* The job may run on other nodes, so this is no error; but a first try on a
 * machine without a NIC would otherwise run over something else in silence. */
static void warn_without_rail(const mrail_run_options_t *options)
{
    mrail_config_t config;

    if (options->stock != MRAIL_RUN_STOCK_NO || options->nodes != 0 ||
        mrail_config_from_env(&config) != 0) {
        return;
    }
    if (mrail_rail_discover(&config, ignore_rail, NULL) == 0) {
        fprintf(stderr,
                "mrail run: this node has no rail (mrail info says why); "
                "ranks here will not use mrail. For software rails add "
                "--soft 2x4\n");
    }
    mrail_config_cleanup(&config);
}

int main(int argc, char **argv)
{
    char mrail[MRAIL_TOOL_PATH_MAX];
    char rank_rail[MRAIL_TOOL_PATH_MAX];
    char components[MRAIL_TOOL_PATH_MAX];
    char no_components[MRAIL_TOOL_PATH_MAX];
    mrail_run_paths_t paths = {mrail, rank_rail, components,
                               MRAIL_MPIRUN_FEEDS_PMIX ? no_components : NULL};
    mrail_tool_args_t args = {0};
    run_t run = {0};

    parse_args(&run, argv);
    complete_options(&run);
    mrail_tool_installed(MRAIL_BINDIR "/mrail", mrail, sizeof(mrail));
    mrail_tool_installed(MRAIL_PKGLIBEXECDIR "/rank-rail", rank_rail,
                         sizeof(rank_rail));
    mrail_tool_installed(MRAIL_OMPI_DIR, components, sizeof(components));
    mrail_tool_installed(MRAIL_NONE_DIR, no_components, sizeof(no_components));
    mrail_run_plan(&run.options, &paths, getenv, &args);
    if (run.print) {
        mrail_tool_args_print(&args, stdout);
        return 0;
    }
    if (run.options.stock == MRAIL_RUN_STOCK_NO &&
        access(components, R_OK) != 0) {
        mrail_tool_fail(VERB,
                        "%s: no Open MPI components there: mrail was built "
                        "without Open MPI; --stock runs without them",
                        components);
    }
    warn_without_rail(&run.options);
    exec_mpirun(args.items);
}
