/*
 * Builds the mpirun command of `mrail run`, or, if another launcher has already
 * started the ranks, the command of one rank. The result depends only on the
 * arguments, so that tests can compare it word by word. run.c executes the
 * command.
 */
#ifndef MRAIL_TOOLS_MPIRUN_CMD_H
#define MRAIL_TOOLS_MPIRUN_CMD_H

#include "tools/gpus.h"
#include "tools/tool.h"

#define MRAIL_RUN_MAX_NODES 254
#define MRAIL_RUN_MAX_RAILS 16
#define MRAIL_RUN_MAX_DEVS 256u /* nodes x rails */

typedef enum mrail_run_stock {
    MRAIL_RUN_STOCK_NO,  /* use mrail */
    MRAIL_RUN_STOCK_ONE, /* use stock UCX on its first rail */
    MRAIL_RUN_STOCK_ALL  /* use stock UCX on all rails with its best settings */
} mrail_run_stock_t;

typedef struct mrail_run_options {
    const char *const *user; /* the user's mpirun options, in order */
    unsigned num_user;
    const char *const *command; /* words after "--"; the last one is NULL */
    unsigned np;                /* 0 if not given */
    unsigned nodes;             /* emulated nodes, or 0 for real NICs */
    unsigned rails;             /* software rails per node, if nodes > 0 */
    const char *addresses;      /* file for `mrail soft --addresses`, or NULL */
    const char *rate;           /* value for `mrail soft --rate`, or NULL */
    const char *script;         /* file for `mrail soft --script`, or NULL */
    const char *session;        /* software-rail session, if nodes > 0 */
    mrail_gpus_options_t gpus;  /* software GPUs, if nodes > 0 */
    /* rails such as "a,b", of which each rank is bound to one; NULL if every
     * rank uses all rails */
    const char *devices;
    mrail_run_stock_t stock;
    int is_rank; /* 1 if this process is a rank, for example of srun */
} mrail_run_options_t;

/* Installation paths. */
typedef struct mrail_run_paths {
    const char *mrail;      /* path of the mrail command */
    const char *rank_rail;  /* the program that binds a rank to its rail */
    const char *components; /* directory of the Open MPI components */
    /* An empty directory for PMIx of Open MPI 5.0 (see mpirun_cmd.c), or NULL
     * for an earlier mpirun. */
    const char *no_components;
} mrail_run_paths_t;

/* Returns the number of values (0 to 2) of an mpirun option, or -1 if the
 * option is unknown. */
int mrail_run_num_values(const char *word);

/* Returns the first of the user's mpirun options that has no effect once the
 * ranks run, or NULL. Only -x NAME=VALUE and --mca are still effective then. */
const char *mrail_run_not_for_rank(const mrail_run_options_t *options);

/* Builds the command. Its first words may have the form NAME=VALUE, as in a
 * shell. They are environment variables for mpirun itself, or for the rank. The
 * user's settings take precedence: options (--mca KEY, -x NAME, --bind-to) and
 * variables that getenv_func finds (UCX_*, OMPI_MCA_*) are not set again. Returns
 * the number of environment variables. The command after them may contain '='
 * as well. */
unsigned mrail_run_plan(const mrail_run_options_t *options,
                        const mrail_run_paths_t *paths,
                        char *(*getenv_func)(const char *name),
                        mrail_tool_args_t *args_p);

#endif
