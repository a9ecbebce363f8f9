/* mrail trace -o writes a Perfetto trace of processes to a file. For tools
 * only: prints to stderr, and may exit. */
#ifndef MRAIL_TOOLS_TRACE_FILE_H
#define MRAIL_TOOLS_TRACE_FILE_H

#include "tools/trace_source.h"

typedef struct trace_file {
    const char *path;
    int force;         /* 1 to replace an existing file */
    double duration_s; /* 0: until all processes have exited */
    uint64_t limit;    /* bytes, after which the trace ends */
} trace_file_t;

/* Follows the processes and writes their records, calls and events. SIGINT and
 * SIGTERM end the trace. Returns the exit status. */
int trace_file_write(const trace_file_t *file, trace_sources_t *sources);

#endif
