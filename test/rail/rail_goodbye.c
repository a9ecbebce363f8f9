/*
 * Peers leave while one process stays. Their lanes are closed while events for
 * the lanes' QPs are pending, or after the control thread has read these
 * events.
 */
#include "config.h"
#include "rail/engine/engine.h"
#include "rail/state/engine.h"
#include "job.h"

#include <errno.h>
#include <unistd.h>

#define GUESTS 8
#define LIMIT_S 5

static int guest(job_t *job)
{
    while (mrail_ep_am_short(job_ep(job, 0), 1, NULL, 0, &job->rank,
                             sizeof(job->rank)) == -EAGAIN) {
        mrail_iface_progress(job->iface);
    }
    return job_flush(job, job_ep(job, 0));
}

static unsigned num_freed(job_t *job)
{
    unsigned freed;

    pthread_mutex_lock(&job->engine->ctl_lock);
    freed = (unsigned)job->engine->num_departed;
    pthread_mutex_unlock(&job->engine->ctl_lock);
    return freed;
}

static int host(job_t *job)
{
    mrail_ns_t end = mrail_clock_now() + LIMIT_S * MRAIL_NS_PER_SEC;
    mrail_memory_t memory;

    while ((num_freed(job) < GUESTS) && (mrail_clock_now() < end)) {
        if (mrail_iface_progress(job->iface) == 0) {
            usleep(50);
        }
    }
    mrail_engine_memory(job->engine, &memory);
    return job_result((num_freed(job) == GUESTS) && (memory.num_qps == 0) &&
                          (memory.num_peers == 0),
                      "a peer that leaves is freed",
                      "%u of %u were freed; %u peers and %u QPs are left",
                      num_freed(job), GUESTS, memory.num_peers, memory.num_qps);
}

static int leave_job(job_t *job)
{
    int failed;

    if (job_open(job) != 0) {
        return 1;
    }
    failed = (job->rank != 0) && (guest(job) != 0);
    job_barrier(job, 1);
    if (job->rank != 0) {
        job_close(job);
        return failed;
    }
    /* The peers wait at this barrier in job_close(), and leave after it. */
    job_barrier(job, 1);
    failed = host(job);
    mrail_iface_destroy(job->iface);
    mrail_engine_close(job->engine);
    return failed;
}

int main(void)
{
    int failed = job_run(1 + GUESTS, NULL, 2 * LIMIT_S, leave_job);

    return job_result(failed == 0, "all processes succeed", "%d failed",
                      failed);
}
