/*
 * mrail trace -o writes the tracks of one process to a Perfetto trace.
 *
 *   process "rank 3 (program)"
 *     posts                      the moment of each post, with an arrow to the
 *                                chunk
 *     calls of MPI_COMM_WORLD    collectives, with arrows to the same call of
 *                                the other ranks
 *     plans of MPI_COMM_WORLD    forecasts (trace_plans.h)
 *     waits                      waits for messages of at least a second
 *     events                     ports, paths, lanes and peers; lost records
 *     bandwidth of mlx5_0:1      from completed records
 *     rail mlx5_0:1
 *       lane 0 to rank 2         a slice for each record: post to completion
 *
 * The memory is bounded for any content of the records. No I/O other than
 * through perfetto_t.
 */
#ifndef MRAIL_TOOLS_TRACE_TRACKS_H
#define MRAIL_TOOLS_TRACE_TRACKS_H

#include "telemetry/calls.h"
#include "telemetry/page.h"
#include "tools/perfetto.h"

/* A value of the bandwidth counter covers this time. */
#define TRACE_BANDWIDTH_NS (10 * MRAIL_NS_PER_MS)
/* Limits for a process: lanes, and records that overlap on a lane and in total.
 * Further records are counted but not shown. */
#define TRACE_MAX_LANES 16384u
#define TRACE_MAX_SLOTS 1024u
#define TRACE_MAX_ALL_SLOTS 65536u

typedef struct trace_tracks trace_tracks_t;

typedef struct trace_tracks_config {
    const mrail_page_t *page; /* page at the start of the trace */
    const char *host;         /* in an archive; NULL for this machine */
    /* Number of the process. It replaces the process id in traces of archives,
     * because hosts may use the same process id. */
    unsigned number;
    uint64_t offset_ns; /* CLOCK_REALTIME minus the clock of the ring */
    int has_past;       /* 1 to show earlier records as well */
    /* Returns the rank with this id, or -1. */
    int (*rank_of)(const void *arg, uint64_t peer);
    const void *arg;
} trace_tracks_config_t;

/* The contents of a trace for one process. */
typedef struct trace_totals {
    uint64_t records; /* number of records shown */
    uint64_t bytes;   /* bytes of records without failure */
    uint64_t failed;  /* records with a failure */
    uint64_t missed;  /* records that were overwritten before they were read */
    uint64_t invalid;
    uint64_t unshown; /* see TRACE_MAX_LANES */
    uint64_t calls;   /* collectives shown */
    uint64_t missed_calls;
    uint64_t events;
    uint64_t missed_events;
} trace_totals_t;

/* Returns the tracks, or NULL if memory runs out. `trace` must exist longer. Of
 * *config, only rank_of and arg are kept. */
trace_tracks_t *trace_tracks_create(perfetto_t *trace,
                                    const trace_tracks_config_t *config);
void trace_tracks_destroy(trace_tracks_t *tracks);

/* Adds a record. Records of a process must come in the order of the ring. A
 * record that does not fit into the tracks is only counted. Returns 0, or
 * -ENOMEM with the record left out. */
int trace_tracks_record(trace_tracks_t *tracks,
                        const mrail_ring_record_t *record);

/* Updates the total number of missing records. */
void trace_tracks_missing(trace_tracks_t *tracks,
                          const mrail_ring_reader_t *reader, uint64_t now_ns);

/* Adds the events since the last call. */
void trace_tracks_page(trace_tracks_t *tracks, const mrail_page_t *page);

/* Adds the collectives and long waits that have ended since the last call. */
void trace_tracks_calls(trace_tracks_t *tracks, const mrail_calls_t *calls);

/* Adds an event with this text. */
void trace_tracks_note(trace_tracks_t *tracks, uint64_t now_ns,
                       const char *text);

/* Ends the trace of the process. Adds the calls in progress, if `calls` is not
 * NULL, and the totals. Times are on the ring's clock. */
void trace_tracks_finish(trace_tracks_t *tracks, const mrail_calls_t *calls,
                         uint64_t now_ns);

const trace_totals_t *trace_tracks_totals(const trace_tracks_t *tracks);

/* Returns the id of the process's track. */
uint64_t trace_tracks_id(const trace_tracks_t *tracks);

#endif
