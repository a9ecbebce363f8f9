#include "config.h"
#include "tools/trace_calls.h"

#include <stdio.h>

#define ORDER_WAITS (TRACE_CALLS_ORDERS - 1)

void trace_calls_init(trace_calls_t *calls, perfetto_t *trace, uint64_t process,
                      uint64_t offset_ns, int has_past)
{
    *calls = (trace_calls_t){.trace = trace,
                             .process = process,
                             .offset_ns = offset_ns,
                             .has_past = has_past};
}

static uint64_t add_track(trace_calls_t *calls, const char *name, int order)
{
    uint64_t id = perfetto_id(calls->trace);

    perfetto_track(calls->trace, &(perfetto_track_t){.id = id,
                                                     .parent = calls->process,
                                                     .name = name,
                                                     .order = order});
    return id;
}

/* ---- collectives ---- */

/* Prepares the slot for another communicator. */
static void start_comm(trace_calls_t *calls, trace_comm_t *shown,
                       const mrail_calls_comm_t *comm)
{
    char name[sizeof(comm->name) + 32];

    if (comm->name[0] != '\0') {
        snprintf(name, sizeof(name), "calls of %s", comm->name);
    } else {
        snprintf(name, sizeof(name), "calls of communicator %016llx",
                 (unsigned long long)comm->id);
    }
    *shown = (trace_comm_t){.id = comm->id};
    shown->track = add_track(
        calls, name, trace_calls_order((unsigned)(shown - calls->comms)));
    if (calls->has_past) {
        shown->next = comm->first;
    } else if (!calls->has_started) {
        shown->next = comm->left;
    }
}

/* The same collective has the same number on all ranks, so arrows lead from the
 * rank that entered it first to the one that entered it last. */
static uint64_t call_flow(const mrail_calls_comm_t *comm, uint64_t n)
{
    return mrail_mix64(comm->id ^ mrail_mix64(n + 1)) | 1;
}

/* Begins the slice of collective n. Its times are converted separately from
 * those of the previous collective, so the two may overlap by some ns. */
static void begin_call(trace_calls_t *calls, trace_comm_t *shown,
                       const mrail_calls_comm_t *comm, uint64_t n)
{
    const mrail_calls_record_t *record =
        &comm->records[n % MRAIL_CALLS_RECORDS];
    const perfetto_arg_t args[] = {
        {.name = "number", .value = n},
        {.name = "ranks", .value = comm->size},
        {.name = "root", .value = (uint64_t)record->root}};
    char name[MRAIL_CALLS_NAME];

    mrail_calls_name(name, record->kind);
    shown->last_ns = MRAIL_MAX(shown->last_ns, record->entered);
    perfetto_event(
        calls->trace,
        &(perfetto_event_t){.kind = PERFETTO_BEGIN,
                            .time_ns = shown->last_ns + calls->offset_ns,
                            .track = shown->track,
                            .category = "collective",
                            .name = name,
                            .flow = call_flow(comm, n),
                            .args = args,
                            .num_args = (record->root >= 0) ? 3 : 2});
    ++calls->shown;
}

static void end_call(trace_calls_t *calls, trace_comm_t *shown,
                     const mrail_calls_record_t *record)
{
    shown->last_ns = MRAIL_MAX(shown->last_ns, record->left);
    perfetto_event(
        calls->trace,
        &(perfetto_event_t){.kind = PERFETTO_END,
                            .time_ns = shown->last_ns + calls->offset_ns,
                            .track = shown->track});
}

static void add_comm(trace_calls_t *calls, trace_comm_t *shown,
                     const mrail_calls_comm_t *comm)
{
    if (comm->id == 0) {
        return;
    }
    if (comm->id != shown->id) {
        start_comm(calls, shown, comm);
    }
    if (shown->next < comm->first) {
        calls->missed += comm->first - shown->next;
        shown->next = comm->first;
    }
    for (; shown->next < comm->left; ++shown->next) {
        const mrail_calls_record_t *record =
            mrail_calls_record(comm, shown->next);

        if (record == NULL) {
            break;
        }
        begin_call(calls, shown, comm, shown->next);
        end_call(calls, shown, record);
    }
}

/* ---- waits ---- */

static uint64_t waits_track(trace_calls_t *calls)
{
    if (calls->waits == 0) {
        calls->waits = add_track(calls, "waits", ORDER_WAITS);
    }
    return calls->waits;
}

static void begin_wait(trace_calls_t *calls, uint64_t since_ns, uint32_t kind,
                       int32_t peer, int32_t tag)
{
    const perfetto_arg_t args[] = {{.name = "peer", .value = (uint64_t)peer},
                                   {.name = "tag", .value = (uint64_t)tag}};
    char name[MRAIL_CALLS_NAME];

    mrail_calls_name(name, kind);
    perfetto_event(calls->trace,
                   &(perfetto_event_t){.kind = PERFETTO_BEGIN,
                                       .time_ns = since_ns + calls->offset_ns,
                                       .track = waits_track(calls),
                                       .category = "wait",
                                       .name = name,
                                       .args = args,
                                       .num_args = (peer < 0)  ? 0
                                                   : (tag < 0) ? 1
                                                               : 2});
}

static void add_waits(trace_calls_t *calls, const mrail_calls_t *copy)
{
    uint64_t first = (copy->num_past > MRAIL_CALLS_PAST)
                         ? copy->num_past - MRAIL_CALLS_PAST
                         : 0;

    if (!calls->has_started && !calls->has_past) {
        calls->next_past = copy->num_past;
    }
    calls->next_past = MRAIL_MAX(calls->next_past, first);
    for (; calls->next_past < copy->num_past; ++calls->next_past) {
        const mrail_calls_past_t *past =
            &copy->past[calls->next_past % MRAIL_CALLS_PAST];

        begin_wait(calls, past->since, past->kind, past->peer, past->tag);
        perfetto_event(
            calls->trace,
            &(perfetto_event_t){.kind = PERFETTO_END,
                                .time_ns = past->until + calls->offset_ns,
                                .track = calls->waits});
    }
}

/* ---- entry points ---- */

void trace_calls_add(trace_calls_t *calls, const mrail_calls_t *copy)
{
    for (unsigned i = 0; i < MRAIL_CALLS_COMMS; ++i) {
        add_comm(calls, &calls->comms[i], &copy->comms[i]);
    }
    add_waits(calls, copy);
    calls->has_started = 1;
}

void trace_calls_finish(trace_calls_t *calls, const mrail_calls_t *copy)
{
    trace_calls_add(calls, copy);
    for (unsigned i = 0; i < MRAIL_CALLS_COMMS; ++i) {
        const mrail_calls_comm_t *comm = &copy->comms[i];

        if ((comm->id != 0) && (comm->entered > comm->left) &&
            (mrail_calls_record(comm, comm->left) != NULL)) {
            begin_call(calls, &calls->comms[i], comm, comm->left);
        }
    }
    if (mrail_calls_is_waiting(copy)) {
        begin_wait(calls, copy->wait.since, copy->wait.kind, copy->wait.peer,
                   copy->wait.tag);
    }
}
