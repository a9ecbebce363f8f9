/* mrail trace -o writes the MPI calls of one process to a Perfetto trace. No
 * I/O other than through perfetto_t. */
#ifndef MRAIL_TOOLS_TRACE_CALLS_H
#define MRAIL_TOOLS_TRACE_CALLS_H

#include "telemetry/calls.h"
#include "tools/perfetto.h"

/* Returns the position, below the process, of the track for the communicator in
 * slot `place`. The track for its plans takes the next position. */
static inline int trace_calls_order(unsigned place)
{
    return 2 * (int)place;
}

/* The first position after the tracks of this file. */
#define TRACE_CALLS_ORDERS (2 * (int)MRAIL_CALLS_COMMS + 1)

/* The calls of a communicator that have been shown. */
typedef struct trace_comm {
    uint64_t id; /* id of the communicator; 0 if unused */
    uint64_t track;
    uint64_t next;    /* number of the next collective to show */
    uint64_t last_ns; /* end of the last collective that was shown */
} trace_comm_t;

typedef struct trace_calls {
    perfetto_t *trace;
    uint64_t process; /* id of the process's track */
    uint64_t offset_ns;
    uint64_t waits; /* id of the track; 0 if there is none yet */
    uint64_t next_past;
    int has_past, has_started;
    uint64_t shown;
    uint64_t missed; /* calls overwritten before they were read */
    trace_comm_t comms[MRAIL_CALLS_COMMS];
} trace_calls_t;

/* Starts. With has_past 0, only calls that end after the first
 * trace_calls_add() are shown. */
void trace_calls_init(trace_calls_t *calls, perfetto_t *trace, uint64_t process,
                      uint64_t offset_ns, int has_past);

/* Adds the collectives and the long waits that have ended since the last
 * call. */
void trace_calls_add(trace_calls_t *calls, const mrail_calls_t *copy);

/* Like trace_calls_add(), but also adds the collectives and the wait in
 * progress. Their slices have no end. */
void trace_calls_finish(trace_calls_t *calls, const mrail_calls_t *copy);

#endif
