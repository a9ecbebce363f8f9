/* Reads the state of this machine's processes from proc(5). */
#ifndef MRAIL_TOOLS_PROC_H
#define MRAIL_TOOLS_PROC_H

#include <stdint.h>

/* Times of the threads of a process, in ns since they started. */
typedef struct proc_threads {
    uint64_t run, delay; /* on a core, and waiting for one */
    int is_known;
} proc_threads_t;

/* The pid in a telemetry file is that of the process's own PID namespace, where
 * this machine's proc(5) may show another process. Returns 1 if the process with
 * this pid has the file at `path` open, and 0 if not or if that is unknown. */
int proc_is_owner(unsigned pid, const char *path);

proc_threads_t proc_threads(unsigned pid);

/* Returns the state as in proc_pid_stat(5), or '?' if unknown. */
char proc_state(unsigned pid);

/* Fractions of an interval in which the threads of a process ran, and waited
 * for a core. They are summed over threads, so they may exceed 1. Negative if
 * unknown. */
typedef struct proc_shares {
    double run, delay;
} proc_shares_t;

/* Compares two samples that were taken elapsed_ns apart. */
proc_shares_t proc_shares(const proc_threads_t *before,
                          const proc_threads_t *now, uint64_t elapsed_ns);

#endif
