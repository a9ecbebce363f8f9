/*
 * One thread creates a second iface while another makes calls that need the
 * control lock. Neither thread may wait indefinitely.
 */
#include "config.h"
#include "job.h"

#include <pthread.h>

#define ROUNDS 20

typedef struct busy {
    job_t *job;
    int started; /* atomic */
    int stop;    /* atomic */
} busy_t;

static void *make_endpoints(void *arg)
{
    busy_t *busy = arg;
    job_t *job = busy->job;
    mrail_ep_t *ep;

    while (!__atomic_load_n(&busy->stop, __ATOMIC_ACQUIRE)) {
        if (mrail_ep_create(job->iface, job->shared->device_addr[0],
                            job->shared->iface_addr[0], NULL, &ep) == 0) {
            mrail_ep_destroy(ep);
        }
        __atomic_store_n(&busy->started, 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static int share_job(job_t *job)
{
    const mrail_iface_params_t params = {.arg = job};
    busy_t busy = {.job = job};
    mrail_iface_t *second;
    pthread_t thread;

    if (job_open(job) != 0) {
        return 1;
    }
    pthread_create(&thread, NULL, make_endpoints, &busy);
    while (!__atomic_load_n(&busy.started, __ATOMIC_ACQUIRE)) {
    }
    if (mrail_iface_create(job->engine, &params, &second) != 0) {
        return 1;
    }
    __atomic_store_n(&busy.stop, 1, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    mrail_iface_destroy(second);
    job_close(job);
    return 0;
}

int main(void)
{
    int failed = 0;

    for (unsigned i = 0; (i < ROUNDS) && (failed == 0); ++i) {
        failed = job_run(1, NULL, 10, share_job);
    }
    return job_result(failed == 0, "a second iface while the first is busy",
                      "the job failed or did not exit in time");
}
