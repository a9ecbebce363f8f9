#include "config.h"
#include "telemetry/calls.h"

#include "telemetry/page_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- writer ---- */

static void calls_init(mrail_calls_t *calls, const char *job, int rank,
                       const char *program)
{
    calls->magic = MRAIL_CALLS_MAGIC;
    calls->version = MRAIL_CALLS_VERSION;
    calls->size = sizeof(*calls);
    calls->pid = (uint32_t)getpid();
    calls->start_ns = mrail_clock_now();
    calls->start_ticks = mrail_calls_ticks();
    calls->rank = rank;
    snprintf(calls->job, sizeof(calls->job), "%s", (job != NULL) ? job : "");
    snprintf(calls->program, sizeof(calls->program), "%s", program);
}

int mrail_calls_create(mrail_calls_file_t *file, const char *dir, uint64_t id,
                       const char *job, int rank, const char *program)
{
    int ret = mrail_tele_file_create(&file->file, dir, MRAIL_TELE_CALLS, id);

    file->calls = NULL;
    if (ret != 0) {
        return ret;
    }
    ret = mrail_tele_file_reserve(&file->file, 0, sizeof(*file->calls));
    if (ret == 0) {
        ret = mrail_tele_file_map(&file->file, 0, sizeof(*file->calls));
    }
    if (ret == 0) {
        calls_init(file->file.memory, job, rank, program);
        ret = mrail_tele_file_export(&file->file);
    }
    if (ret != 0) {
        mrail_tele_file_discard(&file->file);
        return ret;
    }
    file->calls = file->file.memory;
    return 0;
}

void mrail_calls_remove(mrail_calls_file_t *file)
{
    if (file->calls != NULL) {
        file->calls = NULL;
        mrail_tele_file_remove(&file->file);
    }
}

mrail_calls_comm_t *mrail_calls_comm_add(mrail_calls_t *calls, uint64_t id,
                                         uint32_t size, uint32_t rank)
{
    for (unsigned i = 0; i < MRAIL_CALLS_COMMS; ++i) {
        mrail_calls_comm_t *comm = &calls->comms[i];

        if (comm->id == 0) {
            memset(comm, 0, sizeof(*comm));
            comm->size = size;
            comm->rank = rank;
            comm->last = mrail_calls_ticks();
            __atomic_store_n(&comm->id, id, __ATOMIC_RELEASE);
            return comm;
        }
    }
    ++calls->more_comms;
    return NULL;
}

void mrail_calls_comm_name(mrail_calls_comm_t *comm, const char *name)
{
    snprintf(comm->name, sizeof(comm->name), "%s", name);
}

void mrail_calls_comm_remove(mrail_calls_comm_t *comm)
{
    __atomic_store_n(&comm->id, 0, __ATOMIC_RELEASE);
}

/* Returns the mean length of a tick since the start of the process, as an
 * estimate of its current length. */
static double calls_ns_per_tick(const mrail_calls_t *calls, uint64_t now_ticks,
                                uint64_t now_ns)
{
    if ((now_ticks <= calls->start_ticks) || (now_ns <= calls->start_ns)) {
        return 0;
    }
    return (double)(now_ns - calls->start_ns) /
           (double)(now_ticks - calls->start_ticks);
}

void mrail_calls_without_waits(mrail_calls_t *calls)
{
    calls->wait.kind = MRAIL_CALLS_UNKNOWN;
}

void mrail_calls_wait_begin(mrail_calls_t *calls, unsigned kind, int peer,
                            int tag, uint32_t comm)
{
    mrail_calls_wait_t *wait = &calls->wait;

    wait->since = mrail_calls_ticks();
    wait->kind = kind;
    wait->peer = peer;
    wait->tag = tag;
    wait->comm = comm;
    __atomic_store_n(&wait->count, wait->count + 1, __ATOMIC_RELEASE);
}

void mrail_calls_wait_end(mrail_calls_t *calls)
{
    mrail_calls_wait_t *wait = &calls->wait;
    uint64_t now = mrail_calls_ticks();
    double scale = calls_ns_per_tick(calls, now, mrail_clock_now());

    if (scale * (double)(now - wait->since) >= MRAIL_CALLS_LONG_NS) {
        calls->past[calls->num_past % MRAIL_CALLS_PAST] =
            (mrail_calls_past_t){.since = wait->since,
                                 .until = now,
                                 .kind = wait->kind,
                                 .peer = wait->peer,
                                 .tag = wait->tag,
                                 .comm = wait->comm};
        __atomic_store_n(&calls->num_past, calls->num_past + 1,
                         __ATOMIC_RELEASE);
    }
    __atomic_store_n(&wait->count, wait->count + 1, __ATOMIC_RELEASE);
}

/* ---- readers ---- */

/* Converts ticks to ns. `scale` is the length of a tick. */
typedef struct calls_clock {
    uint64_t now_ticks, now_ns;
    double scale;
    int is_ns; /* ticks are already ns, of any clock; see calls.h */
} calls_clock_t;

static uint64_t calls_ns(const calls_clock_t *clock, uint64_t ticks)
{
    double ago_ns;

    if (clock->is_ns) {
        return MRAIL_MIN(ticks, MRAIL_CALLS_MAX_NS);
    }
    if (ticks >= clock->now_ticks) {
        return clock->now_ns;
    }
    ago_ns = clock->scale * (double)(clock->now_ticks - ticks);
    return (ago_ns < (double)clock->now_ns) ? clock->now_ns - (uint64_t)ago_ns
                                            : 0;
}

static uint64_t calls_length(const calls_clock_t *clock, uint64_t ticks)
{
    double length_ns = clock->scale * (double)ticks;

    if (clock->is_ns) {
        return MRAIL_MIN(ticks, MRAIL_CALLS_MAX_NS);
    }
    return (length_ns < (double)clock->now_ns) ? (uint64_t)length_ns : 0;
}

static void calls_check_record(mrail_calls_record_t *record,
                               const calls_clock_t *clock)
{
    if ((record->kind & ~MRAIL_CALLS_NONBLOCKING) >= MRAIL_CALLS_NUM_KINDS) {
        record->kind = MRAIL_CALLS_UNKNOWN;
    }
    record->entered = calls_ns(clock, record->entered);
    if (record->left != 0) {
        record->left = calls_ns(clock, record->left);
        record->left = MRAIL_MAX(record->left, record->entered);
    }
}

/* An entry that was reused or freed during the copy counts as free. */
static void calls_check_comm(mrail_calls_comm_t *comm,
                             const mrail_calls_comm_t *before,
                             const mrail_calls_comm_t *after,
                             const calls_clock_t *clock)
{
    uint64_t first;

    if ((before->id != comm->id) || (after->id != comm->id) ||
        (after->entered < before->entered) || (comm->rank >= comm->size)) {
        comm->id = 0;
        return;
    }
    comm->entered = before->entered;
    comm->left = MRAIL_MIN(before->left, before->entered);
    /* The writer may be overwriting the oldest record with the next one. */
    first = (after->entered < MRAIL_CALLS_RECORDS)
                ? 0
                : after->entered - MRAIL_CALLS_RECORDS + 1;
    /* A copy from an archive already has a first record. */
    comm->first = MRAIL_MAX(first, MRAIL_MIN(comm->first, comm->entered));
    comm->computed = calls_length(clock, comm->computed);
    comm->called = calls_length(clock, comm->called);
    comm->last = calls_ns(clock, comm->last);
    mrail_page_clean_text(comm->name, sizeof(comm->name));
    for (unsigned i = 0; i < MRAIL_CALLS_RECORDS; ++i) {
        calls_check_record(&comm->records[i], clock);
    }
}

static void calls_check_past(mrail_calls_past_t *past,
                             const calls_clock_t *clock)
{
    past->since = calls_ns(clock, past->since);
    past->until = calls_ns(clock, past->until);
    past->until = MRAIL_MAX(past->until, past->since);
    past->kind = MRAIL_MIN(past->kind, MRAIL_CALLS_UNKNOWN);
    past->comm = MRAIL_MIN(past->comm, MRAIL_CALLS_COMMS);
}

mrail_page_status_t mrail_calls_check(mrail_calls_t *calls,
                                      const mrail_calls_t *before,
                                      const mrail_calls_t *after,
                                      uint64_t now_ticks, uint64_t now_ns)
{
    calls_clock_t clock = {now_ticks, now_ns,
                           calls_ns_per_tick(calls, now_ticks, now_ns),
                           calls->start_ticks == calls->start_ns};

    if (calls->magic != MRAIL_CALLS_MAGIC) {
        return MRAIL_PAGE_BROKEN;
    }
    if (calls->version != MRAIL_CALLS_VERSION) {
        return MRAIL_PAGE_OTHER;
    }
    if ((calls->size != sizeof(*calls)) ||
        (!clock.is_ns && (clock.scale <= 0))) {
        return MRAIL_PAGE_BROKEN;
    }
    mrail_page_clean_text(calls->job, sizeof(calls->job));
    mrail_page_clean_text(calls->program, sizeof(calls->program));
    for (unsigned i = 0; i < MRAIL_CALLS_COMMS; ++i) {
        calls_check_comm(&calls->comms[i], &before->comms[i], &after->comms[i],
                         &clock);
    }
    if (after->wait.count != before->wait.count) {
        calls->wait.count = 0; /* the process has left this wait */
    }
    calls->wait.since = calls_ns(&clock, calls->wait.since);
    calls->wait.kind = MRAIL_MIN(calls->wait.kind, MRAIL_CALLS_UNKNOWN);
    calls->wait.comm = MRAIL_MIN(calls->wait.comm, MRAIL_CALLS_COMMS);
    for (unsigned i = 0; i < MRAIL_CALLS_PAST; ++i) {
        calls_check_past(&calls->past[i], &clock);
    }
    return MRAIL_PAGE_ALIVE;
}

static int calls_get(int fd, mrail_calls_t *calls)
{
    return pread(fd, calls, sizeof(*calls), 0) == (ssize_t)sizeof(*calls);
}

/* Copies the file three times, for mrail_calls_check(). */
static mrail_page_status_t calls_read_open(int fd, mrail_calls_t *calls,
                                           mrail_calls_t *others)
{
    uint32_t head[2] = {0}; /* magic and version */
    mrail_page_status_t status;
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return MRAIL_PAGE_GONE;
    }
    if ((st.st_uid != geteuid()) && (geteuid() != 0)) {
        return MRAIL_PAGE_FOREIGN;
    }
    if (!S_ISREG(st.st_mode) ||
        (pread(fd, head, sizeof(head), 0) != (ssize_t)sizeof(head)) ||
        (head[0] != MRAIL_CALLS_MAGIC)) {
        return MRAIL_PAGE_BROKEN;
    }
    if (head[1] != MRAIL_CALLS_VERSION) {
        return MRAIL_PAGE_OTHER;
    }
    if (!calls_get(fd, &others[0]) || !calls_get(fd, calls) ||
        !calls_get(fd, &others[1])) {
        return MRAIL_PAGE_BROKEN;
    }
    status = mrail_calls_check(calls, &others[0], &others[1],
                               mrail_calls_ticks(), mrail_clock_now());
    return ((status == MRAIL_PAGE_ALIVE) && !mrail_tele_file_is_held(fd))
               ? MRAIL_PAGE_ENDED
               : status;
}

mrail_page_status_t mrail_calls_read_fd(int fd, mrail_calls_t *calls)
{
    mrail_calls_t *others = malloc(2 * sizeof(*others));
    mrail_page_status_t status;

    if (others == NULL) {
        return MRAIL_PAGE_GONE;
    }
    status = calls_read_open(fd, calls, others);
    free(others);
    return status;
}

mrail_page_status_t mrail_calls_read(const char *path, mrail_calls_t *calls)
{
    struct stat st;
    int fd = mrail_tele_file_open(path, &st);
    mrail_page_status_t status;

    if (fd < 0) {
        return (errno == EACCES) ? MRAIL_PAGE_FOREIGN : MRAIL_PAGE_GONE;
    }
    status = mrail_calls_read_fd(fd, calls);
    close(fd);
    return status;
}

/* ---- names ---- */

static const char *const names[] = {
#define MRAIL_CALLS_NAME_OF(_kind, _name) [MRAIL_CALLS_##_kind] = _name,
    MRAIL_CALLS_KINDS(MRAIL_CALLS_NAME_OF)
#undef MRAIL_CALLS_NAME_OF
        [MRAIL_CALLS_SEND] = "Send",
    [MRAIL_CALLS_RECV] = "Recv", [MRAIL_CALLS_PROBE] = "Probe",
    [MRAIL_CALLS_WAIT] = "Wait", [MRAIL_CALLS_UNKNOWN] = "?"};

void mrail_calls_name(char name[MRAIL_CALLS_NAME], uint32_t kind)
{
    const char *text = names[MRAIL_MIN(kind & ~MRAIL_CALLS_NONBLOCKING,
                                       (uint32_t)MRAIL_CALLS_UNKNOWN)];

    if (kind & MRAIL_CALLS_NONBLOCKING) {
        snprintf(name, MRAIL_CALLS_NAME, "MPI_I%c%s", tolower(text[0]),
                 text + 1);
    } else {
        snprintf(name, MRAIL_CALLS_NAME, "MPI_%s", text);
    }
}
