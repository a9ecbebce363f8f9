/*
 * The MPI calls of a process, in a separate file (file.h). For each
 * communicator, the file shows how many collectives of each kind the process
 * has entered and left, and when. It also shows the point-to-point call in
 * which the process waits. A reader can thus find the rank for which the other
 * ranks wait.
 *
 * The process writes through a mapping, with a few stores for each call. Times
 * are ticks of the processor's counter, which cost one instruction. A reader
 * converts them to CLOCK_MONOTONIC.
 *
 * The writer's calls must be serialised for each communicator. A reader does
 * not trust the content: it checks numbers and makes text printable.
 *
 * Source: [ICCL] 6 (counts of collectives, to find ranks that hang or lag).
 */
#ifndef MRAIL_TELEMETRY_CALLS_H
#define MRAIL_TELEMETRY_CALLS_H

#include "base/clock.h"
#include "telemetry/page.h"

#define MRAIL_CALLS_MAGIC 0x6d43616cu
#define MRAIL_CALLS_VERSION 1u
#define MRAIL_CALLS_COMMS 32u
#define MRAIL_CALLS_RECORDS 64u
#define MRAIL_CALLS_PAST 16u
/* Maximum time in a copy, so that sums of a few times do not wrap around. */
#define MRAIL_CALLS_MAX_NS (UINT64_C(1) << 62)

/* Minimum length of a wait that is recorded when it ends. */
#define MRAIL_CALLS_LONG_NS MRAIL_NS_PER_SEC

#define MRAIL_CALLS_KINDS(X)                                                   \
    X(ALLGATHER, "Allgather")                                                  \
    X(ALLGATHERV, "Allgatherv")                                                \
    X(ALLREDUCE, "Allreduce")                                                  \
    X(ALLTOALL, "Alltoall")                                                    \
    X(ALLTOALLV, "Alltoallv")                                                  \
    X(ALLTOALLW, "Alltoallw")                                                  \
    X(BARRIER, "Barrier")                                                      \
    X(BCAST, "Bcast")                                                          \
    X(EXSCAN, "Exscan")                                                        \
    X(GATHER, "Gather")                                                        \
    X(GATHERV, "Gatherv")                                                      \
    X(REDUCE, "Reduce")                                                        \
    X(REDUCE_SCATTER, "Reduce_scatter")                                        \
    X(REDUCE_SCATTER_BLOCK, "Reduce_scatter_block")                            \
    X(SCAN, "Scan")                                                            \
    X(SCATTER, "Scatter")                                                      \
    X(SCATTERV, "Scatterv")                                                    \
    X(NEIGHBOR_ALLGATHER, "Neighbor_allgather")                                \
    X(NEIGHBOR_ALLGATHERV, "Neighbor_allgatherv")                              \
    X(NEIGHBOR_ALLTOALL, "Neighbor_alltoall")                                  \
    X(NEIGHBOR_ALLTOALLV, "Neighbor_alltoallv")                                \
    X(NEIGHBOR_ALLTOALLW, "Neighbor_alltoallw")

/* Collectives, and the calls that wait for messages. */
typedef enum mrail_calls_kind {
#define MRAIL_CALLS_ENUM(_kind, _name) MRAIL_CALLS_##_kind,
    MRAIL_CALLS_KINDS(MRAIL_CALLS_ENUM)
#undef MRAIL_CALLS_ENUM
        MRAIL_CALLS_NUM_KINDS,
    MRAIL_CALLS_SEND = MRAIL_CALLS_NUM_KINDS,
    MRAIL_CALLS_RECV,
    MRAIL_CALLS_PROBE,
    MRAIL_CALLS_WAIT,
    MRAIL_CALLS_UNKNOWN
} mrail_calls_kind_t;

/* In a record: the nonblocking form of a collective, which returns
 * immediately. */
#define MRAIL_CALLS_NONBLOCKING 0x100u

/* A collective. In the file, times are ticks; in a reader's copy, ns of
 * CLOCK_MONOTONIC. */
typedef struct mrail_calls_record {
    uint64_t entered;
    uint64_t left; /* 0 if not yet */
    uint32_t kind; /* mrail_calls_kind_t, and MRAIL_CALLS_NONBLOCKING */
    int32_t root;  /* -1 if the collective has no root */
} mrail_calls_record_t;

typedef struct mrail_calls_comm {
    uint64_t id;      /* equal on all ranks; 0 if this entry is unused */
    uint64_t entered; /* number of collectives; record n is at
                       * n % MRAIL_CALLS_RECORDS */
    uint64_t left;
    /* In a reader's copy: number of the oldest valid record. In a file: 0, or
     * in an archive, a lower limit. */
    uint64_t first;
    /* Times between calls and in calls since the communicator was created, and
     * the end of the last call. */
    uint64_t computed, called, last;
    uint32_t size, rank;
    char name[48];
    uint64_t counts[MRAIL_CALLS_NUM_KINDS]; /* calls entered, by kind */
    mrail_calls_record_t records[MRAIL_CALLS_RECORDS];
} mrail_calls_comm_t;

/* The point-to-point call in which the process waits. */
typedef struct mrail_calls_wait {
    uint64_t count; /* number of begins and ends of waits; odd while the process
                     * waits */
    uint64_t since;
    /* MRAIL_CALLS_SEND ...; MRAIL_CALLS_UNKNOWN with a count of 0 if this process
     * does not record its waits */
    uint32_t kind;
    int32_t peer; /* rank in the communicator; -1 if any, or unknown */
    int32_t tag;
    uint32_t comm; /* index in `comms`; MRAIL_CALLS_COMMS if none of them */
} mrail_calls_wait_t;

/* A finished wait of at least MRAIL_CALLS_LONG_NS. */
typedef struct mrail_calls_past {
    uint64_t since, until;
    uint32_t kind;
    int32_t peer;
    int32_t tag;
    uint32_t comm;
} mrail_calls_past_t;

typedef struct mrail_calls {
    uint32_t magic;
    uint32_t version;
    uint32_t size; /* bytes */
    uint32_t pid;
    /* The same instant on both clocks. If the values are equal, all times in
     * the file are ns, as in an archive (image.h). */
    uint64_t start_ticks, start_ns;
    int32_t rank;        /* -1 if there is no job */
    uint32_t more_comms; /* communicators beyond MRAIL_CALLS_COMMS */
    char job[48];
    char program[64];
    mrail_calls_wait_t wait;
    uint64_t num_past; /* the last is at (num_past - 1) % MRAIL_CALLS_PAST */
    mrail_calls_past_t past[MRAIL_CALLS_PAST];
    mrail_calls_comm_t comms[MRAIL_CALLS_COMMS];
} mrail_calls_t;

/* ---- writer ---- */

typedef struct mrail_calls_file {
    mrail_tele_file_t file;
    mrail_calls_t *calls; /* the mapping; NULL if there is no file */
} mrail_calls_file_t;

/* Creates the file of this process. `job` may be NULL. On failure, returns
 * -errno, leaves no file behind, and sets file->calls to NULL. */
int mrail_calls_create(mrail_calls_file_t *file, const char *dir, uint64_t id,
                       const char *job, int rank, const char *program);
/* Removes the file when the process exits normally. */
void mrail_calls_remove(mrail_calls_file_t *file);

/* Returns an entry for a communicator, or NULL if all entries are in use. */
mrail_calls_comm_t *mrail_calls_comm_add(mrail_calls_t *calls, uint64_t id,
                                         uint32_t size, uint32_t rank);
void mrail_calls_comm_name(mrail_calls_comm_t *comm, const char *name);
/* Frees the entry. */
void mrail_calls_comm_remove(mrail_calls_comm_t *comm);

/* Returns the processor's counter, which has the same value on all cores. */
static inline uint64_t mrail_calls_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return mrail_clock_now();
#endif
}

/* Records the start of a call. A reader copies `entered` first and again at the
 * end, so the record must be complete before `entered` covers it. Record n
 * overwrites record n - MRAIL_CALLS_RECORDS, which readers then discard. */
static inline void mrail_calls_enter(mrail_calls_comm_t *comm, unsigned kind,
                                     int root)
{
    uint64_t n = comm->entered, now = mrail_calls_ticks();
    mrail_calls_record_t *record = &comm->records[n % MRAIL_CALLS_RECORDS];

    record->left = 0;
    record->kind = kind;
    record->root = root;
    record->entered = now;
    comm->computed += now - comm->last;
    ++comm->counts[kind % MRAIL_CALLS_NONBLOCKING];
    __atomic_store_n(&comm->entered, n + 1, __ATOMIC_RELEASE);
}

static inline void mrail_calls_leave(mrail_calls_comm_t *comm)
{
    uint64_t n = comm->entered, now = mrail_calls_ticks();
    mrail_calls_record_t *record =
        &comm->records[(n - 1) % MRAIL_CALLS_RECORDS];

    record->left = now;
    comm->called += now - record->entered;
    comm->last = now;
    __atomic_store_n(&comm->left, n, __ATOMIC_RELEASE);
}

/* Exports that this process does not record its waits, so that a reader does not
 * take it for a process that does not wait. */
void mrail_calls_without_waits(mrail_calls_t *calls);
/* Exports that the process waits in a point-to-point call. Most waits are
 * short, and callers do not export them. */
void mrail_calls_wait_begin(mrail_calls_t *calls, unsigned kind, int peer,
                            int tag, uint32_t comm);
/* Ends the wait, and records it if it was long. */
void mrail_calls_wait_end(mrail_calls_t *calls);

/* ---- readers ---- */

/* Reads a copy, with all times in ns of CLOCK_MONOTONIC. *calls is valid only
 * for ALIVE and ENDED. */
mrail_page_status_t mrail_calls_read(const char *path, mrail_calls_t *calls);
/* Like mrail_calls_read(), for an open file, which stays readable after the
 * process has removed it. GONE: memory ran out. */
mrail_page_status_t mrail_calls_read_fd(int fd, mrail_calls_t *calls);

/* Checks `calls`, a copy that was made after `before` and before `after`, and
 * converts its times: now_ticks and now_ns are the same instant. Returns ALIVE,
 * OTHER or BROKEN. */
mrail_page_status_t mrail_calls_check(mrail_calls_t *calls,
                                      const mrail_calls_t *before,
                                      const mrail_calls_t *after,
                                      uint64_t now_ticks, uint64_t now_ns);

/* Returns record n of a copy, or NULL if it is not valid. */
static inline const mrail_calls_record_t *
mrail_calls_record(const mrail_calls_comm_t *comm, uint64_t n)
{
    return ((n >= comm->first) && (n < comm->entered))
               ? &comm->records[n % MRAIL_CALLS_RECORDS]
               : NULL;
}

/* Returns 1 if the process of a copy waits in a point-to-point call. */
static inline int mrail_calls_is_waiting(const mrail_calls_t *calls)
{
    return (calls->wait.count & 1) != 0;
}

/* Returns 1 if the process of a copy records its waits. */
static inline int mrail_calls_has_waits(const mrail_calls_t *calls)
{
    return (calls->wait.count != 0) ||
           (calls->wait.kind != MRAIL_CALLS_UNKNOWN);
}

/* Writes the name of a call, such as "MPI_Ibarrier". */
#define MRAIL_CALLS_NAME 40
void mrail_calls_name(char name[MRAIL_CALLS_NAME], uint32_t kind);

#endif
