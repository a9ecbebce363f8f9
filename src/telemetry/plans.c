#include "config.h"
#include "telemetry/plans.h"

#include "telemetry/page_internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- writer ---- */

static void plans_init(mrail_plans_t *plans, const char *job, int rank)
{
    plans->magic = MRAIL_PLANS_MAGIC;
    plans->version = MRAIL_PLANS_VERSION;
    plans->size = sizeof(*plans);
    plans->pid = (uint32_t)getpid();
    plans->rank = rank;
    snprintf(plans->job, sizeof(plans->job), "%s", (job != NULL) ? job : "");
}

int mrail_plans_create(mrail_plans_file_t *file, const char *dir, uint64_t id,
                       const char *job, int rank)
{
    int ret = mrail_tele_file_create(&file->file, dir, MRAIL_TELE_PLANS, id);

    file->plans = NULL;
    file->num_used = 0;
    file->freed = 0;
    if (ret != 0) {
        return ret;
    }
    ret = mrail_tele_file_reserve(&file->file, 0, sizeof(*file->plans));
    if (ret == 0) {
        ret = mrail_tele_file_map(&file->file, 0, sizeof(*file->plans));
    }
    if (ret == 0) {
        plans_init(file->file.memory, job, rank);
        ret = mrail_tele_file_export(&file->file);
    }
    if (ret != 0) {
        mrail_tele_file_discard(&file->file);
        return ret;
    }
    file->plans = file->file.memory;
    return 0;
}

void mrail_plans_remove(mrail_plans_file_t *file)
{
    if (file->plans != NULL) {
        file->plans = NULL;
        mrail_tele_file_remove(&file->file);
    }
}

/* Returns the slot with the oldest forecast among the freed communicators, or
 * NULL. */
static mrail_plans_comm_t *plans_oldest(const mrail_plans_file_t *file)
{
    mrail_plans_comm_t *oldest = NULL;

    for (unsigned i = 0; i < MRAIL_PLANS_COMMS; ++i) {
        mrail_plans_comm_t *comm = &file->plans->comms[i];

        if (((file->freed >> i) & 1) &&
            ((oldest == NULL) || (comm->time_ns < oldest->time_ns))) {
            oldest = comm;
        }
    }
    return oldest;
}

mrail_plans_comm_t *mrail_plans_comm_add(mrail_plans_file_t *file)
{
    mrail_plans_comm_t *comm;

    if (file->plans == NULL) {
        return NULL;
    }
    if (file->num_used < MRAIL_PLANS_COMMS) {
        return &file->plans->comms[file->num_used++];
    }
    comm = plans_oldest(file);
    if (comm != NULL) {
        file->freed &= ~(1u << (comm - file->plans->comms));
        /* `begun` never decreases, so a reader cannot mistake a mixture of two
         * forecasts for one. Until the first forecast of the new communicator
         * is complete, the slot counts as changing. */
        mrail_plans_begin(comm);
        comm->earlier = (uint32_t)comm->begun;
    }
    return comm;
}

void mrail_plans_comm_remove(mrail_plans_file_t *file,
                             const mrail_plans_comm_t *comm)
{
    if ((file->plans != NULL) && (comm != NULL)) {
        file->freed |= 1u << (comm - file->plans->comms);
    }
}

void mrail_plans_begin(mrail_plans_comm_t *comm)
{
    __atomic_store_n(&comm->begun, comm->begun + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

void mrail_plans_end(mrail_plans_comm_t *comm)
{
    __atomic_store_n(&comm->done, comm->begun, __ATOMIC_RELEASE);
}

void mrail_plans_add(mrail_plans_comm_t *comm, const mrail_plans_link_t *link)
{
    if (comm->num_links < MRAIL_PLANS_LINKS) {
        comm->links[comm->num_links++] = *link;
    } else {
        ++comm->more_links;
    }
}

/* ---- readers ---- */

static int is_amount(double value)
{
    return isfinite(value) && (value >= 0);
}

/* Drops links with invalid numbers. */
static void plans_check_links(mrail_plans_comm_t *comm)
{
    unsigned count = 0;

    comm->num_links = MRAIL_MIN(comm->num_links, MRAIL_PLANS_LINKS);
    for (unsigned i = 0; i < comm->num_links; ++i) {
        const mrail_plans_link_t link = comm->links[i];

        if (is_amount(link.capacity) && is_amount(link.planned) &&
            is_amount(link.unplanned)) {
            comm->links[count++] = link;
        }
    }
    comm->num_links = count;
}

mrail_page_status_t mrail_plans_check(mrail_plans_t *plans,
                                      const mrail_plans_counts_t *before,
                                      const mrail_plans_counts_t *after)
{
    if (plans->magic != MRAIL_PLANS_MAGIC) {
        return MRAIL_PAGE_BROKEN;
    }
    if (plans->version != MRAIL_PLANS_VERSION) {
        return MRAIL_PAGE_OTHER;
    }
    if (plans->size != sizeof(*plans)) {
        return MRAIL_PAGE_BROKEN;
    }
    mrail_page_clean_text(plans->job, sizeof(plans->job));
    for (unsigned i = 0; i < MRAIL_PLANS_COMMS; ++i) {
        mrail_plans_comm_t *comm = &plans->comms[i];

        mrail_page_clean_text(comm->name, sizeof(comm->name));
        plans_check_links(comm);
        comm->earlier = (comm->earlier < comm->begun) ? comm->earlier : 0;
        if ((before->begun[i] != before->done[i]) ||
            (after->begun[i] != before->done[i])) {
            comm->begun = 0;
        }
    }
    return MRAIL_PAGE_ALIVE;
}

static int plans_get(int fd, mrail_plans_t *plans)
{
    return pread(fd, plans, sizeof(*plans), 0) == (ssize_t)sizeof(*plans);
}

static int plans_counts(int fd, mrail_plans_counts_t *counts)
{
    for (unsigned i = 0; i < MRAIL_PLANS_COMMS; ++i) {
        off_t at = (off_t)(offsetof(mrail_plans_t, comms) +
                           i * sizeof(mrail_plans_comm_t));
        uint64_t words[2]; /* begun, done */

        if (pread(fd, words, sizeof(words), at) != (ssize_t)sizeof(words)) {
            return 0;
        }
        counts->begun[i] = words[0];
        counts->done[i] = words[1];
    }
    return 1;
}

mrail_page_status_t mrail_plans_read_fd(int fd, mrail_plans_t *plans)
{
    mrail_plans_counts_t before, after;
    mrail_page_status_t status;
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return MRAIL_PAGE_GONE;
    }
    if ((st.st_uid != geteuid()) && (geteuid() != 0)) {
        return MRAIL_PAGE_FOREIGN;
    }
    if (!S_ISREG(st.st_mode) || !plans_counts(fd, &before) ||
        !plans_get(fd, plans) || !plans_counts(fd, &after)) {
        return MRAIL_PAGE_BROKEN;
    }
    status = mrail_plans_check(plans, &before, &after);
    return ((status == MRAIL_PAGE_ALIVE) && !mrail_tele_file_is_held(fd))
               ? MRAIL_PAGE_ENDED
               : status;
}
