#include "config.h"
#include "tools/mpirun_cmd.h"

#include <string.h>

/* UCX 1.13 to 1.22 use at most this many rails for one message. */
#define STOCK_MAX_RAILS 4u

typedef struct plan {
    const mrail_run_options_t *options;
    char *(*getenv_func)(const char *name);
    int is_prrte; /* 1 if mpirun belongs to Open MPI 5.0 */
    /* environment variables for mpirun itself, or for the rank */
    mrail_tool_args_t *variables;
    mrail_tool_args_t *args;
} plan_t;

static int is_option(const char *word, const char *name)
{
    word += (word[0] == '-' && word[1] == '-') ? 1 : 0;
    return word[0] == '-' && strcmp(word + 1, name) == 0;
}

/* Options of mpirun, by their number of values: two, one or zero. */
static const char *const two_values[] = {"mca", "gmca", "omca", "pmixmca",
                                         "prtemca"};
static const char *const one_value[] = {"x",
                                        "H",
                                        "host",
                                        "hostfile",
                                        "machinefile",
                                        "default-hostfile",
                                        "rankfile",
                                        "rf",
                                        "map-by",
                                        "rank-by",
                                        "bind-to",
                                        "N",
                                        "npernode",
                                        "npersocket",
                                        "npernuma",
                                        "ppr",
                                        "cpus-per-proc",
                                        "cpus-per-rank",
                                        "cpu-set",
                                        "cpu-list",
                                        "slot-list",
                                        "wdir",
                                        "wd",
                                        "path",
                                        "prefix",
                                        "output-filename",
                                        "output",
                                        "timeout",
                                        "stdin",
                                        "xml-file",
                                        "report-uri",
                                        "personality",
                                        "launch-agent",
                                        "server-wait-time",
                                        "max-restarts",
                                        "tune",
                                        "am",
                                        "preload-files",
                                        "max-vm-size",
                                        "dvm",
                                        "hnp",
                                        "forward-signals",
                                        "xterm",
                                        "display",
                                        "runtime-options",
                                        "ompi-server"};
static const char *const no_value[] = {"oversubscribe",
                                       "nooversubscribe",
                                       "use-hwthread-cpus",
                                       "tag-output",
                                       "timestamp-output",
                                       "report-bindings",
                                       "display-map",
                                       "display-allocation",
                                       "allow-run-as-root",
                                       "nolocal",
                                       "v",
                                       "verbose",
                                       "q",
                                       "quiet",
                                       "bynode",
                                       "byslot",
                                       "bycore",
                                       "merge-stderr-to-stdout",
                                       "get-stack-traces",
                                       "report-child-jobs-separately",
                                       "enable-recovery",
                                       "do-not-launch",
                                       "leave-session-attached",
                                       "noprefix",
                                       "novm",
                                       "pernode"};

int mrail_run_num_values(const char *word)
{
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(two_values); ++i) {
        if (is_option(word, two_values[i])) {
            return 2;
        }
    }
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(one_value); ++i) {
        if (is_option(word, one_value[i])) {
            return 1;
        }
    }
    for (unsigned i = 0; i < MRAIL_ARRAY_SIZE(no_value); ++i) {
        if (is_option(word, no_value[i])) {
            return 0;
        }
    }
    return (strchr(word, '=') != NULL) ? 0 : -1;
}

/* Returns 1 if the user's options contain "-<name>", or "-<name> <value>" if
 * value is given. After -x, "NAME=..." matches NAME. */
static int user_has(const plan_t *plan, const char *name, const char *value)
{
    const char *const *user = plan->options->user;
    size_t length = (value != NULL) ? strlen(value) : 0;

    for (unsigned i = 0; i < plan->options->num_user; ++i) {
        if (!is_option(user[i], name)) {
            continue;
        }
        if (value == NULL) {
            return 1;
        }
        if (i + 1 < plan->options->num_user &&
            strncmp(user[i + 1], value, length) == 0 &&
            (user[i + 1][length] == '\0' || user[i + 1][length] == '=')) {
            return 1;
        }
    }
    return 0;
}

static int user_has_mca(const plan_t *plan, const char *key)
{
    char name[128];

    snprintf(name, sizeof(name), "OMPI_MCA_%s", key);
    return user_has(plan, "mca", key) || user_has(plan, "gmca", key) ||
           plan->getenv_func(name) != NULL;
}

static void add_mca(plan_t *plan, const char *key, const char *value)
{
    if (user_has_mca(plan, key)) {
        return;
    }
    if (plan->options->is_rank) {
        mrail_tool_args_addf(plan->variables, "OMPI_MCA_%s=%s", key, value);
        return;
    }
    mrail_tool_args_add(plan->args, "--mca");
    mrail_tool_args_add(plan->args, key);
    mrail_tool_args_add(plan->args, value);
}

/* Sets a variable for all ranks. If the environment already has the variable,
 * it is exported with its current value, because remote ranks receive only
 * variables named with -x. Processes that a rank spawns inherit mpirun's own
 * environment. mpirun of Open MPI 4.1 adds the -x variables to that
 * environment, but mpirun of 5.0 does not. */
static void add_env(plan_t *plan, const char *name, const char *value)
{
    if (user_has(plan, "x", name)) {
        return;
    }
    if (plan->options->is_rank) {
        if (plan->getenv_func(name) == NULL) {
            mrail_tool_args_addf(plan->variables, "%s=%s", name, value);
        }
        return;
    }
    mrail_tool_args_add(plan->args, "-x");
    if (plan->getenv_func(name) != NULL) {
        mrail_tool_args_add(plan->args, name);
    } else if (plan->is_prrte) {
        mrail_tool_args_addf(plan->variables, "%s=%s", name, value);
        mrail_tool_args_add(plan->args, name);
    } else {
        mrail_tool_args_addf(plan->args, "%s=%s", name, value);
    }
}

static void plan_common(plan_t *plan)
{
    if (plan->options->nodes > 0) {
        add_mca(plan, "mpi_yield_when_idle", "1");
    }
    /* Debian's parameter file sets pml = ^ucx, and pml/ucx disables itself on
     * devices whose names it does not know. */
    add_mca(plan, "pml", "ucx");
    add_mca(plan, "pml_ucx_tls", "any");
    add_mca(plan, "pml_ucx_devices", "any");
    add_mca(plan, "opal_common_ucx_tls", "any");
    add_mca(plan, "opal_common_ucx_devices", "any");
}

#define COMPONENT_PATH "mca_base_component_path"

/* mpirun of Open MPI 5.0 passes its component path on to PMIx unless PMIx has
 * its own path. PMIx then prints warnings about unknown components in every
 * process. Therefore, this function sets PMIx's path to an empty directory. An
 * empty string does not work, because mpirun puts it unquoted on the command
 * line of its daemons. */
static void plan_components(plan_t *plan, const mrail_run_paths_t *paths)
{
    char path[MRAIL_TOOL_PATH_MAX + 64];

    /* The user's directory must be last: Open MPI stops searching at a
     * directory that does not exist, and this directory may not exist. */
    snprintf(path, sizeof(path), "SYSTEM_DEFAULT:%s:USER_DEFAULT",
             paths->components);
    add_mca(plan, COMPONENT_PATH, path);
    if (plan->is_prrte && !user_has(plan, "pmixmca", COMPONENT_PATH) &&
        plan->getenv_func("PMIX_MCA_" COMPONENT_PATH) == NULL) {
        if (plan->options->is_rank) {
            mrail_tool_args_addf(plan->variables, "PMIX_MCA_%s=%s",
                                 COMPONENT_PATH, paths->no_components);
            return;
        }
        mrail_tool_args_add(plan->args, "--pmixmca");
        mrail_tool_args_add(plan->args, COMPONENT_PATH);
        mrail_tool_args_add(plan->args, paths->no_components);
    }
}

static void plan_mrail(plan_t *plan, const mrail_run_paths_t *paths)
{
    plan_components(plan, paths);
    /* Emulated nodes share this machine, so shared memory would bypass the
     * rails. */
    add_env(plan, "UCX_TLS",
            (plan->options->nodes > 0) ? "mrail,self" : "mrail,self,sm");
}

/* Sets the fastest of the measured settings (docs/tuning.md). */
static void plan_stock(plan_t *plan)
{
    const mrail_run_options_t *options = plan->options;
    unsigned rails = (options->nodes > 0) ? options->rails : STOCK_MAX_RAILS;
    char value[16];

    /* With mrail, the hook component sets these when the transport is
     * loaded. */
    add_mca(plan, "btl", "^openib,uct,ofi,vader,sm");
    add_mca(plan, "osc", "^rdma,pt2pt");
    add_env(plan, "UCX_TLS", (options->nodes > 0) ? "rc_v,self" : "rc,self,sm");
    add_env(plan, "UCX_RNDV_SCHEME", "get_zcopy");
    if (options->nodes > 0) {
        /* This value was measured on software rails (docs/tuning.md). On NICs,
         * UCX's own estimate is accurate. */
        add_env(plan, "UCX_RNDV_THRESH", "64k");
    }
    if (options->devices != NULL) {
        return; /* each rank sees one rail: see rank_rail.c */
    }
    if (options->stock == MRAIL_RUN_STOCK_ONE) {
        if (options->nodes > 0) {
            add_env(plan, "UCX_NET_DEVICES", "soft0:1");
        }
        rails = 1;
    }
    snprintf(value, sizeof(value), "%u", MRAIL_MIN(rails, STOCK_MAX_RAILS));
    add_env(plan, "UCX_MAX_RNDV_RAILS", value);
    add_env(plan, "UCX_MAX_EAGER_RAILS", value);
}

static void plan_ranks(plan_t *plan)
{
    unsigned np = plan->options->np;

    if (np == 0) {
        np = plan->options->nodes;
    }
    if (np > 0) {
        mrail_tool_args_add(plan->args, "-np");
        mrail_tool_args_addf(plan->args, "%u", np);
    }
    if (plan->options->nodes == 0) {
        return;
    }
    /* Emulated nodes run more ranks than cores, each with a control thread. */
    if (!user_has(plan, "oversubscribe", NULL)) {
        mrail_tool_args_add(plan->args, "--oversubscribe");
    }
    if (!user_has(plan, "bind-to", NULL)) {
        mrail_tool_args_add(plan->args, "--bind-to");
        mrail_tool_args_add(plan->args, "none");
    }
}

const char *mrail_run_not_for_rank(const mrail_run_options_t *options)
{
    const char *const *word = options->user;
    const char *const *end = word + options->num_user;

    while (word < end) {
        int values = mrail_run_num_values(*word);
        int is_setting = is_option(*word, "mca") ||
                         (is_option(*word, "x") && (word + 1 < end) &&
                          strchr(word[1], '=') != NULL);

        if (!is_setting) {
            return *word;
        }
        word += 1 + values;
    }
    return NULL;
}

/* Turns -x NAME=VALUE and --mca KEY VALUE into variables of this rank. */
static void plan_settings(plan_t *plan)
{
    const mrail_run_options_t *options = plan->options;

    for (unsigned i = 0; i + 1 < options->num_user; ++i) {
        const char *const *word = options->user + i;

        if (is_option(word[0], "x")) {
            mrail_tool_args_add(plan->variables, word[1]);
            i += 1;
        } else if ((i + 2 < options->num_user) && is_option(word[0], "mca")) {
            mrail_tool_args_addf(plan->variables, "OMPI_MCA_%s=%s", word[1],
                                 word[2]);
            i += 2;
        }
    }
}

static void plan_gpus(mrail_tool_args_t *args, const mrail_gpus_options_t *gpus)
{
    if (gpus->num == 0) {
        return;
    }
    mrail_tool_args_add(args, "--gpus");
    mrail_tool_args_addf(args, "%u", gpus->num);
    if (gpus->link != NULL) {
        mrail_tool_args_add(args, "--gpu-link");
        mrail_tool_args_add(args, gpus->link);
    }
    if (gpus->pcie != NULL) {
        mrail_tool_args_add(args, "--pcie");
        mrail_tool_args_add(args, gpus->pcie);
    }
    if (gpus->memory != 0) {
        mrail_tool_args_add(args, "--gpu-memory");
        mrail_tool_args_addf(args, "%llu", (unsigned long long)gpus->memory);
    }
    if (gpus->faults != NULL) {
        mrail_tool_args_add(args, "--gpu-fault");
        mrail_tool_args_add(args, gpus->faults);
    }
    if (gpus->peermem) {
        mrail_tool_args_add(args, "--peermem");
    }
}

static void plan_wrappers(plan_t *plan, const mrail_run_paths_t *paths)
{
    const mrail_run_options_t *options = plan->options;
    mrail_tool_args_t *args = plan->args;

    if (options->nodes > 0) {
        mrail_tool_args_add(args, paths->mrail);
        mrail_tool_args_add(args, "soft");
        if (options->addresses != NULL) {
            mrail_tool_args_add(args, "--addresses");
            mrail_tool_args_add(args, options->addresses);
        } else {
            mrail_tool_args_add(args, "--nodes");
            mrail_tool_args_addf(args, "%u", options->nodes);
            mrail_tool_args_add(args, "--rails");
            mrail_tool_args_addf(args, "%u", options->rails);
        }
        if (options->rate != NULL) {
            mrail_tool_args_add(args, "--rate");
            mrail_tool_args_add(args, options->rate);
        }
        if (options->script != NULL) {
            mrail_tool_args_add(args, "--script");
            mrail_tool_args_add(args, options->script);
        }
        plan_gpus(args, &options->gpus);
        mrail_tool_args_add(args, "--session");
        mrail_tool_args_add(args, options->session);
        mrail_tool_args_add(args, "--");
    }
    if (options->devices != NULL) {
        mrail_tool_args_add(args, paths->rank_rail);
        mrail_tool_args_add(
            args, options->stock == MRAIL_RUN_STOCK_NO ? "mrail" : "stock");
        mrail_tool_args_addf(args, "%u", options->nodes);
        mrail_tool_args_add(args, options->devices);
        mrail_tool_args_add(args, "--");
    }
    for (const char *const *word = options->command; *word != NULL; ++word) {
        mrail_tool_args_add(args, *word);
    }
}

unsigned mrail_run_plan(const mrail_run_options_t *options,
                        const mrail_run_paths_t *paths,
                        char *(*getenv_func)(const char *name),
                        mrail_tool_args_t *args_p)
{
    mrail_tool_args_t words = {0};
    unsigned num_variables;
    plan_t plan = {.options = options,
                   .getenv_func = getenv_func,
                   .is_prrte = paths->no_components != NULL,
                   .variables = args_p,
                   .args = &words};

    if (options->is_rank) {
        plan_settings(&plan);
    } else {
        mrail_tool_args_add(&words, "mpirun");
        plan_ranks(&plan);
    }
    plan_common(&plan);
    if (options->stock == MRAIL_RUN_STOCK_NO) {
        plan_mrail(&plan, paths);
    } else {
        plan_stock(&plan);
    }
    for (unsigned i = 0; !options->is_rank && i < options->num_user; ++i) {
        mrail_tool_args_add(&words, options->user[i]);
    }
    plan_wrappers(&plan, paths);
    num_variables = args_p->count;
    for (unsigned i = 0; i < words.count; ++i) {
        mrail_tool_args_add(args_p, words.items[i]);
    }
    mrail_tool_args_cleanup(&words);
    return num_variables;
}
