/*
 * A process writes to many peers without polling for a while. Completions must
 * not be lost, and all WRITEs must complete.
 */
#include "config.h"
#include "job.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#define RANKS 60
#define PUTS 190

static uint64_t target[8]; /* at the same address in all processes */

static int source(job_t *job)
{
    unsigned wanted = 0, posted = 0;
    mrail_rkey_t *rkeys[RANKS];
    mrail_mem_t *mem;
    mrail_iov_t iov = {.buffer = target, .length = sizeof(uint64_t)};
    int ret;

    if (mrail_mem_reg(job->engine, target, sizeof(target), &mem) != 0) {
        return 1;
    }
    iov.mem = mem;
    for (unsigned rank = 1; rank < job->size; ++rank) {
        if (mrail_rkey_unpack(&job->shared->word[rank], &rkeys[rank]) != 0) {
            return 1;
        }
        while (mrail_ep_put_zcopy(job_ep(job, rank), &iov, 1, (uintptr_t)target,
                                  rkeys[rank], &job->completed) == -EAGAIN) {
            mrail_iface_progress(job->iface);
        }
        ++wanted;
    }
    if (job_wait(job, &job->completed, wanted, 20) != 0) {
        return 1;
    }
    for (unsigned i = 0; i < PUTS; ++i) {
        for (unsigned rank = 1; rank < job->size; ++rank) {
            ret = mrail_ep_put_zcopy(job_ep(job, rank), &iov, 1,
                                     (uintptr_t)target, rkeys[rank],
                                     &job->completed);
            posted += (ret == -EINPROGRESS);
        }
    }
    sleep(2); /* the rails continue to work */
    ret = job_wait(job, &job->completed, wanted + posted, 20);
    printf("# %u writes accepted, %u complete, %u failed\n", posted,
           job->completed - wanted, job->failed);
    return job_result(
        (ret == 0) && (job->failed == 0), "writes to many peers complete",
        "%u of %u did not complete", posted + wanted - job->completed, posted);
}

static int cq_job(job_t *job)
{
    mrail_mem_t *mem;
    int failed = 0;

    if (job_open(job) != 0) {
        return 1;
    }
    if (mrail_mem_reg(job->engine, target, sizeof(target), &mem) != 0) {
        return 1;
    }
    mrail_rkey_pack(mem, &job->shared->word[job->rank]);
    job_barrier(job, 0);
    if (job->rank == 0) {
        failed = source(job);
        __atomic_store_n(&job->shared->word[63], 1, __ATOMIC_RELEASE);
    }
    while (!__atomic_load_n(&job->shared->word[63], __ATOMIC_ACQUIRE)) {
        mrail_iface_progress(job->iface);
        usleep(2000);
    }
    if (failed) {
        _exit(1);
    }
    job_close(job);
    return 0;
}

static unsigned node(unsigned rank)
{
    return rank != 0;
}

int main(void)
{
    int failed = job_run(RANKS, node, 90, cq_job);

    return job_result(failed == 0, "all processes succeed", "%d failed",
                      failed);
}
