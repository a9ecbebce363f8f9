/*
 * mrail run parses the options, lets mpirun_cmd.c build the command, and
 * executes it. This is the command of mpirun or, if another launcher has
 * started this process as a rank, the command of the rank.
 */
#include "config.h"
#include "rail/mrail.h"
#include "tools/mpirun_cmd.h"
#include "base/launch.h"
#include "base/number.h"
#include "tools/options.h"
#include "tools/rates.h"
#include "tools/soft_file.h"
#include "tools/tool.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COMMAND "run"
/* same as in lab_command.h */
#define MRAIL_LAB_ADDRESSES "/dev/shm/mrail-lab/addresses"
/* maximum length of the text after "run-" in a session name */
#define JOB_NAME_MAX 36u
/* shared by all jobs of a lab */
#define MRAIL_LAB_SESSION "lab"

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

    if (mrail_number_uint(text, 1, max, &value) < 0) {
        mrail_tool_usage(COMMAND, "%s %s: expected a number from 1 to %u",
                         option, text, max);
    }
    return (unsigned)value;
}

static void take_soft(void *target, const char *text)
{
    mrail_run_options_t *options = &((run_t *)target)->options;
    const char *x = strchr(text, 'x');
    char nodes[16];

    if (strcmp(text, "lab") == 0) {
        const char *size = getenv("MRAIL_LAB_SIZE");

        if (getenv("MRAIL_LAB") == NULL) {
            mrail_tool_usage(
                COMMAND,
                "--soft lab requires a lab; 'mrail lab FABRIC -- mrail run "
                "...' creates one");
        }
        if (size == NULL || strcmp(size, "lab") == 0) {
            mrail_tool_usage(
                COMMAND,
                "--soft lab requires hosts with the same number of rails");
        }
        take_soft(target, size);
        options->addresses = MRAIL_LAB_ADDRESSES;
        return;
    }
    if (x == NULL || (size_t)(x - text) >= sizeof(nodes)) {
        mrail_tool_usage(
            COMMAND, "--soft %s: expected NODESxRAILS, for example 2x4", text);
    }
    snprintf(nodes, sizeof(nodes), "%.*s", (int)(x - text), text);
    options->nodes = parse_count("--soft", nodes, MRAIL_RUN_MAX_NODES);
    options->rails = parse_count("--soft", x + 1, MRAIL_RUN_MAX_RAILS);
}

static void take_stock(void *target, const char *text)
{
    mrail_run_options_t *options = &((run_t *)target)->options;

    if (text == NULL || strcmp(text, "all") == 0) {
        options->stock = MRAIL_RUN_STOCK_ALL;
    } else if (strcmp(text, "1") == 0) {
        options->stock = MRAIL_RUN_STOCK_ONE;
    } else {
        mrail_tool_usage(COMMAND, "--stock=%s: expected 1 or all", text);
    }
}

static void take_bind_rails(void *target, const char *text)
{
    run_t *run = target;

    run->bind = 1;
    run->options.devices = text;
}

static int has_separator(char **argv)
{
    while (*argv != NULL && strcmp(*argv, "--") != 0) {
        ++argv;
    }
    return *argv != NULL;
}

/* Reserves an option of mpirun with its values. If a "--" marks the start of
 * the command, the words after an unknown option are its values. */
static unsigned take_for_mpirun(void *target, char **argv)
{
    run_t *run = target;
    int values, is_open;
    unsigned taken = 1;

    if (argv[0][0] != '-') {
        return 0; /* the command starts here */
    }
    values = mrail_run_num_values(argv[0]);
    is_open = values < 0 && has_separator(argv);
    mrail_tool_args_add(&run->user, argv[0]);
    while (argv[taken] != NULL && strcmp(argv[taken], "--") != 0 &&
           (values > 0 || (is_open && argv[taken][0] != '-'))) {
        mrail_tool_args_add(&run->user, argv[taken++]);
        --values;
    }
    return taken;
}

#define FIELD(_name) offsetof(run_t, _name)

static const mrail_option_t run_options[] = {
    {"-np|--np|-n|--n|-c", "N", "number of ranks", MRAIL_OPTION_UNSIGNED,
     FIELD(options.np), 1, 1000000, NULL},
    {"--soft", "NODESxRAILS",
     "use software rails instead of NICs: NODES emulated nodes on this "
     "machine, with RAILS rails each. Ranks are assigned to nodes in blocks; "
     "the default for -np is NODES. In mrail lab, 'lab' uses its hosts",
     MRAIL_OPTION_CALL, 0, 0, 0, take_soft},
    {"--rate", "LIST",
     "rates of the software rails: one for all rails or one for each, such as "
     "100MB/s or 800Mb/s,400Mb/s; max means no limit",
     MRAIL_OPTION_TEXT, FIELD(options.rate), 0, 0, NULL},
    {"--script", "FILE",
     "run this fault script on the software rails during the job "
     "(mrail-script(5))",
     MRAIL_OPTION_TEXT, FIELD(options.script), 0, 0, NULL},
    {"--session", "NAME",
     "session name of the software rails, to share or control them (unique "
     "to the job)",
     MRAIL_OPTION_TEXT, FIELD(options.session), 0, 0, NULL},
    MRAIL_GPUS_OPTIONS(run_t, options.gpus),
    {"--bind-rails", "[=A,B]",
     "bind each rank of a node to one rail: the rail nearest to its GPU; "
     "without GPUs, soft0, soft1, ... or the devices A,B in rotation",
     MRAIL_OPTION_CALL, 0, 0, 0, take_bind_rails},
    {"--stock", "[=all|1]",
     "use stock UCX instead of mrail, on all rails with its best settings "
     "(default) or on one rail",
     MRAIL_OPTION_CALL, 0, 0, 0, take_stock},
    {"--print", NULL, "show the command without running it", MRAIL_OPTION_FLAG,
     FIELD(print), 0, 0, NULL},
    {.names = NULL}};

static const char *const synopsis[] = {
    "[-np N] [OPTION...] [MPIRUN OPTION...] [--] CMD [ARG...]",
    "[OPTION...] [--] CMD [ARG...]   under srun --mpi=pmix", NULL};

static const mrail_command_t command = {
    .name = COMMAND,
    .synopsis = synopsis,
    .about =
        "Runs CMD under mpirun with mrail as its only network transport.\n"
        "CMD begins at the first word that is neither an option nor the value\n"
        "of one, or after --, and is passed on unchanged. Other options go to\n"
        "mpirun; if an unknown one has a value, the -- is required. Your own\n"
        "settings (--mca KEY, -x NAME, UCX_* and OMPI_MCA_* variables) are kept.\n"
        "If srun or another launcher has started this command as a rank, CMD is\n"
        "executed with the same settings, without mpirun.\n",
    .options = run_options,
    .epilog =
        "Exit status: that of mpirun or CMD; 1 if it could not start, 2 usage or an\n"
        "invalid parameter of the transport.\n",
    .other = take_for_mpirun,
    .operands = 1};

static void parse_args(run_t *run, char **argv)
{
    int first = mrail_options_parse(&command, argv, run);

    if (argv[first] == NULL) {
        mrail_tool_usage(COMMAND, "missing command after the options");
    }
    run->options.command = (const char *const *)(argv + first);
    run->options.user = (const char *const *)run->user.items;
    run->options.num_user = run->user.count;
}

/* The script must be a regular file, because rank 0 reads it a second time. */
static void check_script(const mrail_run_options_t *options)
{
    soft_file_session_t session = {.num_nodes = options->nodes,
                                   .num_rails = options->rails,
                                   .num_gpus = options->gpus.num,
                                   .has_pairs =
                                       mrail_gpus_have_pairs(&options->gpus)};
    char reason[SOFT_FILE_REASON_MAX];
    struct stat st;

    if (stat(options->script, &st) != 0) {
        mrail_tool_usage(COMMAND, "--script %s: %s", options->script,
                         strerror(errno));
    }
    if (!S_ISREG(st.st_mode)) {
        mrail_tool_usage(COMMAND, "--script %s: expected a regular file",
                         options->script);
    }
    /* A session with this name may already exist and have checksums and GPUs,
     * although this command does not request them. */
    if (options->session != NULL) {
        session.has_icrc = 1;
        if (options->gpus.num == 0) {
            session.num_gpus = MRAIL_GPUS_MAX;
        }
    }
    if (soft_file_check(options->script, &session, reason, sizeof(reason)) !=
        0) {
        mrail_tool_usage(COMMAND, "%s", reason);
    }
}

/* Reports errors once that `mrail soft` would otherwise report in every
 * rank. */
static void check_soft(const mrail_run_options_t *options)
{
    uint64_t rates[MRAIL_RUN_MAX_RAILS];
    char reason[256];

    if (options->nodes * options->rails > MRAIL_RUN_MAX_DEVS) {
        mrail_tool_usage(COMMAND,
                         "--soft %ux%u: at most %u rails are supported",
                         options->nodes, options->rails, MRAIL_RUN_MAX_DEVS);
    }
    if (options->script != NULL) {
        check_script(options);
    }
    if (options->nodes * options->gpus.num > MRAIL_RUN_MAX_DEVS) {
        mrail_tool_usage(COMMAND,
                         "%u nodes x %u GPUs: at most %u GPUs are supported",
                         options->nodes, options->gpus.num, MRAIL_RUN_MAX_DEVS);
    }
    if (mrail_gpus_check(&options->gpus, reason, sizeof(reason)) != 0) {
        mrail_tool_usage(COMMAND, "%s", reason);
    }
    if (options->rate != NULL &&
        mrail_rates_parse(options->rate, options->rails, rates, reason,
                          sizeof(reason)) != 0) {
        mrail_tool_usage(COMMAND, "%s", reason);
    }
}

/* Determines whether a launcher has started this process as a rank. */
static void check_rank(run_t *run, const mrail_launch_t *launch)
{
    mrail_run_options_t *options = &run->options;
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    const char *word;

    options->is_rank = launch->is_mpi;
    if (!launch->is_mpi && (tasks != NULL) && (strcmp(tasks, "1") != 0)) {
        mrail_tool_fail(
            COMMAND,
            "srun has started %s tasks without PMIx, and each task would start "
            "a job of its own; add --mpi=pmix to srun",
            tasks);
    }
    if (!options->is_rank) {
        return;
    }
    if (options->np != 0) {
        mrail_tool_usage(
            COMMAND,
            "-np cannot be used: the launcher has already started the ranks");
    }
    word = mrail_run_not_for_rank(options);
    if (word != NULL) {
        mrail_tool_usage(
            COMMAND,
            "%s cannot be used: it is an option of mpirun, but another "
            "launcher has already started the ranks",
            word);
    }
}

/* Chooses a session name that all ranks of the job share. */
static void name_session(run_t *run, const mrail_launch_t *launch)
{
    char *c = run->session;
    size_t length;

    if (!run->options.is_rank || (launch->job == NULL)) {
        snprintf(run->session, sizeof(run->session), "run-%ld", (long)getpid());
        return;
    }
    /* Keep the end of the name, in which the names of jobs differ. */
    length = strlen(launch->job);
    snprintf(run->session, sizeof(run->session), "run-%s",
             launch->job +
                 ((length > JOB_NAME_MAX) ? length - JOB_NAME_MAX : 0));
    for (; *c != '\0'; ++c) {
        *c = isalnum((unsigned char)*c) ? *c : '-';
    }
}

/* Checks options that depend on each other, and fills in default names. */
static void complete_options(run_t *run)
{
    mrail_launch_t launch = mrail_launch_read(getenv);
    mrail_run_options_t *options = &run->options;
    size_t used = 0;

    check_rank(run, &launch);
    if (options->nodes == 0) {
        if (options->rate != NULL || options->session != NULL ||
            options->script != NULL || options->gpus.num != 0 ||
            options->gpus.link != NULL || options->gpus.pcie != NULL ||
            options->gpus.memory != 0 || options->gpus.faults != NULL ||
            options->gpus.peermem) {
            mrail_tool_usage(COMMAND, "--rate, --script, --session and the "
                                      "GPU options require --soft");
        }
        if (run->bind && options->devices == NULL) {
            mrail_tool_usage(
                COMMAND,
                "--bind-rails without --soft requires the names of the NICs: "
                "--bind-rails=DEV,DEV,...");
        }
        return;
    }
    check_soft(options);
    if (options->addresses != NULL) {
        if (options->rate != NULL) {
            mrail_tool_usage(
                COMMAND,
                "--rate cannot be used with a lab, whose rates come from its "
                "fabric");
        }
        options->session = MRAIL_LAB_SESSION;
    }
    if (options->session == NULL) {
        name_session(run, &launch);
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

/* Executes the command. Its first words are environment variables (see
 * mpirun_cmd.h). */
static _Noreturn void execute(char **argv, unsigned num_variables)
{
    for (; num_variables > 0; --num_variables, ++argv) {
        (void)putenv(argv[0]);
    }
    execvp(argv[0], argv);
    mrail_tool_fail(COMMAND, "%s: %s%s", argv[0], strerror(errno),
                    (errno == ENOENT && strcmp(argv[0], "mpirun") == 0)
                        ? " (is openmpi-bin installed?)"
                        : "");
}

/* Warns if this machine has no rail. This is only a warning, because the job
 * may run on other nodes. Without the warning, a first attempt on a machine
 * without a NIC would silently use another transport. */
static void warn_without_rail(const mrail_config_t *config)
{
    mrail_rejected_ports_t rejected = {.length = 0};

    if (mrail_rail_discover(config, mrail_rejected_ports_add, &rejected) == 0) {
        fprintf(stderr,
                "mrail run: this node has no rail: %s; ranks here will not use "
                "mrail. For software rails add --soft 2x4\n",
                mrail_rejected_ports_text(&rejected));
    }
}

/* Exits if a parameter of the transport is invalid, because all ranks would
 * reject it or silently use another transport. */
static void check_node(const mrail_run_options_t *options)
{
    mrail_config_t config;

    if (options->stock != MRAIL_RUN_STOCK_NO) {
        return;
    }
    if (mrail_config_from_env(&config) != 0) {
        exit(MRAIL_TOOL_USAGE); /* the parser has printed the message */
    }
    if (options->nodes == 0 && mrail_launch_read(getenv).local_rank <= 0) {
        warn_without_rail(&config);
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
    unsigned num_variables;

    parse_args(&run, argv);
    complete_options(&run);
    mrail_tool_installed(MRAIL_BINDIR "/mrail", mrail, sizeof(mrail));
    mrail_tool_installed(MRAIL_PKGLIBEXECDIR "/rank-rail", rank_rail,
                         sizeof(rank_rail));
    mrail_tool_installed(MRAIL_OMPI_DIR, components, sizeof(components));
    mrail_tool_installed(MRAIL_NONE_DIR, no_components, sizeof(no_components));
    num_variables = mrail_run_plan(&run.options, &paths, getenv, &args);
    if (run.print) {
        mrail_tool_args_print(&args, stdout);
        return 0;
    }
    if (run.options.stock == MRAIL_RUN_STOCK_NO &&
        access(components, R_OK) != 0) {
        mrail_tool_fail(
            COMMAND,
            "%s does not contain the Open MPI components: mrail was built "
            "without Open MPI; --stock does not require them",
            components);
    }
    check_node(&run.options);
    execute(args.items, num_variables);
}
