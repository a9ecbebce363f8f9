/*
 * A QP with a deep send queue fails. The device then completes every entry in
 * the queue, including unsignalled ones, and the CQ must hold all completions.
 * on-rails.sh sets a short receive queue and a long send queue, so that the CQ
 * would overflow at its initial size.
 */
#include "config.h"
#include "job.h"

#include "rail/state/engine.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#define PUTS 3000
#define PUTS_MIN 500 /* more than the initial CQ holds */

static uint64_t target[8]; /* at the same address in all processes */

/* Returns 1 if no rail has been lost. */
static int has_all_rails(void)
{
    mrail_rail_now_t rails[MRAIL_MAX_RAILS];
    unsigned count = mrail_rails_now(rails), num_up = 0;

    for (unsigned i = 0; i < count; ++i) {
        num_up += (unsigned)rails[i].is_up;
    }
    return (count != 0) && (num_up == count);
}

/* Polls until lanes have failed, for at most 20 seconds. */
static void await_failure(job_t *job)
{
    mrail_ns_t end_ns = mrail_clock_now() + 20 * MRAIL_NS_PER_SEC;

    while ((job->engine->counters.lanes_failed == 0) &&
           (mrail_clock_now() < end_ns)) {
        mrail_iface_progress(job->iface);
    }
}

static int source(job_t *job)
{
    mrail_ep_t *ep = job_ep(job, 1);
    unsigned posted = 0;
    mrail_rkey_t *rkey;
    int ret, failed;

    if ((mrail_rkey_unpack(&job->shared->word[0], &rkey) != 0) ||
        (job_flush(job, ep) != 0)) {
        return 1;
    }
    while (mrail_ep_put_short(ep, target, sizeof(uint64_t), (uintptr_t)target,
                              rkey) == -EAGAIN) {
        mrail_iface_progress(job->iface);
    }
    if ((job_flush(job, ep) != 0) || (job_soft_ctl("loss=1000000") != 0)) {
        return 1;
    }
    while ((posted < PUTS) &&
           (mrail_ep_put_short(ep, &target[1], sizeof(uint64_t),
                               (uintptr_t)&target[1], rkey) == 0)) {
        ++posted;
    }
    await_failure(job);
    if (job_soft_ctl("loss=0") != 0) {
        return 1;
    }
    ret = job_flush(job, ep);
    printf("# %u PUTs, %llu lanes failed\n", posted,
           (unsigned long long)job->engine->counters.lanes_failed);
    failed = job_result((ret == 0) && (posted >= PUTS_MIN) &&
                            (job->engine->counters.lanes_failed != 0),
                        "PUTs of a failed lane are replayed",
                        "flush %d, %u PUTs", ret, posted);
    failed |= job_result(has_all_rails(), "no rail is lost",
                         "a completion queue has overflowed");
    return failed;
}

static int flushed_job(job_t *job)
{
    mrail_mem_t *mem;
    int failed = 0;

    target[1] = 7 + job->rank;
    if ((job_open(job) != 0) ||
        (mrail_mem_reg(job->engine, target, sizeof(target), &mem) != 0)) {
        return 1;
    }
    if (job->rank == 1) {
        mrail_rkey_pack(mem, job->shared->word);
    }
    job_barrier(job, 0);
    if (job->rank == 0) {
        failed = source(job);
        __atomic_store_n(&job->shared->word[63], 1, __ATOMIC_RELEASE);
    }
    while (!__atomic_load_n(&job->shared->word[63], __ATOMIC_ACQUIRE)) {
        mrail_iface_progress(job->iface);
        usleep(1000);
    }
    if (failed) {
        _exit(1);
    }
    if (job->rank == 1) {
        failed = job_result(__atomic_load_n(&target[1], __ATOMIC_ACQUIRE) == 7,
                            "the data has arrived", "it is missing");
    }
    job_close(job);
    return failed;
}

static unsigned node(unsigned rank)
{
    return rank;
}

int main(void)
{
    int failed = job_run(2, node, 60, flushed_job);

    return job_result(failed == 0, "all processes succeed", "%d failed",
                      failed);
}
