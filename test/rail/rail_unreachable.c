/*
 * All rails go down during a stream of PUTs. The NICs would retry for minutes,
 * but each operation must fail after UCX_MRAIL_PEER_TIMEOUT, exactly once.
 */
#include "config.h"
#include "job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define BYTES (1u << 20)
#define PUTS 8
#define DEAD_S 1

static int source(job_t *job)
{
    mrail_ep_t *ep = job_ep(job, 1);
    mrail_iov_t iov = {.buffer = calloc(1, BYTES), .length = BYTES};
    unsigned posted = 0;
    mrail_ns_t began = 0, took;
    mrail_rkey_t *rkey;
    int ret, refused;

    if ((mrail_mem_reg(job->engine, iov.buffer, BYTES, &iov.mem) != 0) ||
        (mrail_rkey_unpack(&job->shared->word[8], &rkey) != 0)) {
        return 1;
    }
    do {
        ret = mrail_ep_put_zcopy(ep, &iov, 1, job->shared->word[1], rkey,
                                 &job->completed);
        posted += (ret == -EINPROGRESS);
        while ((job->failed == 0) && (posted >= job->completed + PUTS)) {
            mrail_iface_progress(job->iface);
        }
        mrail_iface_progress(job->iface);
        if ((began == 0) && (job->completed >= 4 * PUTS)) {
            if (job_soft_ctl("down") != 0) {
                return job_result(0, "rails go down", "mrail soft ctl failed");
            }
            began = mrail_clock_now();
        }
    } while ((ret == -EAGAIN) || ((ret == -EINPROGRESS) && !job->failed));
    /* If all operations had completed before the rails went down, the next
     * operation waits and then fails. */
    refused = (ret != 0) && (ret != -EAGAIN) && (ret != -EINPROGRESS);
    job_wait(job, &job->completed, posted, 2);
    took = (mrail_clock_now() - began) / MRAIL_NS_PER_MS;
    return job_result(
        (began != 0) && (took >= 1000 * DEAD_S - 100) &&
            (took < 1000 * (DEAD_S + 3)) && ((job->failed != 0) || refused) &&
            (job->completed == posted),
        "without a rail, operations fail in time",
        "%u of %u completed, %u of them failed, after %llu ms", job->completed,
        posted, job->failed, (unsigned long long)took);
}

static int unreachable_job(job_t *job)
{
    mrail_mem_t *mem = NULL;
    int failed = 0;

    if (job_open(job) != 0) {
        return 1;
    }
    if (job->rank == 1) {
        void *memory = calloc(1, BYTES);

        if (mrail_mem_reg(job->engine, memory, BYTES, &mem) != 0) {
            return 1;
        }
        job->shared->word[1] = (uintptr_t)memory;
        mrail_rkey_pack(mem, &job->shared->word[8]);
    }
    job_barrier(job, 0);
    if (job->rank == 0) {
        failed = source(job);
    }
    job_barrier(job, 1);
    mrail_ep_destroy(job_ep(job, !job->rank));
    mrail_iface_destroy(job->iface);
    mrail_engine_close(job->engine);
    return failed;
}

static unsigned node(unsigned rank)
{
    return rank;
}

int main(void)
{
    int failed;

    setenv("UCX_MRAIL_PEER_TIMEOUT", "1", 1);
    setenv("UCX_MRAIL_TIMEOUT", "34s",
           1); /* per attempt, of which there are eight */
    failed = job_run(2, node, 25, unreachable_job);
    return job_result(failed == 0, "both processes succeed", "%d failed",
                      failed);
}
