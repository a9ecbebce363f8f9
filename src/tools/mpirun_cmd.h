/*
 * The mpirun command of `mrail run`: a pure function of the options, so that
 * tests can compare it word by word. run.c starts it.
 */
#ifndef MRAIL_TOOLS_MPIRUN_CMD_H
#define MRAIL_TOOLS_MPIRUN_CMD_H

#include "tools/tool.h"

#define MRAIL_RUN_MAX_NODES 254
#define MRAIL_RUN_MAX_RAILS 16
#define MRAIL_RUN_MAX_DEVS 256u /* nodes x rails */

typedef enum mrail_run_stock {
    MRAIL_RUN_STOCK_NO,  /* mrail */
    MRAIL_RUN_STOCK_ONE, /* stock UCX, its first rail */
    MRAIL_RUN_STOCK_ALL  /* stock UCX, all rails, its best settings */
} mrail_run_stock_t;

typedef struct mrail_run_options {
    const char *const *user; /* mpirun options of the user, in order */
    unsigned num_user;
    const char *const *command; /* what follows "--", ended by NULL */
    unsigned np;                /* 0: not given */
    unsigned nodes;             /* emulated nodes; 0: real NICs */
    unsigned rails;             /* software rails per node, if nodes > 0 */
    const char
        *addresses;     /* for `mrail soft --addresses`, of a lab; NULL: none */
    const char *rate;   /* for `mrail soft --rate`; NULL: not given */
    const char *script; /* for `mrail soft --script`; NULL: not given */
    const char *session; /* of the software rails, if nodes > 0 */
    const char *devices; /* one rail per rank out of this list, "a,b"; NULL:
                            every rank has all rails */
    mrail_run_stock_t stock;
} mrail_run_options_t;

/* Paths of the installation. */
typedef struct mrail_run_paths {
    const char *mrail;         /* path of the mrail command */
    const char *rank_rail;     /* gives each rank its rail */
    const char *components;    /* folder of the Open MPI components */
    const char *no_components; /* an empty folder, for mpirun of Open MPI 5.0:
                                  see run_plan.c; NULL: an earlier mpirun */
} mrail_run_paths_t;

/* Number of values of this option of mpirun: 0 to 2; -1: the option is
 * unknown. */
int mrail_run_num_values(const char *word);

/* Builds the command. Its first words may be NAME=VALUE, variables of mpirun
 * itself, as in a shell. The user's settings win: options (--mca KEY, -x NAME,
 * --bind-to) and variables that getenv_func finds (UCX_*, OMPI_MCA_*) are not
 * set again. */
void mrail_run_plan(const mrail_run_options_t *options,
                    const mrail_run_paths_t *paths,
                    char *(*getenv_func)(const char *name),
                    mrail_tool_args_t *args_p);

#endif
