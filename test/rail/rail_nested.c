/*
 * The completion callback of a flush starts further PUTs and fences while the
 * engine iterates over the flushes of that peer. Each operation must complete
 * exactly once.
 */
#include "config.h"
#include "job.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>

#define ROUNDS 200
#define FLUSHES 4

typedef struct nest {
    job_t *job;
    mrail_ep_t *ep;
    mrail_rkey_t *rkey;
    unsigned left;     /* nested operations left in this round */
    unsigned nested;   /* fences issued by completions */
    unsigned finished; /* completions */
} nest_t;

static int put(nest_t *nest)
{
    const uint64_t value = 1;

    return mrail_ep_put_short(nest->ep, &value, sizeof(value),
                              nest->job->shared->word[1], nest->rkey);
}

static void on_complete(void *arg, void *comp, int status)
{
    nest_t *nest = arg;

    ++*(unsigned *)comp;
    ++nest->finished;
    if ((nest->left != 0) && (put(nest) == 0)) {
        --nest->left;
        nest->nested += (mrail_ep_fence(nest->ep) == 0);
    }
}

static int one_round(nest_t *nest, mrail_iface_t *iface)
{
    mrail_ns_t end = mrail_clock_now() + 5 * MRAIL_NS_PER_SEC;
    unsigned done[FLUSHES] = {0}, wanted = 0;
    int failed = 0;

    nest->finished = 0;
    while (put(nest) == -EAGAIN) {
        mrail_iface_progress(iface);
    }
    for (unsigned i = 0; i < FLUSHES; ++i) {
        wanted += (mrail_ep_flush(nest->ep, &done[i]) == -EINPROGRESS);
    }
    nest->left = FLUSHES;
    while ((nest->finished < wanted) && (mrail_clock_now() < end)) {
        if (mrail_iface_progress(iface) == 0) {
            sched_yield();
        }
    }
    for (unsigned i = 0; i < 100; ++i) {
        mrail_iface_progress(iface);
    }
    for (unsigned i = 0; i < FLUSHES; ++i) {
        failed |= (done[i] > 1);
    }
    return failed | (nest->finished != wanted);
}

static int source(job_t *job)
{
    nest_t nest = {.job = job};
    const mrail_iface_params_t params = {.arg = &nest, .complete = on_complete};
    mrail_iface_t *iface;
    int failed = 0;

    if ((mrail_rkey_unpack(&job->shared->word[8], &nest.rkey) != 0) ||
        (mrail_iface_create(job->engine, &params, &iface) != 0) ||
        (mrail_ep_create(iface, job->shared->device_addr[1],
                         job->shared->iface_addr[1], NULL, &nest.ep) != 0)) {
        return 1;
    }
    for (unsigned i = 0; (i < ROUNDS) && !failed; ++i) {
        failed = one_round(&nest, iface);
    }
    printf("# %u fences from completion callbacks\n", nest.nested);
    failed |= (nest.nested == 0);
    nest.left = 0;
    while (mrail_ep_flush(nest.ep, NULL) != 0) {
        mrail_iface_progress(iface);
    }
    mrail_ep_destroy(nest.ep);
    mrail_iface_destroy(iface);
    mrail_rkey_release(nest.rkey);
    return job_result(!failed, "a flush's completion may fence the same peer",
                      "an operation completed twice or never");
}

static int nested_job(job_t *job)
{
    static uint64_t memory;
    mrail_mem_t *mem = NULL;
    int failed = 0;

    if (job_open(job) != 0) {
        return 1;
    }
    if (job->rank == 1) {
        if (mrail_mem_reg(job->engine, &memory, sizeof(memory), &mem) != 0) {
            return 1;
        }
        job->shared->word[1] = (uintptr_t)&memory;
        mrail_rkey_pack(mem, &job->shared->word[8]);
    }
    job_barrier(job, 0);
    if (job->rank == 0) {
        failed = source(job);
    }
    job_barrier(job, 1);
    job_close(job);
    return failed;
}

static unsigned node(unsigned rank)
{
    return rank;
}

int main(void)
{
    int failed = job_run(2, node, 20, nested_job);

    return job_result(failed == 0, "both processes succeed", "%d failed",
                      failed);
}
