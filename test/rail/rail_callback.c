/*
 * The callback of a message calls get_short while the send queue is full. The
 * completions that would free entries have been polled but not processed. The
 * GET must still complete.
 */
#include "config.h"
#include "job.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

static uint64_t memory = 0x6d7261696c;

typedef struct callback {
    mrail_rkey_t *rkey;
    uint64_t value;
    int ret;
    int called;
} callback_t;

static void on_am(job_t *job, uint8_t am_id, const void *data, size_t length)
{
    callback_t *callback = job->arg;

    if ((job->rank == 0) && (am_id == 1)) {
        callback->called = 1;
        callback->ret = mrail_ep_get_short(job_ep(job, 1), &callback->value,
                                           sizeof(callback->value),
                                           (uintptr_t)&memory, callback->rkey);
    }
}

static void send(job_t *job, unsigned rank, uint8_t am_id)
{
    while (mrail_ep_am_short(job_ep(job, rank), am_id, NULL, 0, &am_id, 1) ==
           -EAGAIN) {
        mrail_iface_progress(job->iface);
    }
}

static int source(job_t *job)
{
    mrail_ns_t end = mrail_clock_now() + 5 * MRAIL_NS_PER_SEC;
    callback_t *callback = job->arg;
    uint8_t byte = 0;
    unsigned sent = 0;

    usleep(200000); /* lets the peer's message arrive without being polled */
    while (mrail_ep_am_short(job_ep(job, 1), 2, NULL, 0, &byte, 1) == 0) {
        ++sent;
    }
    /* The completions of the sends now come after the message in the completion
     * queue. */
    usleep(200000);
    while (!callback->called && (mrail_clock_now() < end)) {
        mrail_iface_progress(job->iface);
    }
    printf("# %u sent before the queue was full\n", sent);
    return job_result((callback->ret == 0) && (callback->value == memory),
                      "a callback's GET completes while the send queue is full",
                      "%d, value %llx", callback->ret,
                      (unsigned long long)callback->value);
}

static int callback_job(job_t *job)
{
    callback_t callback = {.ret = -1};
    mrail_mem_t *mem;
    int failed = 0;

    job->am = on_am;
    job->arg = &callback;
    if ((job_open(job) != 0) ||
        (mrail_mem_reg(job->engine, &memory, sizeof(memory), &mem) != 0)) {
        return 1;
    }
    mrail_rkey_pack(mem, &job->shared->word[job->rank * 8]);
    job_barrier(job, 0);
    if (mrail_rkey_unpack(&job->shared->word[8], &callback.rkey) != 0) {
        return 1;
    }
    send(job, 1 - job->rank, 0); /* establishes the connection */
    job_flush(job, job_ep(job, 1 - job->rank));
    job_barrier(job, 1);
    if (job->rank == 1) {
        send(job, 0, 1);
    } else {
        failed = source(job);
    }
    job_barrier(job, 1);
    mrail_rkey_release(callback.rkey);
    job_close(job);
    return failed;
}

static unsigned node(unsigned rank)
{
    return rank;
}

int main(void)
{
    int failed = job_run(2, node, 15, callback_job);

    return job_result(failed == 0, "both processes succeed", "%d failed",
                      failed);
}
