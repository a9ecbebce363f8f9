/*
 * Determines the rank of this process from the environment variables of its
 * launcher: Open MPI's mpirun, PMIx (prterun, srun --mpi=pmix), PMI (MPICH's
 * mpiexec, srun --mpi=pmi2) or Slurm's srun.
 *
 * The functions do not read the environment, which is an argument.
 */
#ifndef MRAIL_BASE_LAUNCH_H
#define MRAIL_BASE_LAUNCH_H

#include <stddef.h>
#include <stdlib.h>

typedef struct mrail_launch {
    long rank, size; /* -1 if no launcher has set it */
    long local_rank; /* rank within this node; -1 if no launcher has set it */
    const char *job; /* unique among the jobs of a host; NULL if unknown */
    int is_mpi;      /* 1 if started as an MPI rank; 0 for a plain batch
                      * script */
} mrail_launch_t;

typedef char *(*mrail_launch_getenv_func_t)(const char *name);

/* Returns the value of the first of `names` that is a number >= 0, or -1. */
static inline long mrail_launch_number(const char *const *names,
                                       mrail_launch_getenv_func_t getenv_func)
{
    for (; *names != NULL; ++names) {
        const char *text = getenv_func(*names);
        char *end;
        long value;

        if (text == NULL || *text < '0' || *text > '9') {
            continue;
        }
        value = strtol(text, &end, 10);
        if (*end == '\0') {
            return value;
        }
    }
    return -1;
}

/* The variables of mpirun come first in each list: within a Slurm allocation,
 * ranks of mpirun also inherit the variables of the step that started mpirun's
 * daemons. */
static inline mrail_launch_t
mrail_launch_read(mrail_launch_getenv_func_t getenv_func)
{
    static const char *const ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                        "PMI_RANK", "SLURM_PROCID", NULL};
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                        "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS",
                                        NULL};
    static const char *const local_ranks[] = {
        "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", NULL};
    static const char *const jobs[] = {"PMIX_NAMESPACE", "SLURM_JOB_ID",
                                       "PMI_JOBID", NULL};
    mrail_launch_t launch = {.rank = mrail_launch_number(ranks, getenv_func),
                             .size = mrail_launch_number(sizes, getenv_func)};

    launch.local_rank = mrail_launch_number(local_ranks, getenv_func);
    for (unsigned i = 0; launch.job == NULL && jobs[i] != NULL; ++i) {
        launch.job = getenv_func(jobs[i]);
    }
    /* Ignore SLURM_PROCID, which is 0 in batch scripts. */
    for (unsigned i = 0; i < 3; ++i) {
        launch.is_mpi |= getenv_func(ranks[i]) != NULL;
    }
    return launch;
}

#endif
