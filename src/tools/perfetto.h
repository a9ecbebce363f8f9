/*
 * Writes a trace in the format of Perfetto to a stream. A trace has tracks,
 * which form trees, and events on them. All times are arguments.
 *
 * The file is a sequence of packets, each a field 1 of the message Trace.
 * Packets refer to earlier packets only by the id of a track, so a truncated
 * file can also be opened. The order of packets is arbitrary, except that
 * events of a track with the same time remain in order.
 *
 * Texts are ASCII; any other byte becomes '?'. Texts are truncated to
 * PERFETTO_TEXT bytes. The caller checks the stream for write errors.
 *
 * Not thread-safe: one thread per perfetto_t.
 *
 * Sources: perfetto_trace.proto (Perfetto, 2026) for the messages, and Protocol
 * Buffers ("Encoding", protobuf.dev) for their encoding.
 */
#ifndef MRAIL_TOOLS_PERFETTO_H
#define MRAIL_TOOLS_PERFETTO_H

#include "base/util.h"

#include <stdint.h>
#include <stdio.h>

#define PERFETTO_TEXT 200u
#define PERFETTO_ARGS 26u

typedef struct perfetto {
    FILE *stream;
    uint64_t bytes; /* number of bytes written */
    uint64_t ids;   /* number of ids assigned */
} perfetto_t;

/* The kinds of events, with the values of TrackEvent.Type. */
typedef enum perfetto_kind {
    PERFETTO_BEGIN = 1, /* begins a slice */
    PERFETTO_END = 2,   /* ends the last open slice of the track */
    PERFETTO_INSTANT = 3,
    PERFETTO_COUNTER = 4
} perfetto_kind_t;

typedef struct perfetto_arg {
    const char *name;
    const char *text; /* NULL if `value` applies */
    uint64_t value;
} perfetto_arg_t;

/* A track of a process, or below another track. Events on a track must be
 * nested. Perfetto merges tracks of the same name and parent, so overlapping
 * events require separate tracks. */
typedef struct perfetto_track {
    uint64_t id;
    uint64_t parent;  /* 0 if none */
    const char *name; /* NULL if none */
    const char *unit; /* unit of a counter, or NULL for a track with slices */
    uint32_t pid;     /* process id of a process track, otherwise 0 */
    int32_t order;    /* position among the tracks of the parent, or among the
                       * processes */
} perfetto_track_t;

typedef struct perfetto_event {
    perfetto_kind_t kind;
    uint64_t time_ns; /* CLOCK_REALTIME */
    uint64_t track;
    const char *category; /* NULL if none */
    const char *name;     /* NULL if none */
    uint64_t value;       /* value of a counter, at most INT64_MAX */
    /* An arrow leads from each event to the next event with the same number; 0
     * for no arrow. */
    uint64_t flow;
    const perfetto_arg_t *args;
    unsigned num_args; /* at most PERFETTO_ARGS */
} perfetto_event_t;

/* Starts a trace. Writes the relation of the clocks: the three arguments are
 * the same time by CLOCK_REALTIME, CLOCK_MONOTONIC and CLOCK_BOOTTIME. */
void perfetto_begin(perfetto_t *trace, FILE *stream, uint64_t real_ns,
                    uint64_t monotonic_ns, uint64_t boot_ns);

/* Returns an id that is unique in the trace and not 0, for a track or a
 * flow. */
static inline uint64_t perfetto_id(perfetto_t *trace)
{
    return ++trace->ids;
}

/* Writes a track. Its name must not change afterwards. */
void perfetto_track(perfetto_t *trace, const perfetto_track_t *track);

void perfetto_event(perfetto_t *trace, const perfetto_event_t *event);

#endif
