/*
 * Writes a trace in the format of Perfetto, as a stream. A trace has tracks,
 * which form trees, and events on them. Pure: the stream, the times and the
 * texts are arguments.
 *
 * The file is a sequence of packets, each a field 1 of the message Trace. No
 * packet refers to an earlier one other than by the id of a track, so a file
 * that is truncated can be opened as well. The order of packets is free, except
 * that the events of one track with the same time keep their order.
 *
 * Texts are ASCII; any other byte becomes '?'. Texts are cut after
 * PERFETTO_TEXT bytes. The caller checks the stream for write errors.
 *
 * Not thread-safe: one thread per perfetto_t.
 *
 * Sources: the messages are those of perfetto_trace.proto (Perfetto, 2026), and
 * their encoding is that of Protocol Buffers ("Encoding", protobuf.dev).
 */
#ifndef MRAIL_TOOLS_PERFETTO_H
#define MRAIL_TOOLS_PERFETTO_H

#include "base/util.h"

#include <stdint.h>
#include <stdio.h>

#define PERFETTO_TEXT 200u
#define PERFETTO_ARGS 8u

typedef struct perfetto {
    FILE *stream;
    uint64_t bytes; /* number of bytes written */
    uint64_t ids;   /* number of ids given out */
} perfetto_t;

/* The kinds of events. The values are those of TrackEvent.Type. */
typedef enum perfetto_kind {
    PERFETTO_BEGIN = 1, /* the begin of a slice */
    PERFETTO_END = 2,   /* ends the last slice of the track that is open */
    PERFETTO_INSTANT = 3,
    PERFETTO_COUNTER = 4
} perfetto_kind_t;

typedef struct perfetto_arg {
    const char *name;
    const char *text; /* NULL: `value` applies */
    uint64_t value;
} perfetto_arg_t;

/* A track of a process, or below another track. Events on a track must be
 * nested. Analysis shows tracks of the same name and parent as one, so events
 * that overlap need a track each. */
typedef struct perfetto_track {
    uint64_t id;
    uint64_t parent;  /* 0: none */
    const char *name; /* NULL: none */
    const char *unit; /* unit of a counter; NULL: the track has slices */
    uint32_t pid;     /* process id of a process track; otherwise 0 */
    int32_t order;    /* place among the tracks of the parent, or of the process
                       * among the processes */
} perfetto_track_t;

typedef struct perfetto_event {
    perfetto_kind_t kind;
    uint64_t time_ns; /* CLOCK_REALTIME */
    uint64_t track;
    const char *category; /* NULL: none */
    const char *name;     /* NULL: none */
    uint64_t value;       /* value of a counter, at most INT64_MAX */
    /* An arrow leads from each event to the next one with the same number. 0:
     * none. */
    uint64_t flow;
    const perfetto_arg_t *args;
    unsigned num_args; /* at most PERFETTO_ARGS */
} perfetto_event_t;

/* Starts a trace. Writes how the clocks relate: all three times are those of
 * the same moment, of CLOCK_REALTIME, CLOCK_MONOTONIC and CLOCK_BOOTTIME. */
void perfetto_begin(perfetto_t *trace, FILE *stream, uint64_t real_ns,
                    uint64_t monotonic_ns, uint64_t boot_ns);

/* Returns an id that is unique in the trace and not 0, for a track or a
 * flow. */
static inline uint64_t perfetto_id(perfetto_t *trace)
{
    return ++trace->ids;
}

/* Writes a track. Its name must not change later. */
void perfetto_track(perfetto_t *trace, const perfetto_track_t *track);

void perfetto_event(perfetto_t *trace, const perfetto_event_t *event);

#endif
