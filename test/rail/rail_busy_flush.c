/*
 * Flushes a message to a process that computes. The control thread of that
 * process polls and acknowledges, so the flush completes soon, with any
 * telemetry and keepalive settings.
 *
 * usage: rail_busy_flush
 */
#include "config.h"
#include "job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define COMPUTE_S 5
/* Far below the computing time and the one-second period of telemetry, and far
 * above the wakeup time of a thread on a busy machine. */
#define LIMIT_NS (300 * MRAIL_NS_PER_MS)
#define ROUNDS 3

static void on_am(job_t *job, uint8_t am_id, const void *data, size_t length)
{
    ++*(unsigned *)job->arg;
}

static void send_one(job_t *job, mrail_ep_t *ep)
{
    char byte = 1;

    while (mrail_ep_am_short(ep, 1, NULL, 0, &byte, 1) == -EAGAIN) {
        mrail_iface_progress(job->iface);
    }
    job_flush(job, ep);
}

/* Flushes at different phases of the peer's timers. Returns the longest
 * time. */
static mrail_ns_t longest_flush(job_t *job, mrail_ep_t *ep)
{
    mrail_ns_t longest = 0, start;

    for (unsigned i = 0; i < ROUNDS; ++i) {
        usleep(300000);
        start = mrail_clock_now();
        send_one(job, ep);
        longest = MRAIL_MAX(longest, mrail_clock_now() - start);
    }
    return longest;
}

static int flush_job(job_t *job)
{
    unsigned received = 0;
    mrail_ns_t longest;
    int failed = 0;

    job->am = on_am;
    job->arg = &received;
    if (job_open(job)) {
        return 1;
    }
    if (job->rank == 0) {
        mrail_ep_t *ep = job_ep(job, 1);

        send_one(job, ep);
        job_barrier(job, 1);
        longest = longest_flush(job, ep);
        failed = (longest >= LIMIT_NS);
        printf("%s - flush to a process that computes%s: %.1f ms\n",
               failed ? "not ok" : "ok", failed ? ": too long" : "",
               (double)longest / MRAIL_NS_PER_MS);
    } else {
        job_wait(job, &received, 1, 5);
        job_barrier(job, 1);
        sleep(COMPUTE_S);
    }
    job_barrier(job, 1);
    job_close(job);
    return failed;
}

static unsigned node_of(unsigned rank)
{
    return rank;
}

int main(void)
{
    return job_run(2, node_of, 30, flush_job);
}
